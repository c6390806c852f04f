"""Packed rows and the logits of masked tokens alone: the same losses and gradients as a sequence a row gives. Models are in
fp64, the losses of transformers in fp32."""

from itertools import pairwise

import numpy
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface, modeling_flash_attention_utils
from transformers.activations import ACT2FN
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.masking_utils import flash_attention_mask

from hf_albert_plus.layers_albert_plus import AlbertPlusTanhGelu
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining.batches import pack
from tests.support.small_models import randomise, small_config

LENGTHS = (9, 4, 12, 7, 5, 10)
WIDTH = 20


def sequences(vocab_size: int):
    """Ids, token types, labels and orders of sequences of several lengths; one has no order, one no masked token."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for number, length in enumerate(LENGTHS):
        ids = torch.randint(5, vocab_size, (length,), generator=generator)
        types = (torch.arange(length) > length // 2).long()
        labels = torch.full((length,), -100)
        if number != 4:
            labels[1::3] = torch.randint(5, vocab_size, labels[1::3].shape, generator=generator)
        made.append((ids, types, labels, -100 if number == 1 else number % 2))
    return made


def padded(made):
    pad = torch.nn.utils.rnn.pad_sequence
    ids, types, labels, orders = zip(*made, strict=True)
    return {
        "input_ids": pad(list(ids), batch_first=True),
        "token_type_ids": pad(list(types), batch_first=True),
        "attention_mask": pad([torch.ones_like(row) for row in ids], batch_first=True),
        "labels": pad(list(labels), batch_first=True, padding_value=-100),
        "sentence_order_label": torch.tensor(orders),
    }


def packed(made, rows=((0, 3), (1, 2), (5, 4))):
    """Two sequences a row, with what is left as padding of its own number."""
    batch = {
        name: torch.zeros(len(rows), WIDTH, dtype=torch.long)
        for name in ("input_ids", "token_type_ids", "position_ids", "sequence_ids")
    }
    labels = torch.full((len(rows), WIDTH), -100)
    firsts, orders = [], []
    for row, members in enumerate(rows):
        start = 0
        for number, member in enumerate(members, start=1):
            ids, types, wanted, order = made[member]
            place = slice(start, start + len(ids))
            batch["input_ids"][row, place], batch["token_type_ids"][row, place] = ids, types
            batch["position_ids"][row, place], batch["sequence_ids"][row, place] = torch.arange(len(ids)), number
            labels[row, place] = wanted
            firsts.append(row * WIDTH + start)
            orders.append(order)
            start += len(ids)
    return {
        **batch,
        "labels": labels,
        "sentence_order_label": torch.tensor(orders),
        "first_positions": torch.tensor(firsts),
    }


def masked_alone(batch):
    flat = batch["labels"].flatten()
    positions = (flat != -100).nonzero().flatten()
    return {**batch, "labels": flat[positions], "masked_positions": positions}


def loss_and_gradients(model, batch):
    model.zero_grad()
    output = model(**batch)
    output.loss.backward()
    return output, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("sharing", ["all", "none"])
@pytest.mark.parametrize("more", [{}, {"pooler": "none"}, {"embedding_size": 32}, {"pooling": "mean"}])
def test_a_packed_batch_is_the_padded_one(attention, sharing, more):
    config = small_config(attention_sharing=sharing, ffn_sharing=sharing, **more)
    config._attn_implementation = attention
    model = randomise(AlbertPlusForPreTraining(config)).double()
    made = sequences(config.vocab_size)
    one, gradients = loss_and_gradients(model, padded(made))
    for batch in (packed(made), masked_alone(packed(made)), masked_alone(padded(made))):
        other, others = loss_and_gradients(model, batch)
        assert other.loss.item() == pytest.approx(one.loss.item(), rel=1e-6)
        for name, gradient in gradients.items():
            torch.testing.assert_close(others[name], gradient, rtol=1e-5, atol=1e-7)


def _varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, **options):
    """What flash attention's kernel for sequences of several lengths computes, in plain arithmetic: `[T, N, D]`."""
    assert torch.equal(cu_seqlens_q, cu_seqlens_k)
    assert cu_seqlens_q.dtype == torch.int32
    assert cu_seqlens_q.diff().max() <= options["max_seqlen_q"] == options["max_seqlen_k"]
    assert not options["causal"]
    parts = []
    for a, b in pairwise(cu_seqlens_q.tolist()):
        query, key, value = (tensor[a:b].transpose(0, 1) for tensor in (q, k, v))
        parts.append((query @ key.mT * options["softmax_scale"]).softmax(-1).matmul(value).transpose(0, 1))
    return torch.cat(parts)


def _options(**given):
    names = {"causal": "is_causal", "softmax_scale": "softmax_scale"}
    return {name: given[of] for name, of in names.items()} | {
        name: given[name] for name in ("max_seqlen_q", "max_seqlen_k")
    }


AttentionInterface.register("flash_stand_in", flash_attention_forward)
AttentionMaskInterface.register("flash_stand_in", flash_attention_mask)


