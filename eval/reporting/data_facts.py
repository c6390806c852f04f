"""What a report and a card say of the data that a model of one's own task was trained on, as far as records have it."""

import json
from pathlib import Path
from typing import Any

from hf_albert_plus.eval.measured_documents import FLOOR, PREDICTIONS
from hf_albert_plus.eval.reporting.class_tables import one_line
from hf_albert_plus.eval.reporting.presentation import Grid
from hf_albert_plus.eval.reporting.table import Table
from hf_albert_plus.records.files import check_shape
from hf_albert_plus.records.record import training_record
from hf_albert_plus.tasks.inspection import DataFacts
from hf_albert_plus.tasks.long_texts import MOST_WINDOWS

# Classes that are named with their counts.
_SHOWN = 20
# Parents that may have been trained on the same data, and were looked at then.
_TRAINED = ("teacher", "student", "model")


def facts_of_data(directory: Path) -> DataFacts | None:
    """What is in the data that the model in a directory learned from: of its own training's record, or of that of a model behind it that
    learned from the same data.

    Raises:
        InvalidInput: a record that says it in another form.
    """
    training = training_record(directory)
    content = training.get("result", {}).get("data")
    if content is not None:
        source = str(directory / "record.json")
        facts: DataFacts = check_shape(
            json.dumps(content), DataFacts, what="the data of a record", source=source, repair="train the model again"
        )
        return facts
    parents = training.get("parents", {})
    for name in _TRAINED:
        behind = Path(parents.get(name, {}).get("path", ""))
        if name in parents and behind != directory and behind.is_dir():
            same = training_record(behind).get("parents", {}).get("data", {}).get("sha256")
            if same is not None and same == parents.get("data", {}).get("sha256"):
                return facts_of_data(behind)
    return None


def data_sections(table: Table) -> list[dict[str, Any]]:
    """What a report says of the data of each of one's own tasks, of the first model that has a record of them."""
    sections = []
    for task in table.described.values():
        rows = [row.scores[part] for row in table.rows for part in task.rows if part in row.scores]
        directories = dict.fromkeys(
            Path(row.runs[0].directory) for row in rows if row.runtime not in (PREDICTIONS, FLOOR)
        )
        known = [facts for directory in directories if (facts := facts_of_data(directory)) is not None]
        if known and not task.benchmark:
            sections.append({"task": task.name, "grid": data_grid(known[0])})
    return sections


def data_grid(facts: DataFacts) -> Grid:
    """The facts as names and values."""
    rows = [[f"rows of {split}", f"{count:,}"] for split, count in facts.rows.items()]
    if facts.bounds is not None:
        rows.append(["numbers of the training rows", f"{facts.bounds[0]:g} to {facts.bounds[1]:g}"])
    if facts.classes:
        named = [f"{one_line(name)} {count:,}" for name, count in list(facts.classes.items())[:_SHOWN]]
        more = len(facts.classes) - len(named)
        what = "training rows of the {} classes" if facts.words is None else "words of the {} tags"
        rows.append([what.format(f"{len(facts.classes):,}"), ", ".join(named) + (f" and {more:,} more" if more else "")])  # fmt: skip
    if facts.without_label:
        rows.append(["training rows without a label", f"{facts.without_label:,}"])
    rows += [[f"empty texts in {split}", f"{count:,}"] for split, count in facts.empty_texts.items() if count]
    rows += [
        [f"rows of {split} whose text is a training row's", f"{count:,}"] for split, count in facts.repeated.items()
    ]
    rows += [
        [f"rows of {split} that stand nearly whole in a training row", f"{count:,}"]
        for split, count in facts.nearly_repeated.items()
    ]
    rows.append(["texts with several different labels", f"{facts.contradictions:,}"])
    if facts.words is not None:
        rows.append(["words a row, in the mean and at most", f"{facts.words[0]:g} and {facts.words[1]:,}"])
    if facts.cut_words is not None:
        reach = (
            f"{facts.max_length} tokens"
            if facts.long != "windows"
            else f"{MOST_WINDOWS} windows of {facts.max_length} tokens"
        )
        rows.append([f"words beyond {reach}", f"{100 * facts.cut_words:.2f} %"])
    if facts.without_answer is not None:
        rows.append(["training rows without an answer", f"{facts.without_answer:,}"])
    if facts.lost_answers is not None:
        rows.append(["answers that no window has whole", f"{100 * facts.lost_answers:.2f} %"])
    if facts.cut is not None:
        rows.append([f"texts longer than {facts.max_length} tokens", f"{100 * facts.cut:.1f} %"])
    if facts.long is not None:
        rows.append(
            ["what is read of these", "their beginning and end" if facts.windows is None else "all, in windows"]
        )
    if facts.windows is not None:
        what = "text" if facts.without_answer is None else "context"
        rows.append([f"windows a {what}, in the mean and at most", f"{facts.windows[0]:g} and {facts.windows[1]:,}"])
    return ["of the data", ""], rows
