"""Model cards: a template filled from records and measurements. A missing number reads "not measured"."""

from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.table import NOT_MEASURED, Table
from hf_albert_plus.glue import get_task
from hf_albert_plus.records import RECORD, read_json

_HUB_METRICS = {"matthews": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr"}


def render_card(
    name: str, task_name: str, *, table: Table, scores: list[dict[str, Any]], latency: dict[str, Any], data_name: str
) -> str:
    """The card of one model of the table, for one task: metadata with a model index, use, training, scores, latency.

    Args:
        name: the name its rows carry.
        task_name: the GLUE task it is a classifier for.
    """
    from transformers import AutoConfig

    from hf_albert_plus.eval.templates import environment

    task = get_task(task_name)
    scored = [
        row for document in scores if document["task"] == task_name for row in document["rows"] if row["name"] == name
    ]
    directory = Path(scored[0]["directory"])
    if not directory.is_dir():
        raise InvalidInput(
            "a card needs the model directory that was scored",
            got=f"{directory}, which is not there",
            repair="run albert-plus report in the folder in which albert-plus eval ran",
        )
    config = AutoConfig.from_pretrained(directory)
    return (
        environment()
        .get_template("model_card.md.jinja")
        .render(
            metadata=_metadata(name, task_name, scored, data_name),
            name=name,
            task=task,
            config=config,
            is_albert_plus=config.model_type == "albert_plus",
            training=_training(directory),
            scored=scored,
            rows=[row for row in table.rows if row.name == name],
            table=table,
            environment=latency["environment"],
            data_name=data_name,
            not_measured=NOT_MEASURED,
        )
    )


def _metadata(name: str, task_name: str, scored: list[dict[str, Any]], data_name: str) -> str:
    """The card's YAML: the torch row's scores as a model index, so that the Hub shows them."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=data_name,
            dataset_name=f"{data_name} {row['task']}",
            dataset_config=task_name,
            dataset_split=row["split"],
            metric_type=_HUB_METRICS.get(metric, metric),
            metric_value=round(points / 100, 4),
        )
        for row in scored
        if row["runtime"] == "torch"
        for metric, points in row["metrics"].items()
        if points is not None
    ]
    data = ModelCardData(
        language="en",
        library_name="transformers",
        pipeline_tag="text-classification",
        tags=["albert-plus", "onnx"],
        datasets=[data_name] if "/" in data_name else None,
        model_name=f"{name}-{task_name}" if results else None,
        eval_results=results or None,
    )
    return data.to_yaml()


def _training(directory: Path) -> dict[str, Any] | None:
    """Settings and outcome of the training behind a directory, from its own record or the one its export carries."""
    if not (directory / RECORD).is_file():
        return None
    record = read_json(directory / RECORD, what="a record")
    return record["result"]["trained"] if record["stage"] == "export" else record


__all__ = ["render_card"]