@pytest.mark.parametrize("sharing", ["all", "none"])
def test_flash_attention_is_told_where_sequences_end(monkeypatch, sharing):
    """transformers' way to flash attention, with plain arithmetic for the kernel that needs a GPU."""
    functions = ((None, _varlen, None, None, None), (_options, None))
    monkeypatch.setattr(modeling_flash_attention_utils, "lazy_import_flash_attention", lambda name: functions)
    model = randomise(AlbertPlusForPreTraining(small_config(attention_sharing=sharing, ffn_sharing=sharing))).double()
    made = sequences(model.config.vocab_size)
    one, gradients = loss_and_gradients(model, padded(made))
    model.config._attn_implementation = "flash_stand_in"
    batch = packed(made)
    for given in (batch, {**batch, "attention_mask": (batch["sequence_ids"] > 0).long()}):
        other, others = loss_and_gradients(model, given)
        assert other.loss.item() == pytest.approx(one.loss.item(), rel=1e-6)
        for name, gradient in gradients.items():
            torch.testing.assert_close(others[name], gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # several of torch's own on the way to flex attention
def test_flex_attention_keeps_packed_sequences_apart():
    """Its backward pass needs a GPU."""
    model = randomise(AlbertPlusForPreTraining(small_config()))
    batch = packed(sequences(model.config.vocab_size))
    with torch.no_grad():
        expected = model(**batch)
        model.set_attn_implementation("flex_attention")
        found = model(**batch)
    torch.testing.assert_close(found.loss, expected.loss)
    kept = batch["sequence_ids"] > 0
    torch.testing.assert_close(found.prediction_logits[kept], expected.prediction_logits[kept], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.sop_logits, expected.sop_logits, atol=1e-5, rtol=1e-5)


def test_logits_of_masked_tokens_are_those_of_all():
    model = randomise(AlbertPlusForPreTraining(small_config()))
    batch = padded(sequences(model.config.vocab_size))
    whole, alone = model(**batch), model(**masked_alone(batch))
    expected = whole.prediction_logits[batch["labels"] != -100]
    assert alone.prediction_logits.shape == expected.shape
    torch.testing.assert_close(alone.prediction_logits, expected)


def test_sequences_in_a_row_do_not_see_each_other():
    """Another neighbour changes nothing."""
    model = randomise(AlbertPlusForPreTraining(small_config()))
    batch = packed(sequences(model.config.vocab_size))
    before = model(**batch).prediction_logits
    batch["input_ids"] = torch.where(batch["sequence_ids"] == 2, 7, batch["input_ids"])
    after = model(**batch).prediction_logits
    first = batch["sequence_ids"] == 1
    torch.testing.assert_close(after[first], before[first])
    assert not torch.allclose(after[batch["sequence_ids"] == 2], before[batch["sequence_ids"] == 2])


def test_a_batch_without_an_order_has_a_loss():
    model = randomise(AlbertPlusForPreTraining(small_config()))
    batch = padded(sequences(model.config.vocab_size))
    batch["sentence_order_label"][:] = -100
    alone = model(**{name: value for name, value in batch.items() if name != "sentence_order_label"}).loss
    torch.testing.assert_close(model(**batch).loss, alone)
    orders = {name: value for name, value in batch.items() if name != "labels"}
    assert model(**orders).loss == 0


@pytest.mark.parametrize("width", [16, 64, 512])
@pytest.mark.parametrize("seed", range(4))
def test_every_sequence_lies_in_one_row_that_holds_it(width, seed):
    random = numpy.random.default_rng(seed)
    # Nine tenths as long as a row, a tenth shorter, as segment pairs are.
    short = random.random(800) < (0.1, 0.5, 1.0, 0.0)[seed]
    lengths = numpy.where(short, random.integers(2, width + 1, 800), width)
    numbers, starts = pack(lengths, width=width)
    assert sorted(numbers.tolist()) == list(range(800))
    rows = [numbers[a:b] for a, b in pairwise(starts)]
    assert all(len(row) and lengths[row].sum() <= width for row in rows)
    # No fewer rows than tokens need, and few more.
    least = -(-int(lengths.sum()) // width)
    assert least <= len(rows) <= 11 / 9 * max(least, int((2 * lengths > width).sum())) + 1
    # Best fit: the two emptiest rows do not fit into one.
    left = sorted(width - lengths[row].sum() for row in rows)
    assert len(rows) == 1 or left[-1] + left[-2] < width or short.sum() == 0


def test_packing_by_hand():
    """10, 6, 5, 4, 3, 2 into rows of 10: [10], [6, 4], [5, 3, 2]."""
    numbers, starts = pack([4, 10, 2, 6, 3, 5], width=10)
    assert [numbers[a:b].tolist() for a, b in pairwise(starts)] == [[1], [3, 0], [5, 4, 2]]
    assert [part.tolist() for part in pack([], width=10)] == [[], [0]]
    with pytest.raises(ValueError, match="longer than a row of 10 tokens, got one of 11"):
        pack([11], width=10)


def test_gelu_as_one_kernel_is_its_formula():
    """`gelu_new` in training against transformers' own, values and gradients."""
    inputs = torch.linspace(-6, 6, 401, dtype=torch.float64, requires_grad=True)
    ours, theirs = AlbertPlusTanhGelu().train(), ACT2FN["gelu_new"]
    (gradient,) = torch.autograd.grad(ours(inputs).sum(), inputs)
    (expected,) = torch.autograd.grad(theirs(inputs).sum(), inputs)
    torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)
    assert torch.equal(ours.eval()(inputs), theirs(inputs))
