"""Few bits: grids against their definitions, ranges against the batches that made them, curvature against a whole Hessian, packed
files, and graphs against the fake_quantisation that was trained."""

import copy
import itertools
import json
import os
import shutil
import socket

import numpy
import onnx
import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.compression import QatSettings, qat
from hf_albert_plus.compression.quantisation import SCHEME, FakeQuantisation, Grid, Product, Scheme, read_scheme
from hf_albert_plus.compression.quantisation.assignment import assign_bits
from hf_albert_plus.compression.quantisation.curvature import blocks_of, curvatures, sensitivity
from hf_albert_plus.compression.quantisation.packing import (
    PACKED,
    pack,
    packed_bytes,
    read_packed,
    unpack,
    write_packed,
)
from hf_albert_plus.compression.quantisation.rounding import (
    activation_levels,
    activation_scale,
    round_weight,
    weight_levels,
)
from hf_albert_plus.errors import InvalidInput, ParityError, QuantisationError
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.export.parity import check_agreement, onnx_runner
from hf_albert_plus.export.trained import write_trained
from hf_albert_plus.glue import get_task, load_split
from tests.conftest import exported_graph, invoke, pair_inputs, randomise, small_config

GRIDS = [Grid(), Grid(groups=1), Grid(8, 5), Grid(4), Grid(3, 7), Grid(2), Grid(2, 128)]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)


def weight(rows=12, columns=33):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)) + 0.3


