"""Distillation losses against numbers worked by hand, loops over single tokens, and the laws they all keep."""

import math

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from hf_albert_plus.distillation.losses import attention_scores
from hf_albert_plus.distillation.losses.attention_scores import attention_score_loss
from hf_albert_plus.distillation.losses.attention_transfer import attention_transfer_loss
from hf_albert_plus.distillation.losses.cosine import cosine_loss
from hf_albert_plus.distillation.losses.embeddings import embedding_loss
from hf_albert_plus.distillation.losses.feature_maps import feature_map_loss, feature_statistics_losses
from hf_albert_plus.distillation.losses.hidden_states import hidden_state_loss
from hf_albert_plus.distillation.losses.masked_lm import masked_lm_loss
from hf_albert_plus.distillation.losses.patient import patient_loss
from hf_albert_plus.distillation.losses.reductions import mean_over_tokens
from hf_albert_plus.distillation.losses.relations import relation_loss, split_heads
from hf_albert_plus.distillation.losses.self_distillation import self_distillation_loss
from hf_albert_plus.distillation.losses.shared_projections import down_projection_loss, up_projection_loss
from hf_albert_plus.distillation.losses.soft_targets import (
    soft_cross_entropy_loss,
    soft_target_loss,
    token_soft_target_loss,
)
from hf_albert_plus.errors import InvalidInput

WIDTH, HEADS = 4, 3
LN9 = math.log(9)
REAL = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]])
UNEVEN = torch.arange(16, dtype=torch.float64).view(4, 4).sin()


def of_labels(student, teacher, mask):
    """The teacher stands for labels: the index of its largest value."""
    return masked_lm_loss(student, teacher.nan_to_num().argmax(-1).masked_fill(mask == 0, -100))


def of_relation(student, teacher, mask):
    """Left states in the first half of the width, right ones in the second, at two heads in place of three."""
    student, teacher = ([split_heads(half, 2) for half in states.chunk(2, dim=-1)] for states in (student, teacher))
    return relation_loss(tuple(student), tuple(teacher), mask)


# Every loss over tokens as a function of student, teacher and mask, and the axes of what it takes.
TOKEN_LOSSES = {
    "soft targets": (lambda s, t, m: token_soft_target_loss(s, t, m, temperature=3), "BSH"),
    "masked lm": (of_labels, "BSH"),
    "cosine": (cosine_loss, "BSH"),
    "hidden states": (hidden_state_loss, "BSH"),
    "projected hidden states": (lambda s, t, m: hidden_state_loss(s, t, m, projection=lambda x: x @ UNEVEN), "BSH"),
    "embeddings": (embedding_loss, "BSH"),
    "feature maps": (feature_map_loss, "BSH"),
    "feature means": (lambda *tensors: feature_statistics_losses(*tensors)[0], "BSH"),
    "feature variances": (lambda *tensors: feature_statistics_losses(*tensors)[1], "BSH"),
    "attention scores": (attention_score_loss, "BNSS"),
    "attention transfer": (attention_transfer_loss, "BNSS"),
    "relations": (of_relation, "BNSD"),
}
over_tokens = pytest.mark.parametrize(("loss", "axes"), TOKEN_LOSSES.values(), ids=TOKEN_LOSSES)


def states(axes: str, *, seed: int, batch: int = 3, length: int = 4) -> torch.Tensor:
    sizes = {"B": batch, "S": length, "H": WIDTH, "N": HEADS, "D": 2 * WIDTH}
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*(sizes[axis] for axis in axes), dtype=torch.float64, generator=generator)


def example(tensor: torch.Tensor, axes: str, index: int) -> torch.Tensor:
    """One example as a batch, its padding cut off."""
    tensor = tensor[index : index + 1]
    for dim in (dim for dim, axis in enumerate(axes) if axis == "S"):
        tensor = tensor.index_select(dim, REAL[index].nonzero().flatten())
    return tensor


