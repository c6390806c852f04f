"""The stage that removes heads and feed-forward columns: a classifier in, a smaller and faster one out."""

from pathlib import Path
from typing import Any

import torch

from ..devices import fastest_device
from ..errors import InvalidInput
from ..finetune import task_rows
from ..glue import Task, data_parent
from ..records import CHECKPOINTS, Record, parent, run_stage
from .importance import Gates, Site, movement, taylor
from .removal import without
from .selection import select
from .settings import PruneSettings


def prune(model: str, *, data: str, task: Task, output: Path, settings: PruneSettings) -> Record:
    """Removes the least important heads and columns of a classifier. What is left is an ordinary model directory with fewer
    weights, of which every export is smaller and faster; distilling into it recovers what was lost (`albert-plus distill --student
    DIR`).

    Args:
        model: directory or Hub id of a classifier that has an exact conversion (`albert-plus convert`), or is one of ours.
        data: folder or Hub id in the layout of nyu-mll/glue.
    """

    def work(directory: Path) -> dict[str, Any]:
        from transformers import DataCollatorWithPadding, set_seed

        from ..checkpoints import check_label_order, check_trainable, load_classifier
        from ..conversion import to_albert_plus

        set_seed(settings.seed)
        classifier: Any = to_albert_plus(load_classifier(model, option="--model"))
        if classifier.num_labels != task.num_labels:
            raise InvalidInput(
                f"--model must be a classifier with the {task.num_labels} labels of {task.name}",
                got=f"{model} with {classifier.num_labels}",
                repair="fine-tune one: albert-plus finetune",
            )
        check_label_order(classifier.config, task, option="--model")
        check_trainable(model, classifier.config, option="--model")
        classifier.config.problem_type = "regression" if task.is_regression else "single_label_classification"
        widest = max(classifier.config.intermediate_sizes)
        if settings.columns and settings.multiple_of > widest:
            raise InvalidInput(
                f"--multiple-of must not exceed the {widest} columns that there are",
                got=settings.multiple_of,
                repair="use --multiple-of 16",
            )
        tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
        measure = _by_taylor if settings.importance == "taylor" else _by_movement
        scores = measure(
            classifier,
            rows,
            collator=DataCollatorWithPadding(tokenizer),
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
        )
        smaller = without(classifier, _kept(scores, settings))
        smaller.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        return _described(classifier, smaller)

    return run_stage(
        "prune",
        output,
        settings={"task": task.name, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
    )


def _by_taylor(
    model: Any, rows: Any, *, collator: Any, settings: PruneSettings, checkpoints: Path
) -> dict[Site, torch.Tensor]:
    """Sums of |∂L/∂ξ| over a sample of the examples."""
    from ..progress import bar

    count = min(settings.examples, len(rows))
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(settings.seed))[:count].tolist()
    sample = rows.select(sorted(chosen, key=lambda index: rows["length"][index])).remove_columns("length")
    device = fastest_device()
    model.to(device).eval()
    totals: dict[Site, torch.Tensor] = {}
    with Gates().on(model.base_model.encoder) as gates, bar(total=count, description="importance of heads") as progress:
        for start in range(0, count, settings.batch_size):
            examples = [sample[index] for index in range(start, min(start + settings.batch_size, count))]
            batch = collator(examples).to(device)
            # A mean over the batch; the gradients wanted are those of each example's own loss.
            (model(**batch).loss * len(examples)).backward()
            for site, found in taylor(gates.take()).items():
                totals[site] = totals.get(site, 0) + found
            progress.update(len(examples))
    model.zero_grad()
    model.to("cpu")
    return {site: total.cpu() for site, total in totals.items()}


def _by_movement(
    model: Any, rows: Any, *, collator: Any, settings: PruneSettings, checkpoints: Path
) -> dict[Site, torch.Tensor]:
    """Sums of −∂L/∂ξ over the steps of a training."""
    from transformers import TrainerCallback

    from ..training import train

    totals: dict[Site, torch.Tensor] = {}
    with Gates().on(model.base_model.encoder) as gates:

        class Adds(TrainerCallback):
            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                for site, found in movement(gates.take()).items():
                    totals[site] = totals.get(site, 0) + found

        train(
            model,
            rows=rows,
            collator=collator,
            settings=settings,
            checkpoints=checkpoints,
            description="movement of weights",
            callbacks=[Adds()],
            checkpoint_seconds=float("inf"),
        )
    return {site: total.cpu() for site, total in totals.items()}


def _kept(scores: dict[Site, torch.Tensor], settings: PruneSettings) -> dict[Site, torch.Tensor]:
    kept: dict[Site, torch.Tensor] = {}
    for kind, share, multiple_of in (
        ("attention", settings.heads, 1),
        ("ffn", settings.columns, settings.multiple_of),
    ):
        found = {site: score for site, score in scores.items() if site.kind == kind}
        if share:
            kept |= select(found, remove=share, spread=settings.spread, multiple_of=multiple_of)
    return kept


def _described(model: Any, smaller: Any) -> dict[str, Any]:
    """How much there was and is, in blocks as they are stored and over all layers as they run."""
    facts: dict[str, Any] = {"parameters_before": model.num_parameters(), "parameters": smaller.num_parameters()}
    for name, sizes, blocks in (
        ("heads", "attention_heads", "attention_map"),
        ("columns", "intermediate_sizes", "ffn_map"),
    ):
        before, after = (
            sum(getattr(config, sizes)[block] for block in getattr(config, blocks))
            for config in (model.config, smaller.config)
        )
        facts |= {f"{name}_before": before, name: after, f"{name}_of_blocks": list(getattr(smaller.config, sizes))}
        facts[f"{name}_removed"] = round(1 - after / before, 4)
    return facts


__all__ = ["prune"]
