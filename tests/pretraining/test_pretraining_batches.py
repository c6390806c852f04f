"""Batches against the examples they are made of, and held-out scores against one row at a time."""

import pytest
import torch
from datasets import load_from_disk
from scipy.stats import entropy

from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining.batches import PackedRows
from hf_albert_plus.pretraining.held_out import score_held_out, unigram_entropy
from hf_albert_plus.pretraining.masking import Masking, Spans
from tests.support.pretraining import WIDTH, make_collator
from tests.support.small_models import randomise, small_config


def unmasked(batch):
    """Ids with the labels put back."""
    ids = batch["input_ids"].flatten().clone()
    ids[batch["masked_positions"]] = batch["labels"]
    return ids.view(batch["input_ids"].shape)


def test_a_packed_batch_holds_its_examples(corpus, corpus_tokenizer):
    rows = load_from_disk(str(corpus))["train"]
    packed = PackedRows(rows, width=WIDTH)
    items = [packed[i] for i in range(len(packed) - 12, len(packed))]
    batch = make_collator(corpus_tokenizer, packed=True)(items)
    ids = unmasked(batch)
    found, firsts, orders = [], [], []
    for row, item in enumerate(items):
        start = 0
        for number, example in enumerate(item, start=1):
            place = slice(start, start + example["length"])
            assert ids[row, place].tolist() == example["input_ids"]
            assert batch["sequence_ids"][row, place].tolist() == [number] * example["length"]
            assert batch["position_ids"][row, place].tolist() == list(range(example["length"]))
            second = example["second_segment"] or example["length"]
            assert batch["token_type_ids"][row, place].tolist() == [0] * second + [1] * (example["length"] - second)
            firsts.append(row * ids.shape[1] + start)
            orders.append(example["sentence_order_label"])
            start += example["length"]
        assert batch["sequence_ids"][row, start:].eq(0).all()
        found.append(len(item))
    assert max(found) > 1
    assert batch["first_positions"].tolist() == firsts
    assert batch["sentence_order_label"].tolist() == orders
    assert (ids.flatten()[batch["first_positions"]] == corpus_tokenizer.cls_token_id).all()
    assert batch["labels"].shape == batch["masked_positions"].shape


def test_some_of_the_examples_are_packed_too(corpus):
    some = load_from_disk(str(corpus))["train"].select([5, 2, 9, 3])
    packed = PackedRows(some, width=WIDTH)
    found = sorted(example["input_ids"] for i in range(len(packed)) for example in packed[i])
    assert found == sorted(some["input_ids"])


def test_a_padded_batch_holds_its_examples(corpus, corpus_tokenizer):
    rows = load_from_disk(str(corpus))["train"].to_list()[:20]
    batch = make_collator(corpus_tokenizer, packed=False)(rows)
    ids = unmasked(batch)
    assert batch["attention_mask"].sum(1).tolist() == [row["length"] for row in rows]
    for row, example in enumerate(rows):
        assert ids[row, : example["length"]].tolist() == example["input_ids"]
        assert ids[row, example["length"] :].eq(corpus_tokenizer.pad_token_id).all()
    assert set(batch) == {
        "input_ids", "attention_mask", "token_type_ids", "labels", "masked_positions", "sentence_order_label",
    }  # fmt: skip
    assert "token_type_ids" not in make_collator(corpus_tokenizer, packed=False, token_types=False)(rows)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_held_out_scores_are_those_of_one_row_at_a_time(corpus, corpus_tokenizer, packed, batch_size):
    examples = load_from_disk(str(corpus))["validation"]
    model = randomise(AlbertPlusForPreTraining(small_config(vocab_size=len(corpus_tokenizer)))).train()
    collator = make_collator(corpus_tokenizer, packed=packed)
    collator.draws.epoch = 3
    rows = PackedRows(examples, width=WIDTH) if packed else examples
    scores = score_held_out(model, rows, collator, batch_size=batch_size, device=torch.device("cpu"), autocast=False)
    assert model.training
    assert collator.draws.epoch == 3
    masking = Masking(corpus_tokenizer, chooser=Spans(corpus_tokenizer), seed=0)
    losses, right, orders = [], [], []
    model.eval()
    for example in examples:
        seen, labels = masking(example["input_ids"])
        second = example["second_segment"] or example["length"]
        types = torch.tensor([[0] * second + [1] * (example["length"] - second)])
        with torch.no_grad():
            outputs = model(input_ids=torch.tensor([seen]), token_type_ids=types)
        for logits, label in zip(outputs.prediction_logits[0], labels, strict=True):
            if label != -100:
                losses.append(float(torch.logsumexp(logits, -1) - logits[label]))
                right.append(int(logits.argmax()) == label)
        if example["sentence_order_label"] != -100:
            orders.append(int(outputs.sop_logits.argmax()) == example["sentence_order_label"])
    assert scores["masked_tokens"] == len(losses)
    assert scores["orders"] == len(orders)
    assert scores["mlm_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert scores["mlm_accuracy"] == pytest.approx(sum(right) / len(right))
    assert scores["order_accuracy"] == pytest.approx(sum(orders) / len(orders))


def test_entropy_of_single_tokens_is_scipys(corpus, corpus_tokenizer):
    rows = load_from_disk(str(corpus))["train"]
    counts = torch.bincount(
        torch.tensor([i for row in rows for i in row["input_ids"]]), minlength=len(corpus_tokenizer)
    )
    counts[corpus_tokenizer.all_special_ids] = 0
    found = unigram_entropy(rows, vocabulary=len(corpus_tokenizer), special=corpus_tokenizer.all_special_ids)
    assert found == pytest.approx(entropy(counts.numpy()))
