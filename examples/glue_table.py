"""Joins the scores and timings that glue-table.sh left into the tables of a page: scores over all tasks, and costs on each.

    python examples/glue_table.py OUT sst2 mrpc stsb > table.md

OUT/table.json has what the first table says over several tasks, and OUT/frontier.svg draws it.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from hf_albert_plus.eval.measured_documents import read_latency, read_scores
from hf_albert_plus.eval.reporting.engine_split import Split
from hf_albert_plus.eval.reporting.plots import COLOURS, Figure, as_svg, log_axis, undominated
from hf_albert_plus.eval.reporting.presentation import metric_text
from hf_albert_plus.eval.reporting.table import NOT_MEASURED, Row, Table, build_table

# The tasks that the targets of the page are over.
MAIN = ("sst2", "mrpc", "stsb")


@dataclass(frozen=True)
class Summary:
    """A row over several tasks; None where one of them was not measured.

    Attributes:
        mean: of the tasks' first metrics, in points; MNLI's halves count half each.
        share: of the baseline's mean, in percent.
        file_mb: the mean of its files.
        smaller: how many times the baseline's file.
        speedup: of whole passes, the geometric mean over the tasks; engine and model are its two factors.
    """

    label: str
    mean: float | None
    share: float | None
    file_mb: float | None
    smaller: float | None
    speedup: float | None
    engine: float | None
    model: float | None


def main(out: Path, tasks: list[str]) -> None:
    """Prints Markdown, and writes the summary and its plot."""
    tables = {task: table_of(out, task) for task in tasks}
    main_tasks = [task for task in MAIN if task in tables] or tasks
    summaries = summarised(tables, main_tasks)
    print_scores(tables, summaries, main_tasks)
    costs = {task: [Cost.of(row) for row in table.rows] for task, table in tables.items()}
    for task, of_task in costs.items():
        print_costs(task, of_task)
    content = {
        "tasks": main_tasks,
        "rows": [asdict(each) for each in summaries],
        "costs": {task: [asdict(each) for each in of_task] for task, of_task in costs.items()},
    }
    (out / "table.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (out / "frontier.svg").write_text(frontier_svg(summaries), encoding="utf-8")


def table_of(out: Path, task: str) -> Table:
    """The rows of a task, its floor among them."""
    scores = [read_scores(out / folder / task / "scores.json") for folder in ("scores", "floor")]
    return build_table(scores, read_latency(out / "latency" / task / "latency.json"))


def rows_of(tables: dict[str, Table]) -> list[str]:
    """Labels of all tables, in the order in which they come."""
    return list(dict.fromkeys(label_of(row) for table in tables.values() for row in table.rows))


def label_of(row: Row) -> str:
    """The label of a row over all tasks. What a search found is int8 on each of them, and has exits on some."""
    found = re.fullmatch(r"(teacher|small)-([\d.]+)", row.name)
    if found is None:
        return row.label
    points = "1 point" if found[2] == "1" else f"{found[2]} points"
    return f"found from the {found[1]} one for {points}"


def row_of(table: Table, label: str) -> Row | None:
    return next((row for row in table.rows if label_of(row) == label), None)


def summarised(tables: dict[str, Table], tasks: list[str]) -> list[Summary]:
    rows = {label: [row_of(tables[task], label) for task in tasks] for label in rows_of(tables)}
    means, sizes = {}, {}
    for label, of_label in rows.items():
        scores = [row and row.mean_score(tables[task].tasks) for row, task in zip(of_label, tasks, strict=True)]
        means[label] = over(scores, arithmetic)
        sizes[label] = over([row and row.sizes.get("file_bytes") for row in of_label], arithmetic)
    baseline = next(iter(rows))  # a table has it first
    return [
        Summary(
            label,
            means[label],
            share=in_units(ratio(means[label], means[baseline]), 100),
            file_mb=in_units(sizes[label], 1e-6),
            smaller=ratio(sizes[baseline], sizes[label]),
            speedup=over([row and speedup(row) for row in of_label], geometric),
            engine=over([split and split.engine for split in map(split_of, of_label)], geometric),
            model=over([split and split.model for split in map(split_of, of_label)], geometric),
        )
        for label, of_label in rows.items()
    ]


def split_of(row: Row | None) -> Split | None:
    """What of the speedup of whole passes the engine does, and what the model."""
    return None if row is None else row.splits.get(passes_of(row) or "")


def ratio(value: float | None, of: float | None) -> float | None:
    return None if value is None or not of else value / of


def over(values: list[float | None], mean: Callable[[list[float]], float]) -> float | None:
    """A mean over the tasks; None where any lacks the value."""
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None


def arithmetic(values: list[float]) -> float:
    return sum(values) / len(values)


def geometric(values: list[float]) -> float:
    return math.exp(arithmetic([math.log(value) for value in values]))


def passes_of(row: Row) -> str | None:
    """The load of whole passes."""
    return next((load for load in row.timings if load.endswith(" offline")), None)


def speedup(row: Row) -> float | None:
    load = passes_of(row)
    return None if load is None else row.timings[load].speedup


def print_scores(tables: dict[str, Table], summaries: list[Summary], tasks: list[str]) -> None:
    parts = [(table, part) for table in tables.values() for part in table.tasks]
    over_tasks = ", ".join(tasks)
    header = [
        "model", *(f"{part} {table.metrics(part)[0]}" for table, part in parts), f"mean of {over_tasks}", "of the teacher's", "MB", "times smaller",
        f"speedup on {over_tasks}", "of the engine", "of the model",
    ]  # fmt: skip
    lines = []
    for summary in summaries:
        rows = [(table, part, row_of(table, summary.label)) for table, part in parts]
        texts = [
            NOT_MEASURED if row is None else metric_text(row, part, table.metrics(part)[0]) for table, part, row in rows
        ]
        lines.append(
            [
                summary.label,
                *texts,
                number(summary.mean, decimals=1),
                number(summary.share, decimals=1, unit_text=" %"),
                number(summary.file_mb, decimals=1),
                *(number(value, decimals=1, unit_text="x") for value in (summary.smaller, summary.speedup, summary.engine, summary.model)),
            ]
        )  # fmt: skip
    print_grid("Scores", header, lines)


def frontier_svg(summaries: list[Summary]) -> str:
    """The share of the teacher's mean against the speedup, rows numbered and those that none beats in both joined."""
    rows = [each for each in summaries if each.share is not None and each.speedup is not None]
    names = list(dict.fromkeys(each.label.split()[0] for each in rows))
    with Figure(height=3.2 + 0.17 * math.ceil(len(rows) / 2)) as (figure, panel):
        for number_, each in enumerate(rows, start=1):
            colour = COLOURS[names.index(each.label.split()[0]) % len(COLOURS)]
            panel.scatter(each.speedup, each.share, color=colour, s=30, label=f"{number_} {each.label}", zorder=3)
            panel.annotate(
                str(number_), (each.speedup, each.share), xytext=(4, 3), textcoords="offset points", fontsize=7
            )
        best = undominated([(1 / (each.speedup or 1), each.share or 0) for each in rows])
        panel.plot([1 / x for x, _ in best], [y for _, y in best], color="#888888", linewidth=1, zorder=1)
        for share, least in ((97, 60), (94, 120)):
            panel.plot([least, least], [share - 0.6, share + 0.6], color="#d1495b", linewidth=2, zorder=2)
        log_axis(panel)
        panel.set_xlabel("times the teacher's pace in torch fp32, whole passes")
        panel.set_ylabel("share of the teacher's mean score, %")
        panel.grid()
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=7)
        return as_svg(figure)


