"""Shapes and times: predictions of planted machines, the work of a shape against that of models that were pruned to it, and the order of times."""

from itertools import permutations

import pytest

from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.settings import PruneSettings
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.search.descent import Descent, around, depths, exit_drops
from hf_albert_plus.search.narrow_embeddings import bytes_of, embedding_that_fits
from hf_albert_plus.search.predicted_time import Pace, PredictedTime
from hf_albert_plus.search.shapes import Slimmed, Work, can_share, shape_of_time
from hf_albert_plus.tasks.glue import get_task
from tests.support.small_models import small_config

MINILM = Work(layers=6, heads=72, columns=9216)


def machine(work):
    return 0.05 + 0.02 * work.layers + 0.003 * work.heads + 0.0001 * work.columns


def test_a_machine_is_found_again():
    works = [MINILM, *(MINILM.slimmed(shape) for shape in (Slimmed(6, 0.3), Slimmed(2, 1.0), Slimmed(4, 0.5)))]
    found = PredictedTime.fitted([Pace(work, machine(work)) for work in works])
    other = MINILM.slimmed(Slimmed(3, 0.7))
    assert found.of(other) == pytest.approx(machine(other), rel=0.02)
    assert min(found.fixed, found.layer, found.head, found.column) >= 0


@pytest.mark.parametrize("layers", [6, 4, 3])
@pytest.mark.parametrize("ms", [0.9, 0.6, 0.4])
def test_the_widest_shape_of_a_time(layers, ms):
    def predicted(shape):
        return machine(MINILM.slimmed(shape))

    widths = [width / 1000 for width in range(80, 1001)]
    fitting = [width for width in widths if predicted(Slimmed(layers, width)) <= ms]
    found = shape_of_time(layers, time=ms, predicted=predicted)
    if not fitting or (len(fitting) == len(widths) and predicted(Slimmed(layers, 1.0)) < 0.8 * ms):
        assert found is None
    else:
        assert found.width == pytest.approx(max(fitting), abs=0.02)


def test_the_work_of_a_shape_is_that_of_the_pruned_model(teachers, data_dir, tmp_path):
    convert(str(teachers / "sst2"), output=tmp_path / "whole")
    config = AlbertPlusConfig.from_pretrained(tmp_path / "whole")
    shape = Slimmed(config.num_hidden_layers, 0.5)
    settings = PruneSettings(
        epochs=1, batch_size=8, max_length=32, heads=1 - shape.heads, columns=0.5, multiple_of=1, examples=16
    )
    prune(str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "cut", settings=settings)
    found, expected = Work.of(AlbertPlusConfig.from_pretrained(tmp_path / "cut")), Work.of(config).slimmed(shape)
    assert found.layers == expected.layers
    assert found.heads == pytest.approx(expected.heads, abs=1)
    assert found.columns == pytest.approx(expected.columns, abs=2)


@pytest.mark.parametrize("true_limit", [0.8, 0.37, 0.2, 0.05])
def test_a_limit_is_closed_in_on(true_limit):
    """Whatever is slower than a limit holds: the search ends at most 15 % above it, in few steps."""
    descent, steps = Descent(slowest=1.0, fastest=0.02), 0
    while (ms := descent.next_ms) is not None:
        descent.tell(ms, holds=ms >= true_limit)
        steps += 1
    assert steps <= 8
    assert true_limit <= (descent.held or 1.0) <= 1.16 * true_limit


def test_a_faster_one_that_holds_takes_back_that_a_slower_one_failed():
    descent = Descent(slowest=1.0, fastest=0.02, held=0.6, all_failed=[0.36])
    descent.tell(0.3, holds=True)
    assert (descent.held, descent.failed) == (0.3, None)


@pytest.mark.parametrize("told", list(permutations([(0.6, False), (0.5, True), (0.3, False), (0.8, True)])))
def test_what_came_of_times_does_not_hang_on_their_order(told):
    descent = Descent(slowest=1.0, fastest=0.02)
    for ms, holds in told:
        descent.tell(ms, holds=holds)
    assert (descent.held, descent.failed) == (0.5, 0.3)


