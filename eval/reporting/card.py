"""Cards of classifiers: facts gathered from records and measurements, rendered by a template. What is missing reads "not measured"."""

from pathlib import Path
from typing import Any

from hf_albert_plus.data_names import as_dataset_type, is_hub_id
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.measured_documents import FLOOR, Latency, ScoredRow, Scores, to_json
from hf_albert_plus.eval.metrics import measure_text
from hf_albert_plus.eval.reporting import lineage_words
from hf_albert_plus.eval.reporting.chosen_rows import chosen_rows, sentences
from hf_albert_plus.eval.reporting.class_tables import card_classes
from hf_albert_plus.eval.reporting.data_facts import data_grid, facts_of_data
from hf_albert_plus.eval.reporting.hub_metadata import hub_facts, hub_facts_of, metadata_yaml
from hf_albert_plus.eval.reporting.presentation import (
    difference_text,
    is_offline,
    metric_text,
    speedup_text,
    window_words,
)
from hf_albert_plus.eval.reporting.table import NOT_MEASURED, Row, Table
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.records.lineage import Ancestor, Fingerprint, ancestors, stage_facts
from hf_albert_plus.records.record import training_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.task import ERRORS, Task
from hf_albert_plus.tasks.task_file import describe_task, task_of

# Fields of a training's record, and what stands for one that an older record lacks.
_TRAINING: dict[str, Any] = {
    "stage": "", "command": "", "settings": {}, "parents": {}, "result": {}, "finished": "not recorded",
}  # fmt: skip
KIND = "card"
# Kind of a task -> the Hub's name of what its models are for, and the head's name in words, where they are none of classification.
_PIPELINES = {"tags": "token-classification", "spans": "question-answering"}
_HEADS = {"number": "regression", "tags": "token classification", "spans": "question answering"}
_HUB_METRICS = {
    "macro_f1": "f1",
    "weighted_f1": "f1",
    "micro_f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "answer_f1": "f1",
}


def card_facts(
    name: str,
    task_name: str,
    *,
    table: Table,
    scores: list[Scores],
    latency: Latency,
    data_name: str | None,
    fingerprint_of: Fingerprint | None = None,
) -> dict[str, Any]:
    """All that the card of one model of the table says, for one task, as a JSON-ready record.

    Args:
        name: the name its rows carry.
        task_name: the task it is a classifier for.
        fingerprint_of: see `ancestors`; for several cards one that remembers.

    Raises:
        InvalidInput: the model directory that was scored is not there any more.
    """
    from hf_albert_plus.config_files import load_config

    task = table.described[task_name]
    rows = [row for row in table.rows if row.name == name and any(part in row.scores for part in task.rows)]
    directory = Path(rows[0].scores[next(part for part in task.rows if part in rows[0].scores)].runs[0].directory)
    if not directory.is_dir():
        raise InvalidInput(
            "a card needs the model directory that was scored",
            got=f"{directory}, which is not there",
            repair="run it in the folder in which albert-plus eval ran",
        )
    floor = [row for row in table.rows if row.runtime == FLOOR]
    config = load_config(directory, option="a target")
    training = training_record(directory)
    scored = next(rows[0].scores[part] for part in task.rows if part in rows[0].scores)
    document = next(document for document in scores if scored in document.rows)
    behind = ancestors(directory, fingerprint_of=fingerprint_of)
    chosen = chosen_rows(
        behind,
        task=task,
        scored_on=document.data,
        splits={row.scores[part].split for row in rows for part in task.rows if part in row.scores},
        has_threshold=bool(getattr(config, "exit_layers", None))
        and getattr(config, "exit_threshold", None) is not None,
    )
    return {
        "kind": KIND,
        "name": f"{name}-{task_name}",
        "task": task_name,
        **({} if task.benchmark else {"own_task": describe_task(task)}),
        **_data(directory, task),
        "data_name": data_name or ("GLUE" if task.benchmark else task.name),
        "hub": hub_facts(directory, language="en" if task.benchmark else None),
        "protocol": document.protocol,
        "max_length": document.max_length,
        "encoder": encoder_facts(config),
        "parameters": parameter_facts(config),
        "training": {key: training.get(key, absent) for key, absent in _TRAINING.items()} if training else {},
        "lineage": [stage_facts(each) for each in behind],
        **({"chosen_rows": chosen} if chosen else {}),
        "scores": [_score(row, part, task) for row in (*rows, *floor) for part in task.rows if part in row.scores],
        **_ranges(behind),
        "baseline": table.baseline,
        "latency": [_latency(row, table) for row in rows],
        "machine": to_json(latency.environment),
    }


