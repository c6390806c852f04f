"""Packed rows and the logits of masked tokens alone: the same losses and gradients as a sequence a row gives. Models are in
fp64, the losses of transformers in fp32."""

import pytest
import torch

from hf_albert_plus import AlbertPlusForPreTraining
from tests.conftest import randomise, small_config

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
@pytest.mark.parametrize("more", [{}, {"pooler": "none"}, {"embedding_size": 32}])
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
