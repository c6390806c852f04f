"""A step of pretraining, padded and packed, against transformers' own model with its padded collator, as a share of the roof."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import chain, cycle, pairwise
from random import Random
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from hf_albert_plus.config_building import build_config, vocabulary_fields
from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.latency.pretraining_step import (
    BASELINE,
    Batch,
    TrainingRow,
    ms_of_a_thousand_tokens,
    usual_collator,
)
from hf_albert_plus.eval.latency.timed_models import in_transformers
from hf_albert_plus.eval.latency.timing import summarise, time_calls
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining.batches import PretrainingCollator, pack
from hf_albert_plus.pretraining.masking import Masking, Spans
from hf_albert_plus.variants import get_variant

# Batches that every way goes through again and again. They are made beforehand: where a GPU trains, workers make them beside it.
_BATCHES = 4
# ALBERT's create_pretraining_data.py: nine in ten examples are full, and the others of any length.
_FULL = 0.9
_SHORTEST = 8
Example = dict[str, Any]


def measure_pretraining(bench: Bench) -> list[GpuRow]:
    """Tokens a second of forward, backward and AdamW on the same examples from the same weights, in bf16 on a GPU."""
    torch.manual_seed(0)
    tokenizer, shape = numbered_words(bench.sizes.vocabulary), bench.sizes.step
    fields = {**get_variant(bench.sizes.pretrained).fields, **vocabulary_fields(tokenizer)}
    config = build_config({**fields, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    ours: Any = AlbertPlusForPreTraining(config).train()
    examples = made_examples(tokenizer, count=2 * _BATCHES * shape.batch, longest=shape.length)
    masking = Masking(tokenizer, chooser=Spans(tokenizer), seed=0)
    padded = PretrainingCollator(tokenizer, masking=masking, width=None)
    packed = PretrainingCollator(tokenizer, masking=masking, width=shape.length)
    whole, rows = _chunks(examples, shape.batch), _chunks(packed_rows(examples, width=shape.length), shape.batch)
    ways: dict[str, tuple[Any, str, Callable[[list[Any]], Batch], list[Any]]] = {
        BASELINE: (in_transformers(ours).train(), "sdpa", usual_collator(tokenizer), whole),
        "ours, padded, sdpa": (ours, "sdpa", padded, whole),
        "ours, packed, sdpa": (ours, "sdpa", packed, rows),
        "ours, packed, flex attention": (ours, "flex_attention", packed, rows),
        "ours, packed, flash attention": (ours, "flash_attention_2", packed, rows),
    }
    load, attempts = f"1,000 tokens of {shape}", Attempts()
    steps: dict[str, TrainingRow] = {}
    operations: dict[str, float] = {}
    is_half = bench.device.is_gpu
    precision = "bf16" if is_half else "fp32"
    for label, (model, attention, collator, batches) in ways.items():
        if attention == "flex_attention" and not bench.device.is_gpu:
            attempts.skip(f"{label} {precision}", load, "flex attention has no backward pass on a CPU")
            continue
        with attempts.attempt(f"{label} {precision}", load):
            own = deepcopy(model)
            own.set_attn_implementation(attention)
            made = [_made(items, collator, bench) for items in batches[:_BATCHES]]
            row = TrainingRow(own.to(bench.device.kind), cycle(made), is_half)
            row.step()
            steps[label] = row
            lengths = [example["length"] for items in batches[:_BATCHES] for example in _flat(items)]
            operations[label] = useful_operations(config, lengths) / sum(lengths)
    timings = time_calls(
        {label: row.step for label, row in steps.items()},
        baseline=BASELINE,
        seconds=bench.sizes.seconds,
        description="pretraining steps",
        stopwatch=partial(ms_of_a_thousand_tokens, stopwatch=bench.device.time),
    )
    return [
        GpuRow(
            label=f"{label} {precision}",
            load=load,
            unit="tokens",
            cell=cell,
            of_roof=bench.share_of_roof(operations=1000 * operations[label], ms=cell.p50_ms, precision=precision),
            peak_device_mb=bench.device.peak_mb(steps[label].step),
            facts={"useful_operations_a_token": round(operations[label])},
        )
        for label, cell in summarise(timings, baseline=BASELINE, items=1000).items()
    ] + attempts.rows


def useful_operations(config: Any, lengths: list[int]) -> float:
    """Floating point operations of the products of a forward and a backward pass over examples of these lengths, each by itself: no padding,
    no other sequence of a row, logits of the masked 15 % alone. A multiplication and an addition are two. A backward pass is twice the
    forward one: of each product the gradients of both factors."""
    forward = {length: _forward_operations(config, length) for length in set(lengths)}
    return 3.0 * sum(forward[length] for length in lengths)


def _forward_operations(config: Any, length: int) -> int:
    with torch.device("meta"):
        model: Any = AlbertPlusForPreTraining._from_config(config, attn_implementation="eager").eval()
        ids = torch.zeros(1, length, dtype=torch.long)
        masked = torch.zeros(max(1, round(0.15 * length)), dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=ids, masked_positions=masked)
    return int(counter.get_total_flops())


def numbered_words(count: int) -> Any:
    """A tokenizer of words `w0`, `w1` and so on, with BERT's special tokens: texts of numbers need no file."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *(f"w{number}" for number in range(count - len(special)))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, special, strict=True)))


def made_examples(tokenizer: Any, *, count: int, longest: int) -> list[Example]:
    """Examples of two segments of random words, as a corpus holds them."""
    random, examples = Random(0), list[Example]()
    first_word = max(tokenizer.all_special_ids) + 1
    for _ in range(count):
        is_full = random.random() < _FULL
        length = longest if is_full else random.randint(min(_SHORTEST, longest), longest)
        ids = [random.randrange(first_word, len(tokenizer)) for _ in range(length)]
        second = length // 2
        ids[0], ids[second - 1], ids[-1] = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.sep_token_id
        examples.append(
            {"input_ids": ids, "length": length, "second_segment": second, "sentence_order_label": random.randrange(2)}
        )
    return examples


def packed_rows(examples: list[Example], *, width: int) -> list[list[Example]]:
    """The examples that share each row, in an order of their own: rows come by their length otherwise."""
    numbers, starts = pack([example["length"] for example in examples], width=width)
    rows = [[examples[int(number)] for number in numbers[start:end]] for start, end in pairwise(starts)]
    Random(0).shuffle(rows)
    return rows


def _chunks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[start : start + size] for start in range(0, len(items) - size + 1, size)]


def _flat(items: list[Any]) -> Iterator[Example]:
    return chain.from_iterable(item if isinstance(item, list) else [item] for item in items)


def _made(items: list[Any], collator: Callable[[list[Any]], Batch], bench: Bench) -> tuple[Batch, int]:
    """A batch on the device, and its real tokens."""
    batch = {name: tensor.to(bench.device.kind) for name, tensor in collator(items).items()}
    return batch, sum(example["length"] for example in _flat(items))
