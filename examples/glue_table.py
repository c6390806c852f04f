"""Joins the scores and timings that glue-table.sh left into the tables of a page: scores over all tasks, and costs on each.

python examples/glue_table.py OUT sst2 mrpc stsb
"""

import math
import sys
from pathlib import Path

from hf_albert_plus.eval.measured_documents import read_latency, read_scores
from hf_albert_plus.eval.reporting.presentation import metric_text
from hf_albert_plus.eval.reporting.table import NOT_MEASURED, Row, Table, build_table

# The tasks that the targets of the page are over.
MAIN = ("sst2", "mrpc", "stsb")


def main(out: Path, tasks: list[str]) -> None:
    """Prints Markdown."""
    tables = {task: table_of(out, task) for task in tasks}
    main_tasks = [task for task in MAIN if task in tables] or tasks
    print_scores(tables, main_tasks)
    for task, table in tables.items():
        print_costs(task, table)


def table_of(out: Path, task: str) -> Table:
    """The rows of a task, its floor among them."""
    scores = [read_scores(out / folder / task / "scores.json") for folder in ("scores", "floor")]
    return build_table(scores, read_latency(out / "latency" / task / "latency.json"))


def rows_of(tables: dict[str, Table]) -> list[str]:
    """Labels of all tables, in the order in which they come."""
    return list(dict.fromkeys(row.label for table in tables.values() for row in table.rows))


def row_of(table: Table, label: str) -> Row | None:
    return next((row for row in table.rows if row.label == label), None)


def offline(row: Row | None) -> float | None:
    """The speedup of whole passes."""
    loads = [] if row is None else [load for load in row.timings if load.endswith(" offline")]
    return row.timings[loads[0]].speedup if row is not None and loads else None


def mean_score(tables: dict[str, Table], label: str, tasks: list[str]) -> float | None:
    """The mean of the tasks' first metrics, where all were measured; MNLI's halves count half each."""
    means = []
    for task in tasks:
        row = row_of(tables[task], label)
        mean = None if row is None else row.mean_score(tables[task].tasks)
        if mean is None:
            return None
        means.append(mean)
    return sum(means) / len(means)


def geometric_speedup(tables: dict[str, Table], label: str, tasks: list[str]) -> float | None:
    """The geometric mean of the tasks' speedups, where all were measured."""
    found = [offline(row_of(tables[task], label)) for task in tasks]
    known = [value for value in found if value is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if len(known) == len(tasks) else None


def print_scores(tables: dict[str, Table], tasks: list[str]) -> None:
    parts = [(table, part) for table in tables.values() for part in table.tasks]
    over = ", ".join(tasks)
    header = [
        "model", *(f"{part} {table.metrics(part)[0]}" for table, part in parts), f"mean of {over}", "of the teacher's", f"speedup on {over}",
    ]  # fmt: skip
    base = mean_score(tables, next(iter(tables.values())).baseline, tasks)
    lines = []
    for label in rows_of(tables):
        line = [label]
        for table, part in parts:
            row = row_of(table, label)
            line.append(NOT_MEASURED if row is None else metric_text(row, part, table.metrics(part)[0]))
        mean, speedup = mean_score(tables, label, tasks), geometric_speedup(tables, label, tasks)
        line.append(NOT_MEASURED if mean is None else f"{mean:.1f}")
        line.append(NOT_MEASURED if mean is None or not base else f"{100 * mean / base:.1f} %")
        line.append(NOT_MEASURED if speedup is None else f"{speedup:.1f}x")
        lines.append(line)
    print_grid("Scores", header, lines)


def print_costs(task: str, table: Table) -> None:
    """Sizes, one text at a time, whole passes in two ways of batching, memory, and the speedup with its two parts."""
    header = [
        "model", "parameters", "if nothing were shared", "MB", "GFLOPs of 128 tokens", "p50 ms", "p99 ms", "sentences/s by length", "in file order",
        "peak MB", "speedup (95 %)", "of the engine", "of the model",
    ]  # fmt: skip
    lines = []
    for row in table.rows:
        sizes, alone = (
            row.sizes,
            next((row.timings[load] for load in row.timings if load.endswith("single stream")), None),
        )
        passes = next((load for load in row.timings if load.endswith(" offline")), None)
        split = row.splits.get(passes or "")
        lines.append(
            [
                row.label,
                *(number(sizes.get(name)) for name in ("parameters", "effective_parameters")),
                number(sizes.get("file_bytes"), unit=1e-6, decimals=1),
                number(sizes.get("sequence_flops"), unit=1e-9, decimals=2),
                *(number(None if alone is None else value(alone), decimals=2) for value in (lambda cell: cell.p50_ms, lambda cell: cell.p99_ms)),
                *(number(pace(row, way)) for way in ("length", "file")),
                number(sizes.get("peak_rss_mb")),
                NOT_MEASURED if passes is None else "{:.2f}x ({:.2f} to {:.2f})".format(row.timings[passes].speedup, *row.timings[passes].speedup_interval),
                *([NOT_MEASURED] * 2 if split is None else (f"{split.engine:.2f}x", f"{split.model:.2f}x")),
            ]
        )  # fmt: skip
    print_grid(f"Costs on {task}", header, lines)


def pace(row: Row, way: str) -> float | None:
    """Sentences a second of the row's first run with a way of batching."""
    runs = [run for score in row.scores.values() for run in score.runs]
    paces = [each for run in runs[:1] for each in run.throughput or () if each.batching.startswith(way)]
    return paces[0].sentences_per_s if paces else None


def number(value: float | None, *, unit: float = 1.0, decimals: int = 0) -> str:
    return NOT_MEASURED if value is None else f"{value * unit:,.{decimals}f}"


def print_grid(title: str, header: list[str], lines: list[list[str]]) -> None:
    print(f"## {title}\n")
    for line in (header, ["---", *["---:"] * (len(header) - 1)], *lines):
        print(f"| {' | '.join(line)} |")
    print()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