def _ranges(behind: list[Ancestor]) -> dict[str, int]:
    """On how many examples the ranges of int8 were found, where the model's own stage is an export that says so."""
    exports = behind[0].record["result"].get("exports", {}) if behind else {}
    examples = exports.get("onnx-int8", {}).get("calibration_examples")
    return {} if not examples else {"int8_examples": examples}


def _data(directory: Path, task: Task) -> dict[str, Any]:
    """What is in the data of a task of one's own, as names and values."""
    facts = None if task.benchmark else facts_of_data(directory)
    return {} if facts is None else {"data_facts": data_grid(facts)[1]}


def encoder_facts(config: Any) -> dict[str, Any]:
    """What a card says of an encoder's shape."""
    names = (
        "model_type",
        "num_hidden_layers",
        "hidden_size",
        "embedding_size",
        "num_attention_heads",
        "intermediate_size",
    )
    facts = {name: getattr(config, name) for name in names if getattr(config, name, None) is not None}
    if config.model_type == "albert_plus":
        facts |= {"attention_map": list(config.attention_map), "ffn_map": list(config.ffn_map)}
        sizes = {name: getattr(config, name) for name in ("block_attention_heads", "block_intermediate_sizes")}
        facts |= {name: value for name, value in sizes.items() if value is not None}
        if config.exit_layers:
            exits = ("exit_layers", "exit_head", "exit_criterion", "exit_threshold")
            facts |= {name: getattr(config, name) for name in exits}
    return facts


def shape_words(encoder: dict[str, Any]) -> str:
    """An ALBERT-plus encoder's sizes; where blocks have unlike ones, from the smallest to the largest."""

    def size(blocks: str, field: str) -> str:
        sizes = encoder.get(blocks) or [encoder[field]]
        return str(sizes[0]) if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"

    heads, width = (
        size("block_attention_heads", "num_attention_heads"),
        size("block_intermediate_sizes", "intermediate_size"),
    )
    return (
        f"{encoder['num_hidden_layers']} layers, hidden size {encoder['hidden_size']}, embedding size {encoder['embedding_size']}, "
        f"{heads} heads, feed-forward size {width}"
    )


def parameter_facts(config: Any) -> dict[str, dict[str, int]]:
    """Parameters of every part, as stored and as they would be with nothing shared."""
    from hf_albert_plus.eval.latency.costs import Arithmetic

    return {
        part: {"stored": stored, "effective": effective}
        for part, (stored, effective) in Arithmetic(config).parts.items()
    }


def totals(parameters: dict[str, dict[str, int]]) -> dict[str, int]:
    """The sums over all parts."""
    return {kind: sum(part[kind] for part in parameters.values()) for kind in ("stored", "effective")}


def _score(row: Row, part: str, task: Any) -> dict[str, Any]:
    score = row.scores[part]
    layers, windows = score.runs[0].average_layers, score.runs[0].windows
    return {
        "label": row.label,
        "runtime": row.runtime,
        "task": part,
        "split": score.split,
        "examples": score.examples,
        "glue_examples": score.glue_examples,
        "metrics": score.metrics,
        "intervals": score.intervals,
        "seeds": [run.seed for run in score.runs],
        **({"runs": _runs(score, task)} if len(score.runs) > 1 else {}),
        "in_words": {metric: metric_text(row, part, metric) for metric in task.metrics},
        "against_baseline": difference_text(row, part),
        **({} if layers is None else {"average_layers": layers}),
        **({} if windows is None else {"windows": to_json(windows)}),
        **card_classes(score.runs[0]),
    }


def _runs(score: ScoredRow, task: Task) -> list[dict[str, Any]]:
    """What each run scored, by its seed: the row has the median."""
    return [{"seed": run.seed, "metrics": {name: run.metrics[name] for name in task.metrics}} for run in score.runs]


def _latency(row: Row, table: Table) -> dict[str, Any]:
    cells = {}
    for load in table.loads:
        cell = row.timings.get(load)
        if cell is None:
            cells[load] = {"pace": NOT_MEASURED, "speedup": NOT_MEASURED}
            continue
        tails = f"{cell.p50_ms:.2f} / {cell.p95_ms:.2f} / {cell.p99_ms:.2f} ms"
        pace = f"{cell.items_per_s:.0f} sentences/s" if is_offline(load) else tails
        cells[load] = {"pace": pace, "speedup": speedup_text(row, load)}
    return {"label": row.label, "runtime": row.runtime, "sizes": row.sizes, "loads": cells}


def card_task(facts: dict[str, Any]) -> Task:
    """The task of a card's facts."""
    return task_of(facts["own_task"], where="own_task of a card") if "own_task" in facts else get_task(facts["task"])