@dataclass(frozen=True)
class Cost:
    """What a row costs on a task: sizes, one text at a time, whole passes in two ways of batching, memory, and the speedup with its two factors."""

    label: str
    parameters: float | None
    effective_parameters: float | None
    file_mb: float | None
    gflops: float | None
    p50_ms: float | None
    p99_ms: float | None
    by_length: float | None
    in_file_order: float | None
    peak_mb: float | None
    speedup: float | None
    interval: list[float] | None
    engine: float | None
    model: float | None

    @classmethod
    def of(cls, row: Row) -> "Cost":
        sizes, passes = row.sizes, passes_of(row)
        alone = next((row.timings[load] for load in row.timings if load.endswith("single stream")), None)
        timing, split = row.timings.get(passes or ""), split_of(row)
        return cls(
            row.label,
            sizes.get("parameters"),
            sizes.get("effective_parameters"),
            in_units(sizes.get("file_bytes"), 1e-6),
            in_units(sizes.get("sequence_flops"), 1e-9),
            None if alone is None else alone.p50_ms,
            None if alone is None else alone.p99_ms,
            pace(row, "length"),
            pace(row, "file"),
            sizes.get("peak_rss_mb"),
            None if timing is None else timing.speedup,
            None if timing is None else list(timing.speedup_interval),
            None if split is None else split.engine,
            None if split is None else split.model,
        )


def print_costs(task: str, costs: list[Cost]) -> None:
    header = [
        "model", "parameters", "if nothing were shared", "MB", "GFLOPs of 128 tokens", "p50 ms", "p99 ms", "sentences/s by length", "in file order",
        "peak MB", "speedup (95 %)", "of the engine", "of the model",
    ]  # fmt: skip
    lines = [
        [
            each.label,
            number(each.parameters),
            number(each.effective_parameters),
            number(each.file_mb, decimals=1),
            *(number(value, decimals=2) for value in (each.gflops, each.p50_ms, each.p99_ms)),
            *(
                number(value, decimals=1 if value is not None and value < 100 else 0)
                for value in (each.by_length, each.in_file_order)
            ),
            number(each.peak_mb),
            NOT_MEASURED
            if each.speedup is None or each.interval is None
            else "{:.2f}x ({:.2f} to {:.2f})".format(each.speedup, *each.interval),
            *(number(value, decimals=2, unit_text="x") for value in (each.engine, each.model)),
        ]
        for each in costs
    ]
    print_grid(f"Costs on {task}", header, lines)


def in_units(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


def pace(row: Row, way: str) -> float | None:
    """Sentences a second of the row's first run with a way of batching."""
    runs = [run for score in row.scores.values() for run in score.runs]
    paces = [each for run in runs[:1] for each in run.throughput or () if each.batching.startswith(way)]
    return paces[0].sentences_per_s if paces else None


def number(value: float | None, *, decimals: int = 0, unit_text: str = "") -> str:
    return NOT_MEASURED if value is None else f"{value:,.{decimals}f}{unit_text}"


def print_grid(title: str, header: list[str], lines: list[list[str]]) -> None:
    print(f"## {title}\n")
    for line in (header, ["---", *["---:"] * (len(header) - 1)], *lines):
        print(f"| {' | '.join(line)} |")
    print()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