def padded_with(value: float, tensor: torch.Tensor, axes: str) -> torch.Tensor:
    """Overwrites padding: rows, and columns where there are two axes of tokens."""
    tensor = tensor.clone()
    for dim in (dim for dim, axis in enumerate(axes) if axis == "S"):
        tensor.movedim(dim, 1)[REAL == 0] = value
    return tensor


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def over_rows(student_BNSS, teacher_BNSS, mask_BS, of_row) -> float:
    """Loops over examples, heads and rows; `of_row` sees one row's real keys."""
    losses = []
    for student_NSS, teacher_NSS, mask_S in zip(student_BNSS, teacher_BNSS, mask_BS, strict=True):
        real = mask_S.nonzero().flatten().tolist()
        rows = [(n, row) for n in range(len(student_NSS)) for row in real]
        pairs = [[scores[n, row, real].tolist() for scores in (student_NSS, teacher_NSS)] for n, row in rows]
        losses.append(sum(of_row(*pair) for pair in pairs) / len(pairs))
    return sum(losses) / len(losses)


def squared(student, teacher):
    return sum((s - t) ** 2 for s, t in zip(student, teacher, strict=True)) / len(student)


def entropy_of(student, teacher):
    return -sum(t * math.log(s) for s, t in zip(softmax(student), softmax(teacher), strict=True))


def divergence_of(student, teacher):
    return entropy_of(student, teacher) - entropy_of(teacher, teacher)


@over_tokens
@pytest.mark.parametrize("mask", [REAL, REAL.float(), REAL.bool()], ids=["long", "float", "bool"])
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -1e4])
def test_a_batch_is_the_mean_of_its_examples_whatever_the_padding_holds(loss, axes, mask, garbage):
    student, teacher = states(axes, seed=1), states(axes, seed=2)
    padded = padded_with(garbage, student, axes).requires_grad_()
    batch = loss(padded, padded_with(garbage, teacher, axes), mask)
    batch.backward()
    student.requires_grad_()
    pairs = [(example(student, axes, index), example(teacher, axes, index)) for index in range(len(REAL))]
    examples = [loss(*pair, torch.ones(1, int(real_S.sum()))) for pair, real_S in zip(pairs, REAL, strict=True)]
    expected = torch.stack(examples).mean()
    expected.backward()
    torch.testing.assert_close(batch, expected)
    torch.testing.assert_close(padded.grad, student.grad)
    assert student.grad.abs().sum() > 0


@over_tokens
def test_an_example_without_tokens_counts_zero(loss, axes):
    student, teacher = states(axes, seed=1).requires_grad_(), states(axes, seed=2)
    mask = REAL.clone()
    mask[2] = 0
    batch = loss(student, teacher, mask)
    batch.backward()
    torch.testing.assert_close(batch, loss(student[:2], teacher[:2], mask[:2]) * 2 / 3)
    assert student.grad.isfinite().all()
    assert not student.grad[2].any()


@over_tokens
def test_gradients_are_those_of_differences(loss, axes):
    student, teacher = states(axes, seed=1), states(axes, seed=2)
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher, REAL), student.requires_grad_())


@pytest.mark.parametrize("name", sorted(TOKEN_LOSSES.keys() - {"masked lm", "projected hidden states"}))
def test_the_teacher_is_the_minimum(name):
    """Zero there, but for the cross-entropy, which is the entropy."""
    loss, axes = TOKEN_LOSSES[name]
    teacher = states(axes, seed=2)
    student = teacher.clone().requires_grad_()
    value = loss(student, teacher, REAL)
    value.backward()
    expected = over_rows(teacher, teacher, REAL, entropy_of) if loss is attention_transfer_loss else 0
    assert value.item() == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(student.grad, torch.zeros_like(teacher), atol=1e-7, rtol=0)


