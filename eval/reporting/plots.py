"""The report's plots, as SVG that takes its text colour from the page: readable on light and dark."""

import io
import math
import re
from typing import Any

from hf_albert_plus.eval.reporting.presentation import is_offline
from hf_albert_plus.eval.reporting.table import Row, Table
from hf_albert_plus.tasks.task import ERRORS

_MARKERS = {
    "torch": "o", "onnx": "s", "onnx-int8": "D", "onnx-exits": "p", "onnx-int8-exits": "*", "openvino": "v", "openvino-int8": "P",
}  # fmt: skip
# Told apart on white and on near-black, and by most colour-blind eyes.
COLOURS = ("#4c8bf5", "#e8743b", "#2ca089", "#b565c9", "#a8864e", "#d64f6f")
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "hf-albert-plus",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#888888",
    "grid.alpha": 0.3,
}
_WIDTH = 4.8


def frontier_svg(table: Table, load: str) -> str | None:
    """Milliseconds a call (a sentence, for whole passes) against the mean score over all tasks, as `_frontier` draws it."""
    axis = "ms a sentence, whole passes" if is_offline(load) else f"p50 latency at {load}, ms"
    return _frontier(
        table, {row.label: _milliseconds(row, load) for row in table.rows if load in row.timings}, axis=axis
    )


def size_svg(table: Table) -> str | None:
    """The file's MB against the mean score over all tasks, as `_frontier` draws it."""
    sizes = {row.label: row.sizes.get("file_bytes") for row in table.rows}
    return _frontier(table, {label: size / 1e6 for label, size in sizes.items() if size}, axis="MB of the file")


def _frontier(table: Table, costs: dict[str, float], *, axis: str) -> str | None:
    """What rows cost against their mean scores, rows numbered and those that none beats in both joined; None if no row has both.

    Args:
        costs: label -> what its row costs.
    """
    rows = [row for row in table.rows if row.mean_score(table.tasks) is not None and row.label in costs]
    if not rows:
        return None
    places = {row.label: (costs[row.label], row.mean_score(table.tasks) or 0.0) for row in rows}
    with Figure(height=3.2 + 0.17 * math.ceil(len(rows) / 2)) as (figure, panel):
        for number, row in enumerate(rows, start=1):
            x, y = places[row.label]
            panel.scatter(
                x, y, marker=_marker(row), color=_colour(table, row), s=36, label=f"{number} {row.label}", zorder=3
            )
            panel.annotate(str(number), (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
        less_is_better = table.less_is_better(table.tasks)
        best = undominated(list(places.values()), less_is_better=less_is_better)
        if less_is_better:
            panel.invert_yaxis()
        panel.plot([x for x, _ in best], [y for _, y in best], color="#888888", linewidth=1, zorder=2)
        log_axis(panel)
        panel.set_xlabel(axis)
        one = len(table.tasks) == 1
        panel.set_ylabel(f"{table.tasks[0]} score" if one else f"mean score of {len(table.tasks)} tasks")
        panel.grid()
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=7)
        return as_svg(figure)


def distribution_svg(table: Table, load: str) -> str | None:
    """Every sample of every row under a load: box from the first to the third quartile, whiskers to 1.5 interquartile
    ranges, each sample beyond them a dot; None if no row was timed."""
    rows = [row for row in table.rows if load in row.timings]
    if not rows:
        return None
    with Figure(height=0.7 + 0.34 * len(rows)) as (figure, panel):
        samples = [row.timings[load].samples_ms for row in rows]
        boxes = panel.boxplot(
            samples, orientation="horizontal", tick_labels=[row.label for row in rows], patch_artist=True, widths=0.6,
            flierprops={"marker": ".", "markersize": 3, "markerfacecolor": "#888888", "markeredgecolor": "none"},
            medianprops={"color": "#000000"},
        )  # fmt: skip
        for box, row in zip(boxes["boxes"], rows, strict=True):
            box.set_facecolor(_colour(table, row))
            box.set_alpha(0.7)
        panel.invert_yaxis()
        log_axis(panel)
        panel.set_xlabel("ms a pass" if is_offline(load) else f"ms at {load}")
        panel.tick_params(axis="y", labelsize=8)
        panel.grid(axis="x")
        return as_svg(figure)


def split_svg(table: Table, load: str) -> str | None:
    """A bar a row, on a logarithmic scale: what the engine does for the baseline's model, and from there what the model does; None where
    no other model was timed in an engine that the baseline's model was timed in."""
    rows = [row for row in table.rows if load in row.splits and row.label != table.baseline]
    if all(row.name == table.rows[0].name for row in rows):
        return None
    with Figure(height=1.1 + 0.3 * len(rows)) as (figure, panel):
        for place, row in enumerate(rows):
            split = row.splits[load]
            parts = ((1.0, split.engine, COLOURS[0], "engine"), (split.engine, split.total, COLOURS[1], "model"))
            for start, end, colour, what in parts:
                label = what if place == 0 else None
                panel.barh(place, end - start, left=start, color=colour, alpha=0.8, height=0.62, label=label)
            panel.annotate(f" {split.total:.1f}x", (max(split.total, split.engine), place), va="center", fontsize=7)
        panel.axvline(1.0, color="#888888", linewidth=1)
        panel.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8)
        panel.invert_yaxis()
        log_axis(panel)
        panel.set_xlabel(f"speedup over {table.baseline} at {load}")
        panel.grid(axis="x")
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        return as_svg(figure)


