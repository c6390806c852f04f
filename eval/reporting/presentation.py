"""The speedup table in words: headers and cells for the terminal, Markdown, HTML and CSV."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from hf_albert_plus.bootstrap import LEVEL
from hf_albert_plus.eval.measured_documents import Cell, Scores, to_json
from hf_albert_plus.eval.metrics import measure_text
from hf_albert_plus.eval.reporting.floor_notes import floor_notes
from hf_albert_plus.eval.reporting.table import NOT_MEASURED, Row, Table
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.tasks.averages import AVERAGES
from hf_albert_plus.tasks.task import ERRORS

Grid = tuple[list[str], list[list[str]]]
_SIZE_COLUMNS = {
    "parameters": ("parameters", lambda value: f"{value:,}"),
    "effective_parameters": ("parameters if nothing were shared", lambda value: f"{value:,}"),
    "sequence_flops": ("GFLOPs of 128 tokens", lambda value: f"{value / 1e9:.2f}"),
    "file_bytes": ("file MB", lambda value: f"{value / 1e6:.1f}"),
    "load_ms": ("load ms", lambda value: f"{value:.0f}"),
    "load_mb": ("load MB", lambda value: f"{value:.1f}"),
    "peak_rss_mb": ("peak RSS MB", lambda value: f"{value:.0f}"),
    "published_training_speedup": ("training speedup over BERT-large in the ALBERT paper", lambda value: f"{value}x"),
}


def summary(table: Table) -> Grid:
    """The terminal's table: sizes, speedup, median latency (or throughput of passes), and scores."""
    header = [*_model_header(table), *(f"{load} speedup" for load in table.loads)]
    header += [f"{load} {_pace_unit(load)}" for load in table.loads]
    header += [f"{task} {'/'.join(table.metrics(task))}" for task in table.tasks]
    cells = []
    for row in table.rows:
        line = _model_cells(row, table)
        line += [_speedup(row, load) for load in table.loads]
        line += [_pace(row, load) for load in table.loads]
        line += [score_text(row, task) for task in table.tasks]
        cells.append(line)
    return header, cells


def main_grid(table: Table) -> Grid:
    """The report's first table: as the summary, with intervals and tails."""
    header = [*_model_header(table), *(f"{load} speedup" for load in table.loads)]
    for load in table.loads:
        header += [f"{load} {_pace_unit(load)}", f"{load} p99 ms"]
    header += [f"{task} {name}" for task in table.tasks for name in table.metrics(task)]
    cells = []
    for row in table.rows:
        line = _model_cells(row, table)
        line += [speedup_text(row, load) for load in table.loads]
        for load in table.loads:
            line += [_pace(row, load), _tail(row, load)]
        line += [metric_text(row, task, name) for task in table.tasks for name in table.metrics(task)]
        cells.append(line)
    return header, cells


def _model_header(table: Table) -> list[str]:
    return ["model", "parameters", "file MB", *(["windows a text"] if _has_windows(table) else [])]


def _model_cells(row: Row, table: Table) -> list[str]:
    windows = [str(row.windows or 1)] if _has_windows(table) else []
    return [row.label, _size(row, "parameters"), _size(row, "file_bytes"), *windows]


def _has_windows(table: Table) -> bool:
    return any(row.windows is not None for row in table.rows)


def difference_grid(table: Table) -> Grid:
    """How much each task's first score differs from the baseline's."""
    header = ["model", *(f"{task} {name}" for task in table.tasks for name in table.metrics(task)[:1])]
    return header, [
        [
            row.label,
            *("baseline" if row.label == table.baseline else difference_text(row, task) for task in table.tasks),
        ]
        for row in table.rows
    ]


def size_grid(table: Table) -> Grid:
    """Parameters, files, loading and memory: the columns that any row was measured in."""
    names = [name for name in _SIZE_COLUMNS if any(name in row.sizes for row in table.rows)]
    return (
        ["model", *(_SIZE_COLUMNS[name][0] for name in names)],
        [[row.label, *(_size(row, name) for name in names)] for row in table.rows],
    )


def split_grid(table: Table) -> Grid:
    """The speedups of rows in whose engine the baseline's model was timed too: the engine's part, the model's, and how many times fewer
    operations the model takes."""
    header = ["model", "load", "speedup", "of the engine", "of the model (95 %)", "times fewer FLOPs"]
    base = next((row.sizes.get("sequence_flops") for row in table.rows if row.label == table.baseline), None)
    cells = []
    for row in table.rows:
        flops = row.sizes.get("sequence_flops")
        fewer = f"{base / flops:.2f}x" if base and flops else NOT_MEASURED
        for load, split in row.splits.items():
            if row.label != table.baseline:
                low, high = split.model_interval
                model = f"{split.model:.2f}x ({low:.2f} to {high:.2f})"
                cells.append([row.label, load, f"{split.total:.2f}x", f"{split.engine:.2f}x", model, fewer])
    return header, cells


