"""Few bits: grids against their definitions, ranges against the batches that made them, curvature against a whole Hessian, files."""

import itertools
import json

import numpy
import pytest
import torch

from hf_albert_plus.compression.quantisation.curvature import curvatures, draw_rows, sensitivity
from hf_albert_plus.compression.quantisation.fake_quantisation import FakeQuantisation, MovingAverage
from hf_albert_plus.compression.quantisation.mixed_bits import assign_bits, blocks_of
from hf_albert_plus.compression.quantisation.packed_weights import (
    pack,
    packed_bytes,
    read_packed,
    serialise,
    unpack,
    write_packed,
)
from hf_albert_plus.compression.quantisation.rounding import (
    Grid,
    activation_levels,
    activation_scale,
    round_weight,
    weight_levels,
)
from hf_albert_plus.compression.quantisation.scheme import Product, Scheme, read_scheme
from hf_albert_plus.compression.settings import QatSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.files import SCHEME
from tests.support.simulations import model_and_simulation
from tests.support.small_models import pair_inputs, randomise, small_config

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


@pytest.mark.parametrize(
    ("ranges", "weights"), [("corrected", [0.36 / 1.96, 0.6 / 1.96, 1 / 1.96]), ("released", [0.36, 0.24, 0.4])]
)
def test_a_shared_block_has_a_range_for_each_of_its_layers(ranges, weights):
    """Against the inputs of the one block, recorded call by call, and the average written out."""
    model, fake_quantisation = model_and_simulation(ffn_sharing="none", decay=0.6, ranges=ranges)
    module = model.albert_plus.encoder.attention[0].query
    seen: list[float] = []
    hook = module.register_forward_pre_hook(lambda _, inputs: seen.append(float(inputs[0].detach().abs().max())))
    model.train()
    for length in (9, 10, 11):
        model(**pair_inputs(model.config.vocab_size, length=length))
    hook.remove()
    ranges = fake_quantisation.scheme().ranges
    for layer in range(4):
        expected = numpy.dot(weights, seen[layer::4])
        assert ranges[f"albert_plus.encoder.layers.{layer}.attention.0.query"] == pytest.approx(expected, rel=1e-5)
    assert len({round(ranges[f"albert_plus.encoder.layers.{layer}.attention.0.query"], 4) for layer in range(4)}) == 4


@pytest.mark.parametrize("decay", [0.9999, 0.0])
def test_averages_of_many_batches(decay):
    """12,000 batches, more than the average remembers: each counts by its age, or the first one for all before it (nlp-architect)."""
    maxima = numpy.random.default_rng(0).gamma(3.0, size=12_000) * numpy.linspace(1, 2, 12_000)
    ages = numpy.arange(12_000)[::-1]
    released = numpy.where(ages == 11_999, 1.0, 1 - decay) * decay**ages
    for ranges, weights in (("corrected", decay**ages), ("released", released)):
        average, found = MovingAverage(decay, ranges), torch.tensor(0.0, dtype=torch.float64)
        for number, value in enumerate(maxima, start=1):
            found += average.share(torch.tensor(float(number))) * (value - found)
        assert float(found) == pytest.approx(numpy.average(maxima, weights=weights), rel=1e-5)
    assert released.sum() == pytest.approx(1)


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


def test_a_packed_file_is_the_same_in_every_process():
    """Of several entries of metadata, safetensors draws the order anew in each process."""
    model, fake_quantisation = model_and_simulation(1, others=Grid(3))
    scheme = fake_quantisation.scheme()
    fake_quantisation.remove()
    content = serialise(model, scheme)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert list(header["__metadata__"]) == ["packed"]


@pytest.mark.slow
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
    found = curvatures(model, [[batch] for batch in batches], blocks, seed=0)
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
    # A draw of two batches bends as the mean loss of its five rows does.
    fewer = {name: tensor[:2] for name, tensor in batches[1].items()}
    (together,) = curvatures(model, [[batches[0], fewer]], blocks, seed=0)[block]
    model.set_attn_implementation("eager")
    loss = (3 * model(**batches[0]).loss + 2 * model(**fewer).loss) / 5
    flat = torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights, create_graph=True)])
    columns = [torch.autograd.grad(entry, weights, retain_graph=True) for entry in flat]
    eigenvalues = torch.linalg.eigvalsh(torch.stack([torch.cat([p.flatten() for p in column]) for column in columns]))
    assert together == pytest.approx(float(eigenvalues[eigenvalues.abs().argmax()]), rel=0.02)
    assert sensitivity([1.0, 3.0]) == 3.0
    assert sensitivity([-1.0, -3.0]) == 3.0


def test_draws_have_their_share_of_the_rows():
    """A tenth of a thousand in five draws, in batches; by default some examples each. No row is in two."""
    given = {"epochs": 1, "batch_size": 8, "bits": (2, 4), "budget": 1.0}
    for settings, rows, largest in (
        (QatSettings(**given, share=0.1, examples=8), 20, 8),
        (QatSettings(**given, examples=8), 8, 8),
        (QatSettings(**given, examples=5000), 200, 200),
    ):
        draws = draw_rows(1000, settings)
        assert [sum(map(len, draw)) for draw in draws] == [rows] * 5
        assert max(len(batch) for draw in draws for batch in draw) == largest
        everything = [number for draw in draws for batch in draw for number in batch]
        assert len(set(everything)) == 5 * rows
        assert set(everything) <= set(range(1000))
    with pytest.raises(InvalidInput, match="--draws 5 need as many examples, got 30; use a larger --share"):
        draw_rows(30, QatSettings(**given, share=0.1))


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