@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (lambda s, t: soft_target_loss(s, t, temperature=2), (3, 4)),
        (lambda s, t: soft_target_loss(s, t, temperature=2), (3, 1)),
        (lambda s, t: soft_cross_entropy_loss(s, t, temperature=2), (3, 4)),
        (lambda s, t: self_distillation_loss([s, 2 * s], t), (3, 4)),
        (lambda s, t: self_distillation_loss([s, 2 * s], t, direction="exit_final"), (3, 4)),
        (patient_loss, (3, 2, 4)),
        (lambda s, t: patient_loss(s, t, normalise=False), (3, 2, 4)),
    ],
)
def test_losses_over_examples_are_means_of_them_and_differentiate(loss, shape):
    generator = torch.Generator().manual_seed(1)
    student, teacher = torch.randn(2, *shape, dtype=torch.float64, generator=generator)
    examples = [loss(student[i : i + 1], teacher[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(loss(student, teacher), torch.stack(examples).mean())
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher), student.requires_grad_())


def test_mean_over_tokens_by_hand():
    """((1 + 3) / 2 + 8 + 0) / 3; a mean over all tokens would be 12 / 3."""
    values = torch.tensor([[1.0, 3.0, math.nan], [8.0, math.inf, 0.0], [5.0, 5.0, 5.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert mean_over_tokens(values, mask).item() == pytest.approx(10 / 3)


def test_soft_targets_by_hand():
    """At T = 2 a teacher (.9, .1) and an even student: KL = .9 ln 1.8 + .1 ln .2 and CE = ln 2, times 4."""
    teacher, student = torch.tensor([[2 * LN9, 0.0]]), torch.tensor([[0.3, 0.3]])
    divergence = 4 * (0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert soft_target_loss(student, teacher, temperature=2).item() == pytest.approx(divergence, rel=1e-6)
    assert soft_cross_entropy_loss(student, teacher, temperature=2).item() == pytest.approx(4 * math.log(2), rel=1e-6)
    entropy = -4 * (0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    assert soft_cross_entropy_loss(teacher, teacher, temperature=2).item() == pytest.approx(entropy, rel=1e-6)
    tokens = torch.stack([student, teacher], dim=1), torch.stack([teacher, teacher], dim=1)
    masked = [token_soft_target_loss(*tokens, torch.tensor([mask]), temperature=2) for mask in ([1, 1], [1, 0])]
    assert [loss.item() for loss in masked] == pytest.approx([divergence / 2, divergence], rel=1e-5)


def test_soft_target_gradient_at_high_temperature():
    """Hinton et al., eq. 4: for zero-mean logits the gradient of T²·KL tends to (z - v) / classes."""
    teacher = torch.tensor([[1.0, -1.0, 0.0]])
    for loss in (soft_target_loss, soft_cross_entropy_loss):
        student = torch.tensor([[0.5, 0.5, -1.0]], requires_grad=True)
        loss(student, teacher, temperature=1000).backward()
        torch.testing.assert_close(student.grad, (student.detach() - teacher) / 3, atol=1e-2, rtol=0)


@pytest.mark.parametrize("loss", [soft_target_loss, soft_cross_entropy_loss])
def test_one_logit_is_regression(loss):
    """((1 - 3)² + 0) / 2, at any temperature."""
    assert loss(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.0]]), temperature=5).item() == 2.0


def test_masked_lm_by_hand_and_against_transformers():
    """The label's probability is .9 in the first text, .5 twice in the second: (-ln .9 - ln .5) / 2."""
    logits = torch.tensor([[[LN9, 0.0], [7.0, 1.0]], [[1.0, 1.0], [2.0, 2.0]]])
    labels = torch.tensor([[0, -100], [1, 0]])
    assert masked_lm_loss(logits, labels).item() == pytest.approx((-math.log(0.9) - math.log(0.5)) / 2)
    small = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForMaskedLM(BertConfig(**small, intermediate_size=8)).eval()
    labels = torch.tensor([[-100, 4, 7, -100]])
    output = model(torch.tensor([[2, 5, 7, 3]]), labels=labels)
    torch.testing.assert_close(masked_lm_loss(output.logits, labels), output.loss)


def test_without_labels_the_loss_is_zero_and_trains_nothing():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    masked_lm_loss(logits, torch.full((2, 3), -100)).backward()
    assert not logits.grad.any()


def test_cosine_by_hand():
    """Parallel 0, at 45° 1 - 1/√2, opposite 2."""
    student = torch.tensor([[[2.0, 0.0], [1.0, 1.0]], [[-3.0, 0.0], [9.0, 9.0]]])
    teacher = torch.tensor([1.0, 0.0]).expand(2, 2, 2)
    expected = ((0 + 1 - 0.5**0.5) / 2 + 2) / 2
    assert cosine_loss(student, teacher, torch.tensor([[1, 1], [1, 0]])).item() == pytest.approx(expected)


@pytest.mark.parametrize("loss", [hidden_state_loss, embedding_loss])
def test_hidden_states_and_embeddings_by_hand(loss):
    """Per token (1 + 4) / 2 and 0 in the first text, 1 in the second: (1.25 + 1) / 2. Doubled widths by a projection
    of ones: 3 and 3 for the token (1, 2), 9."""
    student = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[1.0, 1.0], [50.0, -50.0]]])
    mask = torch.tensor([[1, 1], [1, 0]])
    assert loss(student, torch.zeros(2, 2, 2), mask).item() == pytest.approx(1.125)
    projection = torch.nn.Linear(2, 4, bias=False)
    torch.nn.init.ones_(projection.weight)
    student[0, 1] = math.nan
    value = loss(student[:1], torch.zeros(1, 2, 4), torch.tensor([[1, 0]]), projection=projection)
    value.backward()
    assert value.item() == pytest.approx(9)
    # 2/4 · 3 · (1, 2): the token at padding gives the projection nothing.
    torch.testing.assert_close(projection.weight.grad, torch.tensor([[1.5, 3.0]]).expand(4, 2))


