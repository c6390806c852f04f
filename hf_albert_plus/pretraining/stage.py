"""The stage that pretrains: a corpus of examples, or the text that they are made of, in, an encoder directory out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from transformers import set_seed

from ..config_building import build_config, vocabulary_fields
from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..modeling_albert_plus import AlbertPlusForPreTraining
from ..records import processes
from ..records.record import CHECKPOINTS, Record, parent
from ..records.stage import run_stage
from ..text.corpus import TOKENIZER, build_corpus, longest_example, open_corpus
from ..text.settings import CorpusSettings, TokenizerSettings
from ..text.tokenizers import train_tokenizer
from ..training.loop import TrainingResult, run_trainer, training_arguments
from ..training.settings import trains_in_bf16
from ..training.zeros import StaysSparse, Zeros, matrices
from .batches import PackedRows, PretrainingCollator
from .held_out import unigram_entropy
from .masking import Masking
from .settings import PretrainSettings, chooser
from .start import pretrained
from .trainer import Evaluates, PretrainTrainer, StopsDiverging, use_attention


@dataclass(frozen=True)
class PretrainingResult:
    """What came out of a pretraining.

    Attributes:
        training: what came out of its training loop.
        held_out: the scores on held-out text, each with its step.
        examples: examples of one epoch, however many of them share a row.
        unigram_entropy: nats a token of a model that knows the frequencies of tokens alone.
        tokens: tokens that were read, over all epochs.
        parameters: of the model.
        zeros: of its matrices; None where none were asked for.
    """

    training: TrainingResult
    held_out: list[dict[str, float]]
    examples: int
    unigram_entropy: float
    tokens: int
    parameters: int
    zeros: Zeros | None = None

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        last = self.held_out[-1] if self.held_out else {}
        seconds = self.training.describe()["train_seconds"]
        return {
            **self.training.describe(),
            **{f"held_out_{name}": value for name, value in last.items() if name != "step"},
            "held_out": self.held_out,
            "examples": self.examples,
            "unigram_entropy": round(self.unigram_entropy, 4),
            "tokens": self.tokens,
            "tokens_per_second": round(self.tokens / seconds)
            if isinstance(seconds, float) and seconds
            else "not measured",
            "parameters": self.parameters,
            **({} if self.zeros is None else self.zeros.describe(parameters=self.parameters)),
        }


def pretrain(
    corpus: Path,
    *,
    config: dict[str, Any],
    output: Path,
    settings: PretrainSettings,
    model: str | None = None,
    checkpoint_seconds: float = 300,
) -> Record:
    """Trains `AlbertPlusForPreTraining` on masked words and the labels of segments (ALBERT, section 3.1), from scratch or from a model.

    With a sparsity the smallest weights of every matrix become zero on the way, and stay so (Compressing BERT, section 3). A killed run goes on at its last checkpoint, batch for batch and mask for mask.

    Args:
        corpus: directory that `build_corpus` made.
        config: fields of AlbertPlusConfig; those of the vocabulary come from the corpus's tokenizer.
        model: directory or Hub id of a pretrained ALBERT-plus model with the corpus's vocabulary, to go on from; it has its own config.
    """
    if not (corpus / TOKENIZER).is_dir() or not (corpus / "dataset_dict.json").is_file():
        raise InvalidInput(
            "--corpus must be a directory made by albert-plus corpus build",
            got=str(corpus),
            repair="make one: albert-plus corpus build --corpus text.txt --tokenizer DIR --out corpus",
        )

    def work(directory: Path) -> dict[str, Any]:
        splits, tokenizer = open_corpus(corpus)
        trained = _build_model(config, model, tokenizer, settings)
        examples = _Examples(splits, tokenizer, positions=trained.config.max_position_embeddings)
        trainer = _build_trainer(trained, examples, directory=directory, settings=settings)
        training = run_trainer(
            trainer, description="pretrain", checkpoint_seconds=checkpoint_seconds, report_to=settings.report_to
        )
        _save(trainer, trained.config, tokenizer, directory)
        result = PretrainingResult(
            training=training,
            held_out=trainer.held_out_scores(),
            examples=len(examples.train),
            unigram_entropy=examples.unigram_entropy,
            tokens=round(examples.tokens * settings.epochs),
            parameters=trained.num_parameters(),
            zeros=Zeros.of(matrices(trained)) if settings.sparsity else None,
        )
        return result.describe()

    return run_stage(
        "pretrain",
        output,
        settings={"config": config, **settings.describe()},
        parents={"corpus": parent(corpus), **({} if model is None else {"model": parent(model)})},
        work=work,
        resumable=True,
    )


class _Examples:
    """The examples of a corpus, with what their training has to know of them.

    Attributes:
        longest: tokens of the longest example, which is the width of packed rows.
    """

    def __init__(self, splits: Any, tokenizer: Any, *, positions: int):
        self.train, self.held_out = splits["train"], splits["validation"]
        self.tokenizer = tokenizer
        self.longest = longest_example(splits, positions=positions)

    @property
    def tokens(self) -> int:
        """Tokens of one epoch."""
        return int(pc.sum(self.train.data.column("length")).as_py() or 0)

    @cached_property
    def asks_order(self) -> bool:
        """Whether any example has a label for its two segments."""
        return any(label != -100 for label in self.train.data.column("sentence_order_label").unique().to_pylist())

    @cached_property
    def unigram_entropy(self) -> float:
        """Nats a token of a model that knows the frequencies of tokens alone."""
        special = self.tokenizer.all_special_ids
        return unigram_entropy(self.train, vocabulary=len(self.tokenizer), special=special)


def _build_model(
    config: dict[str, Any], source: str | None, tokenizer: Any, settings: PretrainSettings
) -> AlbertPlusForPreTraining:
    """The model at its start, random or another model's weights, with the attention that it trains with."""
    set_seed(settings.seed)
    if source is None:
        model = AlbertPlusForPreTraining(build_config({**config, **vocabulary_fields(tokenizer)}))
    else:
        model = pretrained(source, tokenizer)
    use_attention(model, settings.attention, bf16=trains_in_bf16(settings.precision), packed=settings.packed)
    if settings.checkpoint_layers:
        # Its name before transformers 5.23.
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    return model