def latency_grid(table: Table) -> Grid:
    """Every load of every row in full."""
    header = ["model", "load", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "highest ms", "outliers", "samples", "a second",
              "speedup", "GFLOPs", "of attainable", "warm-up"]  # fmt: skip
    cells = []
    for row in table.rows:
        for load in table.loads:
            cell = row.timings.get(load)
            if cell is None:
                cells.append([row.label, load, *([NOT_MEASURED] * (len(header) - 2))])
                continue
            line = [row.label, load]
            line += [f"{value:.2f}" for value in (cell.p50_ms, cell.p90_ms, cell.p95_ms, cell.p99_ms, cell.max_ms)]
            line += [str(cell.outliers), str(cell.samples), _rate(cell), speedup_text(row, load)]
            line.append(NOT_MEASURED if cell.flops is None else f"{cell.flops / 1e9:.2f}")
            line.append(NOT_MEASURED if cell.attained is None else f"{100 * cell.attained:.0f} %")
            line.append(f"{cell.warm_up.calls} calls, {'stable' if cell.warm_up.stable else 'not stable'}")
            cells.append(line)
    return header, cells


def average_grid(table: Table) -> Grid | None:
    """The published averages that any row's scores allow; None without a task of GLUE."""
    if not any(task.benchmark for task in table.described.values()):
        return None
    averages = {row.label: row.averages() for row in table.rows}
    names = [name for name in AVERAGES if any(name in of_row for of_row in averages.values())]
    return (
        ["model", *(f"{name} ({AVERAGES[name].split})" for name in names)],
        [
            [label, *(f"{of_row[name]:.1f}" if name in of_row else NOT_MEASURED for name in names)]
            for label, of_row in averages.items()
        ]
        if names
        else [],
    )


def records(table: Table) -> list[dict[str, str]]:
    """The summary as records: what `--json` prints of it."""
    header, cells = summary(table)
    return [dict(zip(header, line, strict=True)) for line in cells]


def csv_text(table: Table) -> str:
    """Every figure on a line of its own: model, name, runtime, what it was measured on, figure, value, interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "name", "runtime", "on", "figure", "value", "low", "high"])
    for row in table.rows:
        for on, figure, value, interval in _figures(row):
            writer.writerow([row.label, row.name, row.runtime, on, figure, value, *(interval or ("", ""))])
    return text.getvalue()


def _figures(row: Row) -> Iterator[tuple[str, str, Any, list[float] | None]]:
    for name, value in row.sizes.items():
        yield "", name, value, None
    if row.windows is not None:
        yield "", "windows_a_text", row.windows.mean, None
        yield "", "most_windows_of_a_text", row.windows.most, None
    for task, score in row.scores.items():
        for metric, points in score.metrics.items():
            yield task, metric, NOT_MEASURED if points is None else points, score.intervals[metric]
        if (delta := row.differences.get(task)) is not None:
            yield task, f"{delta.metric} against baseline", delta.points, delta.interval
    for name, value in row.averages().items():
        yield "GLUE", f"{name} average", round(value, 3), None
    for load, cell in row.timings.items():
        yield load, "speedup", cell.speedup, cell.speedup_interval
        if (split := row.splits.get(load)) is not None:
            yield load, "speedup in the same engine", split.model, list(split.model_interval)
        for name, value in to_json(cell).items():
            if isinstance(value, int | float) and name != "speedup":
                yield load, name, value, None


def interval_text(metric: str, value: float | None, interval: list[float] | None) -> str:
    """`82.0 (79.4 to 84.4)`."""
    text, *bounds = (measure_text(metric, each, decimals=1) for each in (value, *(interval or ())))
    return f"{text} ({' to '.join(bounds)})" if bounds else text


def score_text(row: Row, task: str) -> str:
    """A task's metrics in short: `79.4 / 85.4`."""
    if task not in row.scores:
        return NOT_MEASURED
    return " / ".join(measure_text(metric, value, decimals=1) for metric, value in row.scores[task].metrics.items())


def metric_text(row: Row, task: str, metric: str) -> str:
    """A metric with its interval, and the number of runs where there are several: `82.0 (79.4 to 84.4), 3 runs`."""
    score = row.scores.get(task)
    if score is None:
        return NOT_MEASURED
    runs = len(score.runs)
    text = interval_text(metric, score.metrics[metric], score.intervals[metric])
    return f"{text}{f', {runs} runs' if runs > 1 else ''}"