def test_attention_scores_by_hand():
    """Keys (1, 0), (0, 1), (1, 1), (2, 2) with the query (3, 4), over √2."""
    keys = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]]]])
    queries = torch.tensor([3.0, 4.0]).expand(1, 1, 4, 2)
    expected = torch.tensor([3.0, 4.0, 7.0, 14.0]).expand(1, 1, 4, 4) / 2**0.5
    torch.testing.assert_close(attention_scores(queries, keys), expected)


@pytest.mark.parametrize(("loss", "of_row"), [(attention_score_loss, squared), (attention_transfer_loss, entropy_of)])
def test_attention_losses_against_loops(loss, of_row):
    student, teacher = states("BNSS", seed=1), states("BNSS", seed=2)
    assert loss(student, teacher, REAL).item() == pytest.approx(over_rows(student, teacher, REAL, of_row))


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_relations_against_loops(heads):
    """MiniLMv2: a student of width 12 and a teacher of 24, both of three heads, at other numbers of relation heads."""
    student, teacher = states("BNSH", seed=1), states("BNSD", seed=2)
    scores = []
    for tensor in (student, teacher):
        parts = torch.cat(tensor.unbind(1), dim=-1).chunk(heads, dim=-1)
        scores.append(torch.stack([part @ part.mT / part.shape[-1] ** 0.5 for part in parts], dim=1))
    pairs = [(split_heads(tensor, heads),) * 2 for tensor in (student, teacher)]
    assert relation_loss(*pairs, REAL).item() == pytest.approx(over_rows(*scores, REAL, divergence_of))


def test_attention_and_relations_by_hand():
    """A teacher's row (.9, .1), a student's (.5, .5); the second row is even in both.

    Scores: squares (ln 9)² and 0, 0, 0. Relations: queries (√2·ln 9, 0) and (0, 0) with keys (1, 0) and (0, 1)."""
    teacher, student, real = torch.tensor([[[[LN9, 0.0], [0.0, 0.0]]]]), torch.zeros(1, 1, 2, 2), torch.ones(1, 2)
    divergence = 0.9 * math.log(1.8) + 0.1 * math.log(0.2)
    assert attention_score_loss(student, teacher, real).item() == pytest.approx(LN9**2 / 4)
    assert attention_transfer_loss(student, teacher, real).item() == pytest.approx(math.log(2))
    keys = torch.eye(2).view(1, 1, 2, 2)
    assert relation_loss((student, keys), (teacher * 2**0.5, keys), real).item() == pytest.approx(divergence / 2)


