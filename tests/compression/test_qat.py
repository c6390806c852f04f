"""Quantisation-aware training as a stage: graphs against the fake quantisation that was trained, its results, and what is refused."""

import json
import os
import shutil
import socket
from dataclasses import replace

import numpy
import onnx
import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.compression.quantisation.packed_weights import PACKED, read_packed
from hf_albert_plus.compression.quantisation.rounding import Grid
from hf_albert_plus.compression.quantisation.scheme import Scheme, read_scheme
from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import QatSettings
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.parity import (
    AS_TRAINED,
    Agreement,
    ClassAgreement,
    Difference,
    check_agreement,
    check_parity,
    onnx_runner,
)
from hf_albert_plus.errors import InvalidInput, ParityError, QuantisationError
from hf_albert_plus.export.precision.trained import write_trained
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.files import SCHEME
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke
from tests.support.graphs import exported_graph
from tests.support.int8_arithmetic import exact_int8
from tests.support.simulations import model_and_simulation
from tests.support.small_models import pair_inputs, small_config

ARCHITECTURES = {
    "all shared": {},
    "grouped": {"attention_sharing": "none", "ffn_sharing": 2},
    "inverted bottleneck": {"bottleneck_size": 48, "query_key_bottleneck": False},
    "bottleneck": {"bottleneck_size": 16, "num_feedforward_networks": 2, "norm_type": "no_norm"},
    "trigram": {"trigram_embeddings": True},
    "E is H": {"embedding_size": 32},
    "relative positions": {"relative_attention_buckets": 16, "ffn_sharing": 2},
    "layers that differ from their block": {"layer_rank": 3, "ffn_sharing": 2},
    "uneven": {"ffn_sharing": "none", "block_intermediate_sizes": [48, 16, 32, 48]},
}
FORMS = [("int8", Grid()), ("int8", Grid(groups=1)), ("qdq", Grid()), ("nbits", Grid()), ("nbits", Grid(4)), ("nbits", Grid(3)), ("nbits", Grid(2, 16))]  # fmt: skip


@pytest.mark.slow
@exact_int8
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
        assert counts.quantised_products == counts.weight_products == len(scheme.products)
        assert bool(counts.float_tables) == (form == "qdq")
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
    assert list(counts.kept_fp32) == kept
    assert counts.quantised_products == counts.weight_products - 1


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


@pytest.mark.slow
@exact_int8
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
        assert facts["agreement"]["predictions"] == 96  # all that there are: up to a thousand are counted
        assert facts["agreement"]["same"] >= 95
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
        check_agreement(ClassAgreement(predictions, max_abs_difference=0.1, same=predictions - others), what="x")
    for others, predictions in ((2, 64), (3, 2000)):
        with pytest.raises(
            ParityError, match="must be those of the model as it was trained, .* train it with more bits or longer"
        ):
            check_agreement(ClassAgreement(predictions, max_abs_difference=0.1, same=predictions - others), what="x")
    check_agreement(None, what="x")
    check_agreement(Agreement(64, max_abs_difference=0.1), what="x")
    apart = Difference("logits", max_abs=0.5, scaled=0.4, cosine=0.998, inputs="8 of the examples")
    with pytest.raises(ParityError, match="at least 0.999, .* got logits 0.5 .* train it with more bits or longer"):
        check_parity([apart], what="onnx-nbits", precision=AS_TRAINED)
    assert (
        check_parity([replace(apart, cosine=0.9995, scaled=0.05)], what="x", precision=AS_TRAINED).least_cosine
        == 0.9995
    )


@pytest.mark.slow
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


def test_a_model_with_exits_is_refused(classifier_dir, data_dir, tmp_path):
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


@pytest.mark.slow
def test_processes_see_one_range(tmp_path):
    """The range of a batch is that of all its rows, whichever process has them."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    torch.multiprocessing.spawn(_follow, args=(port, tmp_path), nprocs=2)
    one, other = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one == other
    assert len(set(one.values())) > 10


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_killed_run_goes_on_with_its_ranges(teachers, data_dir, tmp_path, monkeypatch):
    from hf_albert_plus.training import loop as training
    from hf_albert_plus.training.callbacks import Checkpoints

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
        ({"share": 0.0}, "--share must be a share above 0, at most 1"),
        ({"ranges": "mean"}, "--ranges must be one of .*, got 'mean'"),
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
