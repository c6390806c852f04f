"""The stage that pretrains: a corpus of examples in, an encoder directory out."""

import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from .. import processes
from ..corpus.build import TOKENIZER
from ..corpus.opening import longest_example, open_corpus
from ..errors import InvalidInput
from ..records import CHECKPOINTS, Record, parent, run_stage
from .attention import use_attention
from .collator import PretrainingCollator
from .masking import Masking
from .settings import PretrainSettings, chooser

RUNS = "runs"


def pretrain(
    corpus: Path, *, config: dict[str, Any], output: Path, settings: PretrainSettings, checkpoint_seconds: float = 300
) -> Record:
    """Trains `AlbertPlusForPreTraining` from scratch on masked words and the labels of segments (ALBERT, section 3.1).

    A killed run goes on at its last checkpoint, batch for batch and mask for mask. TensorBoard's files of the run stay in
    `OUT/runs`.

    Args:
        corpus: directory that `build_corpus` made.
        config: fields of AlbertPlusConfig; those of the vocabulary come from the corpus's tokenizer.
    """
    if not (corpus / TOKENIZER).is_dir() or not (corpus / "dataset_dict.json").is_file():
        raise InvalidInput(
            "--corpus must be a directory made by albert-plus corpus build",
            got=str(corpus),
            repair="make one: albert-plus corpus build --corpus text.txt --tokenizer DIR --out corpus",
        )

    def work(directory: Path) -> dict[str, Any]:
        return _Pretraining(corpus, directory, config, settings, checkpoint_seconds).run()

    return run_stage(
        "pretrain",
        output,
        settings={"config": config, **settings.describe()},
        parents={"corpus": parent(corpus)},
        work=work,
        resumable=True,
    )


class _Pretraining:
    """One run: opens its parts, trains, scores and saves."""

    def __init__(
        self,
        corpus: Path,
        directory: Path,
        config: dict[str, Any],
        settings: PretrainSettings,
        checkpoint_seconds: float,
    ):
        self.directory, self.settings, self.checkpoint_seconds = directory, settings, checkpoint_seconds
        self.splits, self.tokenizer = open_corpus(corpus)
        self.model = self._model(config)
        self.longest = longest_example(self.splits, positions=self.model.config.max_position_embeddings)

    def _model(self, config: dict[str, Any]) -> Any:
        from transformers import set_seed

        from ..modeling_albert_plus import AlbertPlusForPreTraining
        from ..training import trains_in_bf16
        from ..variants import build_config, vocabulary_fields

        set_seed(self.settings.seed)
        model = AlbertPlusForPreTraining(build_config({**config, **vocabulary_fields(self.tokenizer)}))
        bf16 = trains_in_bf16(self.settings.precision)
        use_attention(model, self.settings.attention, bf16=bf16, packed=self.settings.packed)
        if self.settings.checkpoint_layers:
            # Its name before transformers 5.23.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        return model

    def run(self) -> dict[str, Any]:
        import math

        import pyarrow.compute as pc

        from ..modeling_albert_plus import AlbertPlusForPreTraining
        from ..training import run_trainer, training_arguments
        from .divergence import StopsDiverging
        from .evaluation import unigram_entropy
        from .packing import PackedRows
        from .trainer import Evaluates, PretrainTrainer

        settings, model = self.settings, self.model
        train, held_out = self.splits["train"], self.splits["validation"]
        tokens = int(pc.sum(train.data.column("length")).as_py() or 0)
        rows = PackedRows(train, width=self.longest) if settings.packed else train
        held_rows = PackedRows(held_out, width=self.longest) if settings.packed else held_out
        collator = PretrainingCollator(
            self.tokenizer,
            masking=Masking(
                self.tokenizer,
                chooser=chooser(settings, self.tokenizer),
                seed=settings.seed,
                copies=settings.copies,
            ),
            width=self.longest if settings.packed else None,
            token_types=model.config.type_vocab_size > 0,
        )
        asks_order = any(label != -100 for label in train.data.column("sentence_order_label").unique().to_pylist())
        if not asks_order:
            # Gradients of zero are gradients: LAMB would shrink these weights to nothing by their decay alone.
            for part in filter(None, (model.albert_plus.pooler, model.sentence_order)):
                part.requires_grad_(False)
        entropy = unigram_entropy(train, vocabulary=len(self.tokenizer), special=self.tokenizer.all_special_ids)
        evaluates = Evaluates(times=settings.evaluations if len(held_out) else 0)
        trainers: list[PretrainTrainer] = []
        # Where the Trainer's callback writes to, kept over a kill with the checkpoints.
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.directory / CHECKPOINTS / RUNS)

        def build(callbacks: list[TrainerCallback]) -> PretrainTrainer:
            arguments = training_arguments(
                settings,
                output=self.directory / CHECKPOINTS,
                num_train_epochs=settings.epochs,
                per_device_train_batch_size=rows_of_a_pass(settings),
                gradient_accumulation_steps=settings.accumulate,
                max_grad_norm=1.0,
                remove_unused_columns=False,
                logging_steps=10,
                report_to=_reports(),
            )
            watch = StopsDiverging(entropy=entropy + (math.log(2) if asks_order else 0), warmup=settings.warmup)
            trainer = PretrainTrainer(
                pretraining=settings,
                held_out=held_rows,
                model=model,
                args=arguments,
                train_dataset=rows,
                data_collator=collator,
                callbacks=[*callbacks, watch, evaluates],
            )
            trainers.append(trainer)
            return trainer

        result = run_trainer(
            build,
            collator=collator,
            checkpoints=self.directory / CHECKPOINTS,
            description="pretrain",
            checkpoint_seconds=self.checkpoint_seconds,
        )
        (trainer,) = trainers
        weights = trainer.accelerator.get_state_dict(trainer.model)
        if processes.is_first():
            # The trained one may hold shards.
            whole = AlbertPlusForPreTraining(model.config)
            whole.load_state_dict(weights)
            whole.save_pretrained(self.directory)
            self.tokenizer.save_pretrained(self.directory)
            if (self.directory / CHECKPOINTS / RUNS).is_dir():
                os.replace(self.directory / CHECKPOINTS / RUNS, self.directory / RUNS)
        seen = round(tokens * settings.epochs)
        seconds = result["train_seconds"]
        scores = trainer.held_out_scores()
        return {
            **result,
            **{f"held_out_{name}": value for name, value in (scores or [{}])[-1].items() if name != "step"},
            "held_out": scores,
            "examples": len(train),
            "unigram_entropy": round(entropy, 4),
            "tokens": seen,
            "tokens_per_second": round(seen / seconds) if isinstance(seconds, float) and seconds else "not measured",
            "parameters": model.num_parameters(),
        }


def rows_of_a_pass(settings: PretrainSettings) -> int:
    """Rows that one process runs forward at a time.

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


def _reports() -> list[str]:
    """TensorBoard, where there is something that writes its files."""
    from transformers.integrations import is_tensorboard_available

    return ["tensorboard"] if is_tensorboard_available() else []


__all__ = ["RUNS", "pretrain", "rows_of_a_pass"]