def task_bars_svg(table: Table, task: str) -> str | None:
    """A bar a row with its interval, for a task's first metric; None if no row was scored."""
    rows = [row for row in table.rows if row.score(task) is not None]
    if not rows:
        return None
    metric = table.metrics(task)[0]
    with Figure(height=0.8 + 0.3 * len(rows)) as (figure, panel):
        for place, row in enumerate(rows):
            value, interval = row.score(task) or 0.0, row.scores[task].intervals[metric]
            error = None if interval is None else [[max(0, value - interval[0])], [max(0, interval[1] - value)]]
            panel.barh(
                place, value, xerr=error, color=_colour(table, row), alpha=0.8, height=0.62,
                error_kw={"ecolor": "#000000", "capsize": 2, "linewidth": 1},
            )  # fmt: skip
        panel.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlabel(f"{task} {metric}, {'less is better' if metric in ERRORS else 'points'}")
        panel.grid(axis="x")
        return as_svg(figure)


def reliability_svg(table: Table, task: str) -> str | None:
    """How often answers are right against how probable they are said to be, a line a row (Guo et al., 2017, figure 1); None if no row of
    the task has it. Points are as large as their share of the answers."""
    found = [(row, row.scores[task].runs[0].reliability) for row in table.rows if task in row.scores]
    lines = [(row, each) for row, each in found if each is not None]
    if not lines:
        return None
    with Figure(height=3.6 + 0.17 * math.ceil(len(lines) / 2)) as (figure, panel):
        panel.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle="--")
        for row, each in lines:
            said, right = [one.probability for one in each.bins], [one.right for one in each.bins]
            answers = sum(one.answers for one in each.bins)
            colour, label = _colour(table, row), f"{row.label}, ECE {100 * each.ece:.1f} %"
            panel.plot(said, right, color=colour, linewidth=1, marker=_marker(row), markersize=3, label=label)
            panel.scatter(said, right, color=colour, alpha=0.4, s=[200 * one.answers / answers for one in each.bins])
        panel.set_xlabel(f"probability that is said, {task}")
        panel.set_ylabel("share that is right")
        panel.grid()
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=7)
        return as_svg(figure)


def depth_svg(record: dict[str, Any]) -> str:
    """Score against the layers that rows run in the mean, for every threshold that `albert-plus calibrate` tried, with the one that it
    chose, and with how thresholds fare on rows that they were not found on, where the record has it.

    Args:
        record: the result of the calibration.
    """
    curve, chosen = record["curve"], record["found_on"]
    with Figure(height=3.4) as (figure, panel):
        panel.plot(
            [depth for _, depth, _ in curve], [score for *_, score in curve], color=COLOURS[0], linewidth=1, marker="."
        )
        panel.axhline(chosen["full_score"], color="#888888", linewidth=1, linestyle="--", label="all layers")
        threshold = f"threshold {record['threshold']:.3g}"
        panel.scatter(chosen["average_layers"], chosen["score"], color=COLOURS[1], s=60, zorder=3, label=threshold)
        judged = record.get("cross_fitted")
        if judged is not None:
            low, high = judged["drop_interval"] or [judged["drop"]] * 2
            panel.errorbar(
                judged["average_layers"], judged["score"],
                yerr=[[max(0, high - judged["drop"])], [max(0, judged["drop"] - low)]],
                color=COLOURS[2], fmt="D", markersize=5, capsize=2, linewidth=1, zorder=4, label="on other rows",
            )  # fmt: skip
        panel.set_xlabel(f"layers that a row runs in the mean, of {record['layers'][-1]}")
        panel.set_ylabel(f"score on {chosen['rows']} rows")
        panel.grid()
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        return as_svg(figure)


class Figure:
    """A figure with one panel, closed at its end; with several, one below the other, a list of them."""

    def __init__(self, *, height: float, panels: int | None = None):
        import matplotlib

        matplotlib.use("svg")
        self.height, self.panels, self.context = height, panels, matplotlib.rc_context(_STYLE)

    def __enter__(self) -> Any:
        from matplotlib import pyplot

        self.context.__enter__()
        rows, size = self.panels or 1, (_WIDTH, self.height)
        self.figure, panels = pyplot.subplots(nrows=rows, figsize=size, layout="constrained", squeeze=False)
        for panel in panels[:, 0]:
            panel.set_axisbelow(True)
        return self.figure, list(panels[:, 0]) if self.panels else panels[0, 0]

    def __exit__(self, *error: Any) -> None:
        from matplotlib import pyplot

        pyplot.close(self.figure)
        self.context.__exit__(*error)


def as_svg(figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # Black is the page's text colour; a fixed size would not fit a phone.
    svg = svg.replace("#000000", "currentColor")
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", '<svg fill="currentColor" ', 1)


def log_axis(panel: Any) -> None:
    import matplotlib

    panel.set_xscale("log")
    low, high = panel.get_xlim()
    panel.set_xlim(low / 1.1, high * 1.1)
    panel.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,)))
    panel.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())


def _milliseconds(row: Row, load: str) -> float:
    cell = row.timings[load]
    return 1e3 / cell.items_per_s if is_offline(load) else cell.p50_ms


def undominated(places: list[tuple[float, float]], *, less_is_better: bool = False) -> list[tuple[float, float]]:
    """The (cost, score) pairs that no other is both cheaper and better than."""
    sign, best = -1 if less_is_better else 1, list[tuple[float, float]]()
    for x, y in sorted(places, key=lambda place: (place[0], -sign * place[1])):
        if not best or sign * y > sign * best[-1][1]:
            best.append((x, y))
    return best


def _marker(row: Row) -> str:
    return _MARKERS.get(row.runtime, "^")


def _colour(table: Table, row: Row) -> str:
    names = list(dict.fromkeys(each.name for each in table.rows))
    return COLOURS[names.index(row.name) % len(COLOURS)]
