"""The stage that finds an exit threshold: a classifier with exits in, the same with those worth keeping and a threshold in its config
out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from ...configuration_albert_plus import AlbertPlusConfig
from ...errors import InvalidInput, check_known, check_values
from ...files import write_text
from ...finetune import task_rows
from ...glue import Task, data_parent
from ...model_copies import copy_model
from ...records import Record, carried_record, parent, run_stage
from .calibration import calibrate
from .criteria import Criterion, Kind, taken_exits

# Points of logits `[B, C]` and labels.
Score = Callable[[torch.Tensor, list[Any]], float]


@dataclass(frozen=True)
class CalibrateSettings:
    """How a threshold is found.

    Attributes:
        criterion: what rows leave by.
        max_drop: points that may be lost.
        split: rows that were not trained on; None for the task's first evaluation split.
        share: of them to find it on; it is judged on the others.
        exit_cost: layers that a row could run in the time of a look at an exit.
        keep_exits: drop no exit.
    """

    criterion: Kind = "entropy"
    max_drop: float = 0.5
    exit_cost: float = 0.2
    keep_exits: bool = False
    split: str | None = None
    share: float = 0.5
    max_length: int = 128
    batch_size: int = 64
    seed: int = 42

    def __post_init__(self) -> None:
        check_known(self, criterion=get_args(Kind))
        check_values(
            self,
            ("max_drop", 0 <= self.max_drop <= 100, "from 0 to 100 points", "0.5"),
            ("exit_cost", 0 <= self.exit_cost <= 1000, "from 0 to 1,000 layers", "0.2"),
            ("share", 0 < self.share <= 1, "a share above 0, at most 1", "0.5"),
            ("batch_size", 1 <= self.batch_size <= 1 << 24, "at least 1 and at most 16,777,216", "64"),
            ("max_length", 4 <= self.max_length <= 1 << 20, "at least 4 and at most 1,048,576", "128"),
            ("seed", 0 <= self.seed < 2**32, "from 0 up to 2^32 - 1", "42"),
        )


def calibrate_exits(
    model: Path,
    *,
    data: str,
    task: Task,
    output: Path,
    settings: CalibrateSettings,
    score: Score,
    plot: Callable[[dict[str, Any]], str] | None = None,
) -> Record:
    """Finds the exits and the threshold with which rows have least to run and lose at most `max_drop` points, drops the other exits, and
    puts the threshold into the config, where exports with exits read it.

    Args:
        model: directory of a classifier with exits.
        score: points of the task's first metric.
        plot: what came out -> an SVG of score against depth, written beside the model.

    Raises:
        InvalidInput: no exits, or a criterion that the task has no numbers for.
    """
    if task.is_regression and settings.criterion != "patience":
        raise InvalidInput(
            f"--criterion must be patience for {task.name}, which has no classes to be sure of",
            got=settings.criterion,
            repair="use --criterion patience",
        )

    def work(directory: Path) -> dict[str, Any]:
        from ...checkpoints import load_classifier

        classifier: Any = load_classifier(model, option="--model", task=task).eval()
        config = classifier.config
        if not getattr(config, "exit_layers", None):
            raise InvalidInput(
                "--model must be a classifier with exits",
                got=f"{model} without",
                repair="train some: albert-plus distill --method fastbert --phases exits --student DIR …",
            )
        tokenizer, rows = task_rows(
            model,
            config,
            data=data,
            task=task,
            max_length=settings.max_length,
            split=settings.split or next(iter(task.rows.values())),
        )
        labels = rows["labels"][:]
        logits_JBC = exit_logits(classifier, rows.remove_columns(["labels", "length"]), tokenizer, settings.batch_size)
        chosen, others = _halves(len(labels), settings)
        layers = [*config.exit_layers, config.num_hidden_layers]
        chosen_labels = [labels[index] for index in chosen]
        found = calibrate(
            logits_JBC[:, chosen],
            layers=layers,
            kind=settings.criterion,
            score=lambda logits_BC: score(logits_BC, chosen_labels),
            max_drop=settings.max_drop,
            exit_cost=settings.exit_cost,
            keep_exits=settings.keep_exits,
        )
        copy_model(model, directory)
        if len(found.kept) < len(config.exit_layers):
            _drop_exits(directory, keep=found.kept)
        criterion = found.found.criterion
        written = AlbertPlusConfig.from_pretrained(directory)
        written.exit_criterion, written.exit_threshold = settings.criterion, criterion.threshold
        written.save_pretrained(directory)
        alone = {str(layer): score(logits_BC, labels) for layer, logits_BC in zip(layers, logits_JBC, strict=True)}
        logits_JBC, layers = logits_JBC[[*found.kept, -1]], [*(written.exit_layers or []), layers[-1]]
        result = {
            "threshold": criterion.threshold,
            "layers": layers,
            "cost": round(found.found.cost, 4),
            "found_on": _judged(logits_JBC[:, chosen], criterion, layers, score, chosen_labels),
            "others": _judged(logits_JBC[:, others], criterion, layers, score, [labels[i] for i in others]),
            "score_of_exit": alone,
            "curve": [[each.criterion.threshold, each.average_layers, each.score] for each in found.tried],
            "parameters": classifier.num_parameters(),
            "trained": carried_record(model),
        }
        if plot is not None:
            write_text(directory / "score_by_depth.svg", plot(result))
        return result

    return run_stage(
        "calibrate",
        output,
        settings={"task": task.name, **asdict(settings)},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
    )


@torch.no_grad()
def exit_logits(model: Any, rows: Any, tokenizer: Any, batch_size: int) -> torch.Tensor:
    """What every exit and the last layer say of every row, `[J, B, C]`."""
    from transformers import DataCollatorWithPadding

    from ...progress import bar

    collator, found = DataCollatorWithPadding(tokenizer), []
    with bar(total=len(rows), description="every exit of every row") as progress:
        for start in range(0, len(rows), batch_size):
            members = [rows[index] for index in range(start, min(start + batch_size, len(rows)))]
            output = model(**collator(members), output_exits=True)
            found.append(torch.stack([*output.exit_logits, output.logits]))
            progress.update(len(members))
    return torch.cat(found, dim=1)


def _drop_exits(directory: Path, *, keep: Sequence[int]) -> None:
    """Drops all exits but these from the weights of a model directory, which keep their type."""
    from ...modeling_albert_plus import AlbertPlusForSequenceClassification

    model = AlbertPlusForSequenceClassification.from_pretrained(directory, dtype="auto")
    model.config.exit_layers = [(model.config.exit_layers or [])[exit_] for exit_ in keep]
    if len(model.exits):  # the model's own classifier at every depth is none of them
        model.exits = torch.nn.ModuleList(model.exits[exit_] for exit_ in keep)
    model.save_pretrained(directory)


def _halves(count: int, settings: CalibrateSettings) -> tuple[list[int], list[int]]:
    """Rows to find the threshold on, and the others."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(settings.seed)).tolist()
    size = max(1, round(settings.share * count))
    return sorted(order[:size]), sorted(order[size:])


def _judged(
    logits_JBC: torch.Tensor, criterion: Criterion, layers: list[int], score: Score, labels: list[Any]
) -> dict[str, Any] | None:
    """Score and depth with the threshold, and without; None of no rows."""
    if not labels:
        return None
    taken_B = taken_exits(logits_JBC, criterion)
    return {
        "rows": len(labels),
        "score": score(logits_JBC[taken_B, torch.arange(len(labels))], labels),
        "full_score": score(logits_JBC[-1], labels),
        "average_layers": round(float(torch.tensor(layers, dtype=torch.float64)[taken_B].mean()), 4),
        "leave_at": {str(layer): int((taken_B == exit_).sum()) for exit_, layer in enumerate(layers)},
    }


__all__ = ["CalibrateSettings", "calibrate_exits", "exit_logits"]
