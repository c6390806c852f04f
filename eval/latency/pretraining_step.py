"""Steps of pretraining, in turns with those of transformers' own AlbertForPreTraining under its usual padded collator."""

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from hf_albert_plus.config_building import build_config, vocabulary_fields
from hf_albert_plus.conversion.models import from_albert_plus
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.costs import measure_ceilings
from hf_albert_plus.eval.latency.timing import Stopwatch, elapsed_ms, summarise, time_calls
from hf_albert_plus.eval.measured_documents import to_json
from hf_albert_plus.eval.settings import BenchSettings
from hf_albert_plus.machine import FORMAT, environment
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining.batches import PackedRows, PretrainingCollator, token_types
from hf_albert_plus.pretraining.masking import IGNORED, Masking, Spans
from hf_albert_plus.pretraining.trainer import cpu_attention
from hf_albert_plus.text.corpus import longest_example, open_corpus
from hf_albert_plus.training.onednn import faster_products

BASELINE = "transformers, padded"
# Batches that every row goes through again and again.
_BATCHES = 8
Batch = dict[str, torch.Tensor]


def bench_pretraining(
    corpus: Path, *, fields: dict[str, Any], batch_size: int, bf16: bool, seconds: float, threads: int | None
) -> dict[str, Any]:
    """Tokens a second on the CPU, of making a batch, its forward and backward pass and a step of AdamW, on the same examples from the same
    weights.

    Rows: transformers' model and collator (15 % of the tokens masked, padded to the batch's longest); ours padded; ours packed.

    Args:
        corpus: directory that `build_corpus` made.
        fields: of an AlbertPlusConfig that transformers' ALBERT can compute; those of the vocabulary come from the corpus.
        batch_size: examples of a padded batch, and rows of a packed one.

    Raises:
        InvalidInput: a config without an equal in transformers' ALBERT, or fewer examples than a batch.
    """
    BenchSettings(seconds=seconds)
    if not 1 <= batch_size <= 1 << 16:
        raise InvalidInput(
            f"--batch-size must be at least 1 and at most {1 << 16:,}", got=batch_size, repair="use --batch-size 16"
        )
    splits, tokenizer = open_corpus(corpus)
    # Not in memory, the order would be written beside the corpus, which would then be another one to whoever trains on it.
    examples = splits["train"].shuffle(seed=0, keep_in_memory=True)
    examples = examples.select(range(min(len(examples), 2 * batch_size * _BATCHES)))
    if len(examples) < 2 * batch_size * _BATCHES:
        raise InvalidInput(
            f"the corpus must have examples for {2 * _BATCHES} batches",
            got=f"{len(examples)} for batches of {batch_size}",
            repair="use a smaller --batch-size",
        )
    width = max(examples["length"])
    torch.manual_seed(0)
    config = build_config({**fields, **vocabulary_fields(tokenizer)})
    longest_example(splits, positions=config.max_position_embeddings)
    ours = AlbertPlusForPreTraining(config).train()
    theirs = from_albert_plus(ours, to="albert").train()
    ours.set_attn_implementation(cpu_attention(bf16=bf16))
    masking = Masking(tokenizer, chooser=Spans(tokenizer), seed=0)
    padded = PretrainingCollator(tokenizer, masking=masking, width=None)
    packed = PretrainingCollator(tokenizer, masking=masking, width=width)
    whole = examples.select(range(batch_size * _BATCHES))
    rows = {
        BASELINE: TrainingRow(theirs, _Batches(whole, usual_collator(tokenizer), batch_size), bf16),
        "ours, padded": TrainingRow(deepcopy(ours), _Batches(whole, padded, batch_size), bf16, faster_products),
        "ours, packed": TrainingRow(
            ours, _Batches(PackedRows(examples, width=width), packed, batch_size), bf16, faster_products
        ),
    }
    timings = time_calls(
        {label: row.step for label, row in rows.items()},
        baseline=BASELINE,
        seconds=seconds,
        description="time steps",
        stopwatch=ms_of_a_thousand_tokens,
    )
    with tempfile.TemporaryDirectory() as folder:
        ceilings = measure_ceilings(Path(folder), threads=threads or torch.get_num_threads())
    # Where bf16 is computed in steps of fp32, that is what a step can reach.
    ceiling = ceilings.get("bf16", ceilings["fp32"]) if bf16 else ceilings["fp32"]
    cells = summarise(timings, baseline=BASELINE, items=1000)
    timed = []
    for label, row in rows.items():
        cell = cells[label]
        operations = row.operations_of_a_token() * cell.items_per_s
        share = round(100 * operations / ceiling.gops_per_s / 1e9, 4)
        timed.append(
            {"label": label, "tokens_per_s": round(cell.items_per_s), "share_of_ceiling": share, **to_json(cell)}
        )
    return {
        "kind": "pretraining",
        "format": FORMAT,
        "corpus": str(corpus),
        "config": config.to_diff_dict(),
        "parameters": ours.num_parameters(),
        "batch_size": batch_size,
        "precision": "bf16 autocast" if bf16 else "fp32",
        "ceiling": to_json(ceiling),
        "rows": timed,
        "environment": environment(threads=threads),
    }