def test_depths():
    assert depths(6) == [6, 4, 3, 2]
    assert depths(12) == [12, 8, 6, 4]
    assert depths(1) == [1]
    assert around(4, [6, 4, 3, 2]) == [6, 4, 3]
    assert around(2, [6, 4, 3, 2]) == [3, 2]
    assert around(5, [6, 4, 3, 2]) == [6, 4]  # of a depth between them, as a shared shape has, what comes nearest
    assert around(7, [12, 8, 6, 4]) == [12, 8, 6]


def test_embeddings_that_fit():
    config = AlbertPlusConfig(
        vocab_size=30_522, embedding_size=384, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536, attention_sharing="none", ffn_sharing="none", max_position_embeddings=512,
    )  # fmt: skip
    whole = Slimmed(6, 1.0)
    # 31,034 rows of 384 bytes, and 6 layers of 4·384² + 2·384·1536.
    assert bytes_of(whole, config, width=None) == 31_034 * 384 + 6 * (4 * 384**2 + 2 * 384 * 1536)
    assert embedding_that_fits(whole, config, max_bytes=30e6) is None
    # With 256 they are 18.7 MB, and the file has 3 % more than its weights.
    assert embedding_that_fits(whole, config, max_bytes=19.5e6) == 256
    assert embedding_that_fits(whole, config, max_bytes=19e6) == 128
    assert embedding_that_fits(whole, config, max_bytes=1) == 64


@pytest.mark.parametrize("rank", [None, 3])
def test_bytes_are_those_of_a_models_matrices(rank):
    """A byte for each entry of a matrix, as int8 has it; positions among them, types and vectors left out."""
    fields = {"attention_sharing": "none", "ffn_sharing": "none"} if rank is None else {"layer_rank": rank}
    config = small_config(**fields, pooler="none", num_labels=1)
    counted = bytes_of(Slimmed(4, 1.0, rank=rank), small_config(attention_sharing="none", ffn_sharing="none"), width=16)
    model = AlbertPlusForSequenceClassification(config)
    left_out = ("token_type_embeddings", "classifier")
    matrices = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and not any(part in name for part in left_out))  # fmt: skip
    assert counted == matrices


def test_a_block_that_layers_share_is_stored_once():
    """As many bytes as the matrices have; it stays with any of its layers."""
    config = small_config(num_hidden_layers=4, num_labels=1, pooler="none")
    model = AlbertPlusForSequenceClassification(config)
    left_out = ("token_type_embeddings", "classifier")
    matrices = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and not any(part in name for part in left_out))  # fmt: skip
    assert bytes_of(Slimmed(4, 1.0), config, width=None) == bytes_of(Slimmed(1, 1.0), config, width=None) == matrices


def test_nothing_slower_than_is_of_use_is_tried():
    descent = Descent(slowest=1.0, fastest=0.02, useful=0.5)
    assert descent.next_ms == 0.5
    descent.tell(0.5, holds=False)
    assert descent.next_ms is None
    # What another budget's search held is slower still: the first time is the slowest of use.
    assert Descent(slowest=1.0, fastest=0.02, useful=0.3, held=0.8).next_ms == 0.3


def test_which_layers_can_share():
    assert can_share(small_config(attention_sharing="none", ffn_sharing="none"))
    for fields in (
        {},
        {"attention_sharing": "none"},
        {"attention_sharing": "none", "ffn_sharing": "none", "block_intermediate_sizes": [8, 8, 8, 8]},
        {"attention_sharing": "none", "ffn_sharing": "none", "bottleneck_size": 16},
        {"attention_sharing": "none", "ffn_sharing": "none", "layer_rank": 2},
    ):
        assert not can_share(small_config(**fields)), fields


def test_shapes_that_share_are_cut_from_whole_layers():
    shared = Slimmed(3, 1.0, rank=16)
    assert shared.name == "layers3-width100-shared16"
    assert shared.in_words() == "3 layers, one block with differences of rank 16"
    assert shared.can_be_cut_from(Slimmed(6, 1.0))
    assert not shared.can_be_cut_from(Slimmed(6, 0.5))
    assert not Slimmed(2, 0.5).can_be_cut_from(shared)


@pytest.mark.parametrize(
    ("max_drop", "expected"), [(1.0, [1.0, 0.5, 0.1]), (0.1, [0.1]), (0.15, [0.15, 0.1]), (None, [0.1]), (0.0, [0.1])]
)
def test_what_exits_may_lose(max_drop, expected):
    assert exit_drops(max_drop) == expected