@pytest.mark.parametrize(("shift", "dtype"), [(-300, torch.float64), (40, torch.float16)])
def test_padding_is_what_the_mask_says_not_what_scores_say(shift, dtype):
    """A softmax does not see a shift of all scores: real keys far below -100 still count, and in half precision, whose
    smallest number is -65504, nothing runs over."""
    student, teacher = states("BNSS", seed=1), states("BNSS", seed=2)
    scores = [(tensor + shift).to(dtype) for tensor in (student, teacher)]
    # Against these right states the relations are the scores.
    pairs = [(left, 2 * torch.eye(4, dtype=dtype).expand_as(left)) for left in scores]
    losses = attention_transfer_loss(*scores, REAL).item(), relation_loss(*pairs, REAL).item()
    expected = [over_rows(student, teacher, REAL, of_row) for of_row in (entropy_of, divergence_of)]
    assert losses == pytest.approx(expected, rel=0.05 if dtype == torch.float16 else 1e-9)


def test_patient_by_hand():
    """(3, 4) and (0, 2) normalised are (.6, .8) and (0, 1): (.36 + .04) / 2, and 0 for the second layer."""
    student, teacher = torch.tensor([[[3.0, 4.0], [1.0, 0.0]]]), torch.tensor([[[0.0, 2.0], [5.0, 0.0]]])
    assert patient_loss(student, teacher).item() == pytest.approx(0.1)
    assert patient_loss(student, teacher, normalise=False).item() == pytest.approx((9 + 4 + 16 + 0) / 4)


def test_feature_maps_by_hand():
    """(1, 3) normalised is (-1, 1), (8, 4) is (1, -1): (4 + 4) / 2. Means 2 and 6, variances 1 and 4."""
    student, teacher, mask = torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[8.0, 4.0]]]), torch.ones(1, 1)
    assert feature_map_loss(student, teacher, mask).item() == pytest.approx(4)
    assert [loss.item() for loss in feature_statistics_losses(student, teacher, mask)] == pytest.approx([16, 3])


@pytest.mark.parametrize("direction", ["final_exit", "exit_final"])
def test_self_distillation_by_hand_and_its_last_exit_does_not_learn(direction):
    """An exit (.5, .5) and one at the last one's (.9, .1)."""
    final = torch.tensor([[LN9, 0.0]], requires_grad=True)
    exits = torch.zeros(1, 2, requires_grad=True), final.detach().clone()
    loss = self_distillation_loss(exits, final, direction=direction)
    expected = {
        "final_exit": 0.9 * math.log(1.8) + 0.1 * math.log(0.2),
        "exit_final": 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1),
    }
    assert loss.item() == pytest.approx(expected[direction], rel=1e-5)
    loss.backward()
    assert exits[0].grad.any()
    assert final.grad is None


def test_shared_projections_by_hand():
    """Width 1 to 2: up (1, 2)ᵀ, down (3, 4). The matrix 5 goes up to ((15, 20), (30, 40)) and the vector 2 to (2, 4);
    the identity goes down to 3·1 + 4·2 = 11 and (1, 1) to 7."""
    up, down = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 4.0]])
    student = [torch.tensor([[5.0]]), torch.tensor([2.0])]
    teacher = [torch.tensor([[15.0, 20.0], [30.0, 0.0]]), torch.tensor([2.0, 2.0])]
    assert up_projection_loss(student, teacher, up, down).item() == pytest.approx((1600 / 4 + 4 / 2) / 2)
    teacher = [torch.eye(2), torch.ones(2)]
    assert down_projection_loss(student, teacher, up, down).item() == pytest.approx(((11 - 5) ** 2 + (7 - 2) ** 2) / 2)