class _Batches:
    """The same batches in turn, made anew each time, with the number of their real tokens."""

    def __init__(self, rows: Any, collator: Callable[[list[Any]], Batch], batch_size: int):
        self.items = [[rows[i] for i in range(start, start + batch_size)] for start in _starts(len(rows), batch_size)]
        self.collator = collator

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        for items in itertools.cycle(self.items):
            examples = itertools.chain.from_iterable(item if isinstance(item, list) else [item] for item in items)
            yield self.collator(items), sum(example["length"] for example in examples)


def _starts(length: int, batch_size: int) -> list[int]:
    """Where whole batches start, spread over all rows: packed ones come by their length."""
    count = length // batch_size
    return [batch_size * (number * count // min(_BATCHES, count)) for number in range(min(_BATCHES, count))]


class TrainingRow:
    """One way to train a model.

    Args:
        batches: batches on the model's device, again and again, with the number of their real tokens.
        bf16: whether products are in bf16, by autocast.
        products: the context that a step runs in.
    """

    def __init__(
        self,
        model: Any,
        batches: Iterable[tuple[Batch, int]],
        bf16: bool,
        products: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ):
        self.model, self.batches, self.bf16, self.products = model, iter(batches), bf16, products
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(self) -> int:
        """Makes a batch and trains on it; its real tokens."""
        with self.products():
            return self._step()

    def _step(self) -> int:
        batch, tokens = next(self.batches)
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.model(**batch).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return tokens

    def operations_of_a_token(self) -> float:
        """Floating point operations of the products of a step, a real token."""
        # Torch counts those of its own products alone.
        with FlopCounterMode(display=False) as counter:
            tokens = self._step()
        return counter.get_total_flops() / tokens


def ms_of_a_thousand_tokens(step: Callable[[], object], stopwatch: Stopwatch = elapsed_ms) -> float:
    """Milliseconds that a thousand real tokens take of a step that returns how many it had."""
    tokens: list[Any] = []
    return stopwatch(lambda: tokens.append(step())) / tokens[0] * 1000


def usual_collator(tokenizer: Any) -> Callable[[list[Any]], Batch]:
    """transformers' collator for masked words, with what its ALBERT reads besides."""
    from transformers import DataCollatorForLanguageModeling

    mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)

    def collate(examples: list[Any]) -> Batch:
        rows = [{"input_ids": example["input_ids"], "token_type_ids": token_types(example)} for example in examples]
        orders = torch.tensor([example["sentence_order_label"] for example in examples])
        # Its loss is NaN for a batch without an order.
        orders = orders.where(orders != IGNORED, 0)
        return {**mask(rows), "sentence_order_label": orders}

    return collate