@every_grid
def test_a_rounded_weight_is_the_nearest_value_of_its_groups_grid(grid):
    """Against the grid written out: for every group its values, and for every weight the nearest of them."""
    values = weight()
    rounded = round_weight(values, grid)
    count = min(len(values), grid.groups or len(values))
    for group in range(count):
        rows = [row for row in range(len(values)) if row * count // len(values) == group]
        own = values[rows]
        if grid.bits == 8:
            grid_values = torch.arange(-127, 128) * (own.abs().max() / 127)
        else:
            low, high = min(0.0, float(own.min())), max(0.0, float(own.max()))
            step = (high - low) / (2**grid.bits - 1)
            grid_values = (torch.arange(2**grid.bits) - round(-low / step)) * step
        distance = (own[..., None] - grid_values).abs().min(dim=-1).values
        torch.testing.assert_close((own - rounded[rows]).abs(), distance, rtol=1e-4, atol=1e-6)
        assert len(rounded[rows].unique()) <= 2**grid.bits


def test_eight_bits_are_onnxruntimes():
    from onnxruntime.quantization.quant_utils import QuantType, quantize_data

    values = weight()
    for row in values:
        *_, expected = quantize_data(row.numpy(), QuantType.QInt8.tensor_type, symmetric=True)
        levels, _ = weight_levels(row[None], Grid())
        assert levels[0].int().tolist() == expected.tolist()


def test_gradients_pass_straight_through():
    values = weight().requires_grad_()
    hidden = weight().requires_grad_()
    (round_weight(values, Grid(4)) * 3).sum().backward()
    (activation_levels(hidden, torch.tensor(0.01)) * 0.03).sum().backward()
    torch.testing.assert_close(values.grad, torch.full_like(values, 3))
    torch.testing.assert_close(hidden.grad, torch.full_like(hidden, 3))


def test_activations_saturate_as_int8_does():
    hidden = torch.tensor([-5.0, -1.281, -1.27, -0.015, 0.005, 0.015, 1.3])
    levels = activation_levels(hidden, torch.tensor(0.01))
    assert levels.tolist() == [-128, -128, -127, -2, 0, 2, 127]  # halves to the even level


def test_a_row_of_zeros_stays():
    values = torch.zeros(3, 4)
    for grid in GRIDS:
        assert (round_weight(values, grid) == 0).all()


def model_and_simulation(steps=0, *, model=None, weights=None, others=None, decay=0.9, **fields):
    model = copy.deepcopy(model) or randomise(
        AlbertPlusForSequenceClassification(
            small_config(
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout_prob=0.0, **fields
            )
        )
    )
    fake_quantisation = FakeQuantisation(model, weights=weights, others=others, decay=decay)
    model.train()
    for length in range(8, 8 + steps):
        with torch.no_grad():
            model(**pair_inputs(model.config.vocab_size, length=length))
    model.eval()
    return model, fake_quantisation


def test_autocast_multiplies_the_same_levels():
    """In bf16 only what a product gives is rounded, as in any training in bf16: its levels are those of int8."""
    model, fake_quantisation = model_and_simulation(2)
    module = model.albert_plus.encoder.ffn[0].intermediate
    hidden = torch.randn(3, 32, generator=torch.Generator().manual_seed(2))
    levels, (scale, _) = module.calls.levels(module)
    for number in range(4):
        step = activation_scale(module.amax[number])
        exact = (activation_levels(hidden, step).double() @ levels.double().T) * (step * scale[:, 0]) + module.bias
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            module.calls._begin()
            module.calls._layers.append(f"albert_plus.encoder.layers.{number}")
            found = module(hidden)
        assert float(((found - exact).abs() / (exact - module.bias).abs().clamp(min=1e-6)).detach().max()) <= 2**-8
    fake_quantisation.remove()


def test_a_shared_block_has_a_range_for_each_of_its_layers():
    """Against the inputs of the one block, recorded call by call, and the average written out."""
    model, fake_quantisation = model_and_simulation(ffn_sharing="none", decay=0.6)
    module = model.albert_plus.encoder.attention[0].query
    seen: list[float] = []
    hook = module.register_forward_pre_hook(lambda _, inputs: seen.append(float(inputs[0].detach().abs().max())))
    model.train()
    for length in (9, 10, 11):
        model(**pair_inputs(model.config.vocab_size, length=length))
    hook.remove()
    ranges = fake_quantisation.scheme().ranges
    for layer in range(4):
        first, second, third = seen[layer::4]
        expected = 0.6 * (first + second) / 2 + 0.4 * third  # a third of the third would be less than 1 - decay
        assert ranges[f"albert_plus.encoder.layers.{layer}.attention.0.query"] == pytest.approx(expected, rel=1e-5)
    assert len({round(ranges[f"albert_plus.encoder.layers.{layer}.attention.0.query"], 4) for layer in range(4)}) == 4


def test_only_training_moves_ranges():
    model, fake_quantisation = model_and_simulation(2)
    before = fake_quantisation.scheme()
    model(**pair_inputs(model.config.vocab_size, length=20))
    assert fake_quantisation.scheme() == before


def test_fake_quantisation_leaves_the_model_as_it_was():
    plain = randomise(AlbertPlusForSequenceClassification(small_config()))
    model, fake_quantisation = model_and_simulation(1, model=plain)
    inputs = pair_inputs(model.config.vocab_size)
    rounded = model(**inputs).logits
    scheme = fake_quantisation.scheme()
    fake_quantisation.remove()
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert torch.equal(model(**inputs).logits, plain(**inputs).logits)
    assert not torch.equal(rounded, plain(**inputs).logits)
    FakeQuantisation.of(model, scheme)
    assert torch.equal(model(**inputs).logits, rounded)


def test_a_scheme_survives_its_file(tmp_path):
    scheme = Scheme({"a": Grid(4, 16)}, {"b": Grid(groups=1)}, {"a#2": Product("a", 1.25)})
    scheme.write(tmp_path)
    assert read_scheme(tmp_path) == scheme
    assert read_scheme(tmp_path / "none") is None
    (tmp_path / SCHEME).write_text(json.dumps({"weights": {"a": {"bit": 4}}}))
    with pytest.raises(InvalidInput, match="train it again"):
        read_scheme(tmp_path)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("columns", [1, 7, 8, 33])
def test_packing_leaves_no_gaps(bits, columns):
    levels = numpy.random.default_rng(0).integers(0, 2**bits, (5, columns)).astype(numpy.uint8)
    packed = pack(levels, bits)
    assert packed.shape == (5, -(-columns * bits // 8))
    assert (unpack(packed, bits, columns) == levels).all()
    # By hand: the first level is in the lowest bits of the first byte.
    assert packed[0, 0] & (2**bits - 1) == levels[0, 0]


def test_a_packed_file_holds_what_was_trained(tmp_path):
    model, fake_quantisation = model_and_simulation(1, others=Grid(3))
    inputs = pair_inputs(model.config.vocab_size)
    expected = model(**inputs).logits
    scheme = fake_quantisation.scheme()
    fake_quantisation.remove()
    write_packed(model, scheme, tmp_path / "packed.safetensors")
    model.load_state_dict(read_packed(tmp_path / "packed.safetensors"))
    FakeQuantisation.of(model, scheme)
    assert torch.equal(model(**inputs).logits, expected)
    module = model.albert_plus.encoder.ffn[0].intermediate
    assert packed_bytes(module.weight, Grid(3)) == 48 * (32 * 3 // 8 + 5)
    assert packed_bytes(module.weight, Grid(3, 4)) == 48 * 12 + 4 * 5


def test_curvature_is_the_hessians_top_eigenvalue():
    """Against the whole Hessian of a block, column by column, and its eigenvalues."""
    config = small_config(
        hidden_size=8, embedding_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=2
    )
    model = randomise(AlbertPlusForSequenceClassification(config)).double()
    inputs = pair_inputs(config.vocab_size)
    batches = [{**inputs, "labels": labels} for labels in (torch.tensor([0, 1, 1]), torch.tensor([1, 1, 0]))]
    blocks = blocks_of(model)
    assert list(blocks) == ["albert_plus.encoder.attention.0", "albert_plus.encoder.ffn.0"]
    found = curvatures(model, batches, blocks, seed=0)
    model.set_attn_implementation("eager")
    for block, paths in blocks.items():
        weights = [model.get_submodule(path).weight for path in paths]
        for batch, value in zip(batches, found[block], strict=True):
            gradients = torch.autograd.grad(model(**batch).loss, weights, create_graph=True)
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            columns = [torch.autograd.grad(entry, weights, retain_graph=True) for entry in flat]
            hessian = torch.stack([torch.cat([part.flatten() for part in column]) for column in columns])
            eigenvalues = torch.linalg.eigvalsh(hessian)
            largest = eigenvalues[eigenvalues.abs().argmax()]
            assert value == pytest.approx(float(largest), rel=0.02)
    assert sensitivity([1.0, 3.0]) == 3.0
    assert sensitivity([-1.0, -3.0]) == 3.0


def test_bits_under_a_budget_are_the_best_that_fit():
    """Against every assignment tried: none that fits and gives no less sensitive block more bits has a smaller sum."""
    generator = torch.Generator().manual_seed(0)
    blocks = ["a", "b", "c", "d"]
    sensitivities = {block: float(torch.rand(1, generator=generator)) for block in blocks}
    sizes = {block: {bits: bits * (10 + i) for bits in (2, 3, 4, 8)} for i, block in enumerate(blocks)}
    errors = {
        block: {bits: float(torch.rand(1, generator=generator)) * 2.0**-bits for bits in (2, 3, 4, 8)}
        for block in blocks
    }
    for budget in (92, 120, 150, 260, 400):
        found = assign_bits(sensitivities, sizes=sizes, errors=errors, budget=budget)
        options = []
        for bits in itertools.product((2, 3, 4, 8), repeat=4):
            chosen = dict(zip(blocks, bits, strict=True))
            ordered = all(chosen[a] >= chosen[b] for a in blocks for b in blocks if sensitivities[a] > sensitivities[b])
            if ordered and sum(sizes[block][chosen[block]] for block in blocks) <= budget:
                options.append(sum(sensitivities[block] * errors[block][chosen[block]] for block in blocks))
        assert sum(sensitivities[block] * errors[block][found[block]] for block in blocks) == pytest.approx(
            min(options)
        )
    with pytest.raises(InvalidInput, match="fewest bits"):
        assign_bits(sensitivities, sizes=sizes, errors=errors, budget=91)


ARCHITECTURES = {
    "all shared": {},
    "grouped": {"attention_sharing": "none", "ffn_sharing": 2},
    "bottleneck": {"bottleneck_size": 16, "num_feedforward_networks": 2, "norm_type": "no_norm"},
    "trigram": {"trigram_embeddings": True},
    "E is H": {"embedding_size": 32},
    "uneven": {"ffn_sharing": "none", "block_intermediate_sizes": [48, 16, 32, 48]},
}
FORMS = [("int8", Grid()), ("int8", Grid(groups=1)), ("qdq", Grid()), ("nbits", Grid()), ("nbits", Grid(4)), ("nbits", Grid(3)), ("nbits", Grid(2, 16))]  # fmt: skip


@pytest.mark.parametrize("fields", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_what_was_trained_is_what_runs(fields, tmp_path):
    """Every form and grid in onnxruntime against the fake_quantisation in torch. An input that lies on the border of two steps may take the
    other one: of the outputs of all forms at most a few are further away than rounding errors of fp32."""
    original = exported_graph(tmp_path / "fp32.onnx", **fields)
    flips = 0
    for form, grid in FORMS:
        model, fake_quantisation = model_and_simulation(2, model=original, others=grid)
        scheme = fake_quantisation.scheme()
        counts = write_trained(tmp_path / "fp32.onnx", tmp_path / "few.onnx", scheme=scheme, form=form)
        assert counts["quantised_products"] == counts["weight_products"] == len(scheme.products)
        assert bool(counts["float_tables"]) == (form == "qdq")
        onnx.checker.check_model(onnx.load(tmp_path / "few.onnx"))
        run = onnx_runner(tmp_path / "few.onnx")
        for length in (1, 9, 30):
            inputs = pair_inputs(model.config.vocab_size, length=length, batch=1 if length == 1 else 3)
            with torch.no_grad():
                expected = model(**inputs).logits
            found = run(inputs)["logits"]
            torch.testing.assert_close(found, expected, rtol=0, atol=0.02)
            flips += int(((found - expected).abs() > 2e-6).any(dim=-1).sum())
    assert flips <= 3  # of 49 rows


def test_weights_are_stored_once_and_packed(tmp_path):
    exported_graph(tmp_path / "fp32.onnx")
    sizes = {}
    for bits in (2, 4, 8):
        _, fake_quantisation = model_and_simulation(1, others=Grid(bits))
        write_trained(tmp_path / "fp32.onnx", tmp_path / "few.onnx", scheme=fake_quantisation.scheme(), form="nbits")
        graph = onnx.load(tmp_path / "few.onnx").graph
        sizes[bits] = sum(
            numpy.prod(t.dims) for t in graph.initializer if t.name.endswith(".levels") and len(t.dims) == 3
        )
    parameters = (
        4 * 32 * 32 + 2 * 32 * 48 + 16 * 32 + 32 * 32 + 2 * 32
    )  # one block, the projection, the pooler, the classifier
    for bits, size in sizes.items():
        assert parameters * bits / 8 <= size <= 1.2 * parameters * bits / 8  # rows are filled up to whole blocks


def test_products_can_stay_in_fp32(tmp_path):
    exported_graph(tmp_path / "fp32.onnx")
    _, fake_quantisation = model_and_simulation(1)
    kept = ["albert_plus.encoder.layers.2.ffn.0.output"]
    counts = write_trained(
        tmp_path / "fp32.onnx", tmp_path / "few.onnx", scheme=fake_quantisation.scheme(), form="int8", keep_fp32=kept
    )
    assert counts["kept_fp32"] == kept
    assert counts["quantised_products"] == counts["weight_products"] - 1


def test_what_a_scheme_does_not_know_is_no_silent_fp32(tmp_path):
    exported_graph(tmp_path / "fp32.onnx")
    _, fake_quantisation = model_and_simulation(1)
    scheme = fake_quantisation.scheme()
    few = dict(list(scheme.products.items())[:-1])
    with pytest.raises(QuantisationError):
        write_trained(
            tmp_path / "fp32.onnx",
            tmp_path / "few.onnx",
            scheme=Scheme(scheme.weights, scheme.tables, few),
            form="int8",
        )
    with pytest.raises(InvalidInput, match="onnx-nbits"):
        write_trained(tmp_path / "fp32.onnx", tmp_path / "few.onnx", scheme=Scheme(dict.fromkeys(scheme.weights, Grid(4)), {}, few), form="int8")  # fmt: skip


SHORT = {"epochs": 0.5, "batch_size": 8, "max_length": 32, "precision": "fp32", "learning_rate": 1e-4, "decay": 0.9}


def undecided(source, data_dir, out):
    """A classifier that puts as many rows into one class as into the other."""
    shutil.copytree(source, out)
    model, tokenizer = (
        AlbertPlusForSequenceClassification.from_pretrained(out).eval(),
        AutoTokenizer.from_pretrained(out),
    )
    texts = load_split(str(data_dir), get_task("sst2"), "validation")["sentence"][:]
    with torch.no_grad():
        model.classifier.weight.mul_(10)
        logits = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
        model.classifier.bias[1] -= (logits[:, 1] - logits[:, 0]).median()
    model.save_pretrained(out)
    return out


def test_a_model_trained_for_int8_runs_in_int8(classifier_dir, data_dir, tmp_path):
    """Graphs that need no calibration and predict what was trained, on examples of both classes."""
    out = tmp_path / "int8"
    invoke("qat", "--model", undecided(classifier_dir, data_dir, tmp_path / "undecided"), "--data", data_dir, "--task", "sst2", "--epochs", 0.5, "--max-length", 32,
           "--precision", "fp32", "--learning-rate", 1e-6, "--groups", 4, "--out", out)  # fmt: skip
    scheme = read_scheme(out)
    assert scheme is not None
    assert scheme.is_int8
    assert all(product.amax > 0 for product in scheme.products.values())
    kept = "albert_plus.encoder.layers.1.attention.0.query"
    invoke("export", out, "--to", "onnx-int8", "--to", "onnx-qdq", "--to", "onnx-nbits", "--data", data_dir, "--task", "sst2", "--examples", 64,
           "--keep-fp32", kept, "--out", tmp_path / "exported")  # fmt: skip
    result = json.loads((tmp_path / "exported" / "record.json").read_text())["result"]
    assert not result["exports"]["onnx-qdq"]["tensorrt_unsupported"]
    for facts in result["exports"].values():
        assert facts["agreement"]["predictions"] == 64
        assert facts["agreement"]["same"] >= 63
        assert facts["ranges"] == "as trained"
        assert facts["kept_fp32"] == [kept]
    invoke("export", out, "--to", "onnx-int8", "--out", tmp_path / "int8-alone")
    for name in ("torch-qat", "onnx-int8"):
        invoke("eval", f"{tmp_path / 'int8-alone'}:{name}", "--task", "sst2", "--data", data_dir, "--max-length", 32, "--json",
               tmp_path / f"{name}.json")  # fmt: skip
    simulated, int8 = (
        json.loads((tmp_path / f"{name}.json").read_text())["rows"][0]["runs"][0]["predictions"]
        for name in ("torch-qat", "onnx-int8")
    )
    assert set(simulated) == {0, 1}
    assert sum(one != other for one, other in zip(simulated, int8, strict=True)) <= 1
    with pytest.raises(InvalidInput, match="exported as it was trained, to onnx-int8, onnx-qdq, onnx-nbits, got onnx,"):
        invoke("export", out, "--to", "onnx", "--out", tmp_path / "no")
    scheme_file = tmp_path / "int8-alone" / SCHEME
    scheme_file.write_text(scheme_file.read_text().replace("127", "126") + " ")
    with pytest.raises(InvalidInput, match="must be the file that"):
        Engine.load(tmp_path / "int8-alone", "torch-qat")


def test_a_graph_that_predicts_something_else_is_no_export():
    for others, predictions in ((1, 64), (2, 2000)):
        check_agreement(
            {"agreement": {"predictions": predictions, "same": predictions - others, "max_abs_difference": 0.1}},
            what="x",
        )
    for others, predictions in ((2, 64), (3, 2000)):
        with pytest.raises(ParityError, match="predictions must be those of the model as it was trained"):
            check_agreement(
                {"agreement": {"predictions": predictions, "same": predictions - others, "max_abs_difference": 0.1}},
                what="x",
            )
    assert check_agreement({}, what="x") == {}


def test_a_regression_is_trained_and_compared_by_its_values(teachers, data_dir, tmp_path):
    settings = QatSettings(**SHORT)
    qat(str(teachers / "stsb"), data=str(data_dir), task=get_task("stsb"), output=tmp_path / "q", settings=settings)
    invoke(
        "export",
        tmp_path / "q",
        "--to",
        "onnx-int8",
        "--data",
        data_dir,
        "--task",
        "stsb",
        "--examples",
        16,
        "--out",
        tmp_path / "e",
    )
    facts = json.loads((tmp_path / "e" / "record.json").read_text())["result"]["exports"]["onnx-int8"]
    assert set(facts["agreement"]) == {"predictions", "max_abs_difference"}
    assert facts["agreement"]["max_abs_difference"] < 0.1


def test_exits_are_trained_afterwards(classifier_dir, data_dir, tmp_path):
    model = AlbertPlusForSequenceClassification(small_config(exit_layers=[2], exit_head="pooled"))
    model.save_pretrained(tmp_path / "exits")
    with pytest.raises(InvalidInput, match="--model must have no exits"):
        qat(
            str(tmp_path / "exits"),
            data=str(data_dir),
            task=get_task("sst2"),
            output=tmp_path / "q",
            settings=QatSettings(**SHORT),
        )


def _follow(rank, port, folder):
    os.environ |= {"WORLD_SIZE": "2", "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    model, fake_quantisation = model_and_simulation()
    model.train()
    inputs = {name: tensor[rank : rank + 1] for name, tensor in pair_inputs(model.config.vocab_size).items()}
    model(**inputs)
    (folder / f"{rank}.json").write_text(json.dumps(fake_quantisation.scheme().ranges))
    torch.distributed.destroy_process_group()


def test_processes_see_one_range(tmp_path):
    """The range of a batch is that of all its rows, whichever process has them."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    torch.multiprocessing.spawn(_follow, args=(port, tmp_path), nprocs=2)
    one, other = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one == other
    assert len(set(one.values())) > 10


def test_bits_of_blocks_keep_to_a_budget(teachers, data_dir, tmp_path):
    settings = QatSettings(**SHORT, bits=(2, 4, 8), budget=0.07, draws=2, examples=8)
    record = qat(
        str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "q", settings=settings
    )
    bits, curvature = record.result["bits"], record.result["curvature"]
    ranked = sorted(bits, key=lambda block: curvature[block][-1], reverse=True)
    assert [bits[block] for block in ranked] == sorted(bits.values(), reverse=True)
    assert len(set(bits.values())) > 1
    packed = read_packed(tmp_path / "q" / PACKED)
    for name, tensor in AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "q").state_dict().items():
        assert packed[name].shape == tensor.shape
    assert record.result["packed_bytes"] == (tmp_path / "q" / PACKED).stat().st_size <= 0.07e6
    with pytest.raises(InvalidInput, match="export onnx-nbits"):
        invoke("export", tmp_path / "q", "--to", "onnx-int8", "--out", tmp_path / "no")
    invoke("export", tmp_path / "q", "--to", "onnx-nbits", "--out", tmp_path / "yes")
    facts = json.loads((tmp_path / "yes" / "record.json").read_text())["result"]["exports"]["onnx-nbits"]
    assert set(facts["products_of_bits"]) == {str(width) for width in {*bits.values(), 8}}


def test_a_killed_run_goes_on_with_its_ranges(teachers, data_dir, tmp_path, monkeypatch):
    from hf_albert_plus import training
    from hf_albert_plus.callbacks import Checkpoints

    settings = QatSettings(**SHORT)
    given = {"data": str(data_dir), "task": get_task("sst2"), "settings": settings, "checkpoint_seconds": 0.0}
    qat(str(teachers / "sst2"), output=tmp_path / "whole", **given)

    class Dies(Checkpoints):
        def on_save(self, args, state, control, **kwargs):
            super().on_save(args, state, control, **kwargs)
            if state.global_step >= 3:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training, "Checkpoints", Dies)
        with pytest.raises(KeyboardInterrupt):
            qat(str(teachers / "sst2"), output=tmp_path / "killed", **given)
    record = qat(str(teachers / "sst2"), output=tmp_path / "killed", **given)
    assert record.result["resumed_at_step"] >= 3
    assert read_scheme(tmp_path / "killed") == read_scheme(tmp_path / "whole")
    whole, killed = (
        AlbertPlusForSequenceClassification.from_pretrained(tmp_path / name).state_dict()
        for name in ("whole", "killed")
    )
    for name, tensor in whole.items():
        assert torch.equal(tensor, killed[name]), name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": (5,)}, "--bits must be one or more of 2, 3, 4, 8"),
        ({"bits": (2, 4)}, "several --bits are chosen from under a --budget"),
        ({"bits": (4,), "budget": 3.0}, "several --bits are chosen from under a --budget"),
        ({"groups": 0}, "--groups must be at least 1"),
        ({"decay": 1.0}, "--decay must be from 0 up to, not including, 1"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(InvalidInput, match=message):
        QatSettings(epochs=1, batch_size=8, **given)


def test_a_model_that_was_not_trained_for_it(classifier_dir, teachers, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="albert-plus qat"):
        invoke("export", classifier_dir, "--to", "onnx-nbits", "--out", tmp_path / "no")
    with pytest.raises(InvalidInput, match="albert-plus qat"):
        invoke("eval", f"{classifier_dir}:torch-qat", "--task", "sst2", "--data", data_dir, "--max-length", 32)
    with pytest.raises(InvalidInput, match="--budget must hold the packed model with 2 bits in every block"):
        invoke("qat", "--model", teachers / "sst2", "--data", data_dir, "--task", "sst2", "--bits", "2,4", "--budget", 0.001, "--draws", 2,
               "--examples", 4, "--max-length", 32, "--out", tmp_path / "q")  # fmt: skip
    with pytest.raises(InvalidInput, match="whole numbers"):
        invoke(
            "qat",
            "--model",
            teachers / "sst2",
            "--data",
            data_dir,
            "--task",
            "sst2",
            "--bits",
            "four",
            "--out",
            tmp_path / "q",
        )