def difference_text(row: Row, task: str) -> str:
    """`-7.1, lower` or `+0.8, within noise`."""
    delta = row.differences.get(task)
    if delta is None:
        return NOT_MEASURED
    return f"{measure_text(delta.metric, delta.points, decimals=1, sign='+')}, {delta.verdict}"


def speedup_text(row: Row, load: str) -> str:
    """`2.05x (2.01 to 2.09)`."""
    if load not in row.timings:
        return NOT_MEASURED
    low, high = row.timings[load].speedup_interval
    return f"{row.timings[load].speedup:.2f}x ({low:.2f} to {high:.2f})"


def is_offline(load: str) -> bool:
    """Whether a load is whole passes, whose throughput counts and not whose latency."""
    return load.endswith(" offline")


def _pace_unit(load: str) -> str:
    return "sentences/s" if is_offline(load) else "p50 ms"


def _pace(row: Row, load: str) -> str:
    cell = row.timings.get(load)
    if cell is None:
        return NOT_MEASURED
    return _rate(cell) if is_offline(load) else f"{cell.p50_ms:.2f}"


def _rate(cell: Cell) -> str:
    return f"{cell.items_per_s:.{0 if cell.items_per_s >= 100 else 1}f}{', fell behind' if cell.fell_behind else ''}"


def _speedup(row: Row, load: str) -> str:
    return f"{row.timings[load].speedup:.2f}x" if load in row.timings else NOT_MEASURED


def _tail(row: Row, load: str) -> str:
    return f"{row.timings[load].p99_ms:.2f}" if load in row.timings else NOT_MEASURED


def _size(row: Row, name: str) -> str:
    return _SIZE_COLUMNS[name][1](row.sizes[name]) if name in row.sizes else NOT_MEASURED


def notes(table: Table, scores: list[Scores], data_name: str) -> list[str]:
    """What a reader must know to read the numbers."""
    lines = [
        f"Scores are points on {data_name}; in brackets the {LEVEL} % bootstrap interval over examples (and runs). "
        "A difference whose interval holds 0 is within noise.",
        f"Speedup is how many times as fast a row is as {table.baseline}: the median over rounds in which all rows took "
        "turns, in one run, and its 95 % interval. A shape is sequences x tokens, unpadded.",
        "Outliers are more than three interquartile ranges above the third quartile; every percentile counts them.",
    ]
    errors = {name: None for task in table.tasks for name in table.metrics(task) if name in ERRORS}
    if errors:
        lines.append(f"{', '.join(errors)}: in the unit of the numbers, and less is better.")
    others = {
        f"{row.task} {row.split} {row.examples:,} of {row.glue_examples:,}": None
        for document in scores
        for row in document.rows
        if row.differs_from_glue
    }
    if others:
        lines.append(f"Rows that were scored, of those that GLUE has: {', '.join(others)}.")
    lines += _window_notes(scores)
    lines += floor_notes(table)
    lines += _untimed_notes(table)
    lines += [f"Joined on request: {words}." for words in table.allowed]
    lines += [
        f"Average {name}: {AVERAGES[name].source}."
        for name in AVERAGES
        if any(name in r.averages() for r in table.rows)
    ]
    return list(dict.fromkeys(lines))


def _window_notes(scores: list[Scores]) -> list[str]:
    """How long texts were read, a note a split where they were read in windows."""
    return [
        f"{row.task} {row.split}: {window_words(row.runs[0].windows, document.max_length)}, whose answers were joined."
        for document in scores
        for row in document.rows
        if row.runs[0].windows is not None
    ]


def window_words(windows: WindowCount, max_length: int | None) -> str:
    """How texts were read that have several windows."""
    return f"texts of more than {max_length} tokens were read in windows, {windows.mean:.2f} a text in the mean and {windows.most} at most"


def _untimed_notes(table: Table) -> list[str]:
    """One note for all the tasks of which the same rows were not timed themselves."""
    tasks_of: dict[tuple[str, ...], list[str]] = {}
    for task in table.tasks:
        rows = tuple(row.label for row in table.rows if task in row.untimed)
        if rows:
            tasks_of.setdefault(rows, []).append(task)
    return [
        f"The models of {', '.join(tasks)} were not timed themselves; the latency is that of another model of the same name and "
        f"architecture: {', '.join(rows)}."
        for rows, tasks in tasks_of.items()
    ]
