"""The score-against-latency plot."""

import io

from hf_albert_plus.eval.table import Table

_MARKERS = {"torch": "o", "onnx": "s", "onnx-int8": "D"}
_COLOURS = ("#4269d0", "#e8743b", "#3ca951", "#a463f2", "#9c6b4e")


def score_latency_svg(table: Table) -> str | None:
    """An SVG with one panel a shape: p50 latency (log scale) against the mean score over all tasks; None if no row has
    both."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = [row for row in table.rows if row.mean_score(table.tasks) is not None and row.timings]
    if not rows:
        return None
    names = list(dict.fromkeys(row.name for row in rows))
    with matplotlib.rc_context(
        {"svg.hashsalt": "hf-albert-plus", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure, panels = pyplot.subplots(
            1,
            len(table.shapes),
            figsize=(4.6 * len(table.shapes), 3.6),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for panel, shape in zip(panels[0], table.shapes, strict=True):
            for row in rows:
                panel.scatter(
                    row.timings[shape].p50_ms,
                    row.mean_score(table.tasks),
                    marker=_MARKERS.get(row.runtime, "^"),
                    color=_COLOURS[names.index(row.name) % len(_COLOURS)],
                    s=64,
                    label=row.label,
                )
            panel.set_xscale("log")
            low, high = panel.get_xlim()
            panel.set_xlim(low / 1.15, high * 1.15)
            panel.set_xlabel(f"p50 latency at {shape}, ms")
            panel.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
            panel.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
            panel.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            panel.grid(alpha=0.3)
        one = len(table.tasks) == 1
        panels[0][0].set_ylabel(f"{table.tasks[0]} score" if one else f"mean score of {len(table.tasks)} tasks")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


__all__ = ["score_latency_svg"]