def _reading(facts: dict[str, Any], task: Task) -> str:
    """What was read of long texts when they were scored."""
    of_rows = [row["windows"] for row in facts["scores"] if "windows" in row]
    if of_rows:
        return window_words(WindowCount(**of_rows[0]), facts["max_length"])
    what = "cut to their beginning and end" if task.long.reads_end else "cut"
    return f"texts {what} at {facts['max_length']} tokens"


def render_card(facts: dict[str, Any]) -> str:
    """A card's Markdown, metadata with a model index before it."""
    from hf_albert_plus.eval.reporting.templates import environment

    task = card_task(facts)
    return (
        environment()
        .get_template("model_card.md.jinja")
        .render(
            **facts,
            metadata=_metadata(facts),
            language=_hub(facts).get("language"),
            task_facts=task,
            head=_HEADS.get(task.kind, "classification"),
            diagram=diagram(facts["encoder"]) if "attention_map" in facts["encoder"] else None,
            shape=shape_words(facts["encoder"]) if "attention_map" in facts["encoder"] else None,
            totals=totals(facts["parameters"]),
            trained_length=_trained_length(facts),
            not_measured=NOT_MEASURED,
            reading=_reading(facts, task),
            stages=lineage_words.stage_rows(facts.get("lineage", ())),
            ran=lineage_words.versions_in_words(facts["lineage"]) if facts.get("lineage") else "",
            chosen=sentences(facts.get("chosen_rows", ()), task),
            measure_text=measure_text,
        )
    )


def _trained_length(facts: dict[str, Any]) -> int | None:
    """The longest input of the last stage that says so: a stage that only removes parts says none, and the training before it does."""
    stages = [facts["training"], *facts.get("lineage", ())]
    lengths = [stage.get("settings", {}).get("max_length") for stage in stages]
    return next((length for length in lengths if length is not None), None)


def diagram(encoder: dict[str, Any]) -> str:
    """Which block each layer runs, a letter a block."""
    layers = encoder["num_hidden_layers"]
    width = max(2, len(str(layers)), *(len(_letters(group)) for group in encoder["attention_map"] + encoder["ffn_map"]))
    lines = [("layer", [str(layer + 1) for layer in range(layers)])]
    for what, key in (("attention", "attention_map"), ("feed-forward", "ffn_map")):
        lines.append((what, [_letters(group) for group in encoder[key]]))
    return "\n".join(f"{what:<12} {' '.join(f'{cell:>{width}}' for cell in cells)}" for what, cells in lines)


def _letters(group: int) -> str:
    """0, 1, … -> A, B, …, Z, AA, …"""
    letters = ""
    while group >= 0:
        letters = chr(ord("A") + group % 26) + letters
        group = group // 26 - 1
    return letters


def _reported(facts: dict[str, Any]) -> list[tuple[dict[str, Any], str, float]]:
    """The torch row's scores: what the Hub shows of the model."""
    return [
        (row, metric, value if metric in ERRORS else value / 100)
        for row in facts["scores"]
        if row["runtime"] == "torch"
        for metric, value in row["metrics"].items()
        if value is not None
    ]


def _hub(facts: dict[str, Any]) -> dict[str, Any]:
    """What the metadata say of the model's origin. An older record has the training's own alone, whose data were English."""
    data_name = facts["data_name"]
    hub = facts.get("hub")
    if hub is None:
        hub = {"language": "en", **hub_facts_of(facts["training"])}
    return {**hub, "datasets": [data_name]} if is_hub_id(data_name) and "datasets" not in hub else hub


def _metadata(facts: dict[str, Any]) -> str:
    """The card's YAML."""
    from huggingface_hub import EvalResult

    data_name, task = facts["data_name"], card_task(facts)
    pipeline = _PIPELINES.get(task.kind, "text-classification")
    results = [
        EvalResult(
            task_type=pipeline,
            dataset_type=as_dataset_type(data_name),
            dataset_name=row["task"] if data_name == task.name else f"{data_name} {row['task']}",
            dataset_config=facts["task"],
            dataset_split=row["split"],
            metric_type=_HUB_METRICS.get(metric, metric),
            metric_name=metric if metric in _HUB_METRICS else None,
            metric_value=round(value, 4),
        )
        for row, metric, value in _reported(facts)
    ]
    return metadata_yaml(
        _hub(facts), pipeline_tag=pipeline, tags=["albert-plus", "onnx"], name=facts["name"], results=results
    )


def eval_results(facts: dict[str, Any]) -> str | None:
    """The scores in the Hub's `.eval_results/*.yaml` form; None where the data set is none of the Hub's."""
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    if not is_hub_id(facts["data_name"]):
        return None
    entries = [
        EvalResultEntry(
            dataset_id=facts["data_name"],
            task_id=facts["task"],
            value=round(value, 4),
            notes=f"{metric} on {row['split']}, {row['examples']} rows",
        )
        for row, metric, value in _reported(facts)
    ]
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False) if entries else None