def _build_trainer(
    model: AlbertPlusForPreTraining, examples: _Examples, *, directory: Path, settings: PretrainSettings
) -> PretrainTrainer:
    """The trainer of a model on the examples, which keeps its checkpoints below the directory."""
    width = examples.longest if settings.packed else None
    rows, held_out = (
        split if width is None else PackedRows(split, width=width) for split in (examples.train, examples.held_out)
    )
    tokenizer = examples.tokenizer
    masking = Masking(tokenizer, chooser=chooser(settings, tokenizer), seed=settings.seed, copies=settings.copies)
    if not examples.asks_order:
        # Gradients of zero are gradients: LAMB would shrink these weights to nothing by their decay alone.
        for part in filter(None, (model.albert_plus.pooler, model.sentence_order)):
            part.requires_grad_(False)
    entropy = examples.unigram_entropy + (math.log(2) if examples.asks_order else 0)
    sparse = [StaysSparse(matrices(model), settings=settings)] if settings.sparsity else []
    trainer = PretrainTrainer(
        pretraining=settings,
        held_out=held_out,
        model=model,
        args=training_arguments(
            settings,
            output=directory / CHECKPOINTS,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=rows_of_a_pass(settings),
            gradient_accumulation_steps=settings.accumulate,
            max_grad_norm=1.0,
            remove_unused_columns=False,
            logging_steps=10,
        ),
        train_dataset=rows,
        data_collator=PretrainingCollator(
            tokenizer, masking=masking, width=width, token_types=model.config.type_vocab_size > 0
        ),
        callbacks=[
            StopsDiverging(
                entropy=entropy,
                warmup=settings.warmup,
                patience=settings.patience,
                is_pruned=bool(settings.sparsity),
            ),
            *sparse,
            Evaluates(times=settings.evaluations if len(examples.held_out) else 0),
        ],
    )
    if sparse and trainer.is_fsdp_enabled:
        raise InvalidInput(
            "--sparsity needs every weight whole in every process",
            got="FSDP, which keeps shards",
            repair="use DDP: examples/accelerate/ddp.yaml",
        )
    return trainer


def _save(trainer: PretrainTrainer, config: AlbertPlusConfig, tokenizer: Any, directory: Path) -> None:
    """Writes the trained model and its tokenizer into the directory."""
    weights = trainer.accelerator.get_state_dict(trainer.model)
    if not processes.is_first():
        return
    # The trained one may hold shards.
    whole = AlbertPlusForPreTraining(config)
    whole.load_state_dict(weights)
    whole.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def rows_of_a_pass(settings: PretrainSettings) -> int:
    """The rows that one process runs forward at a time.

    Raises:
        InvalidInput: a step that passes and processes cannot share.
    """
    parts = settings.accumulate * processes.count()
    if settings.batch_size % parts:
        raise InvalidInput(
            f"--batch-size must be a multiple of {parts}, --accumulate times the processes",
            got=settings.batch_size,
            repair=f"use --batch-size {-(-settings.batch_size // parts) * parts}",
        )
    return settings.batch_size // parts


def prepare_corpus(
    corpus: Sequence[str],
    *,
    output: Path,
    tokenizer: str | None,
    vocab_size: int,
    seed: int,
    column: str = "text",
    given: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A directory of examples from what --corpus names: that directory itself where `build_corpus` made it, or `OUT-corpus` of text.

    Without a tokenizer the text gets one of its own, in `OUT-tokenizer`. Directories that are finished are used again.

    Args:
        given: options that say how text becomes examples, of those that a user has given.

    Raises:
        InvalidInput: text, and several processes: making examples takes longer than they wait for each other; or examples that are
            made, and an option for text.
    """
    if len(corpus) == 1 and (Path(corpus[0]) / "dataset_dict.json").is_file():
        for option, value in (given or {}).items():
            raise InvalidInput(
                f"{option} must be left out where --corpus is a directory of examples, which were made with their own",
                got=value,
                repair="leave it out, or build the corpus with it: albert-plus corpus build",
            )
        return Path(corpus[0])
    if processes.count() > 1:
        raise InvalidInput(
            "--corpus must be a directory of albert-plus corpus build where several processes train",
            got=" ".join(corpus),
            repair="build it first: albert-plus corpus build --corpus ... --tokenizer DIR --out corpus",
        )
    examples = output.with_name(f"{output.name}-corpus")
    if tokenizer is None:
        learned = output.with_name(f"{output.name}-tokenizer")
        learning = TokenizerSettings(vocab_size=vocab_size, seed=seed, column=column)
        train_tokenizer(corpus, output=learned, settings=learning)
        tokenizer = str(learned)
    build_corpus(
        corpus, tokenizer=tokenizer, output=examples, settings=CorpusSettings(seed=seed, column=column, **settings)
    )
    return examples