@pytest.mark.parametrize("loss", [up_projection_loss, down_projection_loss])
def test_shared_projections_differentiate_in_all_they_are_given(loss):
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 2), (2,), (3, 3), (3,), (3, 2), (2, 3)]
    tensors = [torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda a, b, c, d, up, down: loss([a, b], [c, d], up, down), tensors)


T, ONES = torch.zeros, torch.ones


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: soft_target_loss(T(2, 3), T(2, 4), temperature=1), "student_BC and teacher_BC .* C .*, got 3 and 4"),
        (lambda: soft_target_loss(T(2, 3), T(2, 3), temperature=0), "temperature must be greater than 0, got 0"),
        (lambda: soft_cross_entropy_loss(T(2, 3), T(4, 3), temperature=1), "B .*, got 2 and 4"),
        (lambda: token_soft_target_loss(T(1, 2, 3), T(1, 2, 4), ONES(1, 2), temperature=1), "V .*, got 3 and 4"),
        (lambda: masked_lm_loss(T(1, 2, 9), T(1, 3).long()), "S .*, got 2 and 3"),
        (lambda: cosine_loss(T(1, 2, 4), T(1, 2, 5), ONES(1, 2)), "H .*, got 4 and 5"),
        (lambda: hidden_state_loss(T(1, 2, 4), T(1, 2, 6), ONES(1, 2)), "got 4 for 6; pass projection=torch.nn.Linear\\(4, 6\\)"),
        (lambda: embedding_loss(T(1, 2, 4), T(1, 2, 6), ONES(1, 2), projection=torch.nn.Linear(4, 5)), "got 5 for 6"),
        (lambda: hidden_state_loss(T(1, 2, 4), T(1, 2, 4), ONES(1, 1, 1, 2)), "mask_BS must have 2 axes, got shape \\[1, 1, 1, 2\\]"),
        (lambda: attention_scores(T(1, 2, 3, 4), T(1, 2, 3, 5)), "D .*, got 4 and 5"),
        (lambda: attention_score_loss(T(1, 4, 2, 2), T(1, 12, 2, 2), ONES(1, 2)), "N \\(heads\\), got 4 and 12"),
        (lambda: attention_transfer_loss(T(1, 4, 2, 2), T(1, 12, 2, 2), ONES(1, 2)), "N \\(heads\\), got 4 and 12"),
        (lambda: relation_loss((T(1, 4, 2, 3),) * 2, (T(1, 12, 2, 5),) * 2, ONES(1, 2)), "N \\(heads\\), got 4 and 12"),
        (lambda: split_heads(T(1, 3, 2, 4), 5), "divide the width 12, got 5"),
        (lambda: patient_loss(T(1, 3, 4), T(1, 2, 4)), "M .*, got 3 and 2"),
        (lambda: feature_map_loss(T(1, 2, 4), T(1, 2, 5), ONES(1, 2)), "H .*, got 4 and 5"),
        (lambda: feature_statistics_losses(T(1, 2, 4), T(1, 2, 4), ONES(1, 3)), "S .*, got 2 and 3"),
        (lambda: self_distillation_loss([], T(1, 2)), "at least one exit's logits, got none"),
        (lambda: self_distillation_loss([T(1, 2)], T(1, 3)), "exit_BC and final_BC .*, got 2 and 3"),
        (lambda: self_distillation_loss([T(1, 2)], T(1, 2), direction="final"), "got 'final'; did you mean 'final_exit'"),
        (lambda: up_projection_loss([T(2, 2)], [], T(3, 2), T(2, 3)), "got 1 and 0"),
        (lambda: up_projection_loss([T(2, 2)], [T(3)], T(3, 2), T(2, 3)), "got \\[2, 2\\] for \\[3\\]"),
        (lambda: up_projection_loss([T(2, 2)], [T(3, 3)], T(2, 3), T(2, 3)), "up must be \\[3, 2\\] .*, got \\[2, 3\\]"),
        (lambda: down_projection_loss([T(2, 2)], [T(3, 3)], T(4, 2), T(2, 3)), "up must be \\[3, 2\\] .*, got \\[4, 2\\]"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
