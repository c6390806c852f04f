"""The plot of a search: every candidate's score against its speedup, its area the file's size, each a link to its row."""

from dataclasses import dataclass

from hf_albert_plus.eval.reporting.plots import Figure, as_svg, log_axis, undominated


@dataclass(frozen=True)
class PlottedTrial:
    """One finished candidate.

    Attributes:
        lost: against the teacher, points or in the unit of an error.
        at_most: what it loses with confidence; None where undefined.
    """

    name: str
    speedup: float
    lost: float
    at_most: float | None
    file_bytes: int
    is_pick: bool


_COLOUR, _PICK = "#888888", "#d1495b"


def trials_svg(trials: list[PlottedTrial], *, max_drop: float | None, unit: str) -> str:
    """What is lost (downwards) against the speedup over the teacher in torch, whiskers down to what is lost with confidence, and a line at what
    may be lost."""
    with Figure(height=3.6) as (figure, panel):
        largest = max(trial.file_bytes for trial in trials)
        for trial in trials:
            colour = _PICK if trial.is_pick else _COLOUR
            if trial.at_most is not None:
                panel.plot([trial.speedup] * 2, [-trial.lost, -trial.at_most], color=colour, linewidth=1, zorder=2)
            points = panel.scatter(
                [trial.speedup],
                [-trial.lost],
                s=12 + 160 * trial.file_bytes / largest,
                color=colour,
                alpha=0.8,
                zorder=3,
            )
            points.set_urls([f"#{trial.name}"])
        best = undominated([(1 / trial.speedup, -trial.lost) for trial in trials])
        panel.plot([1 / x for x, _ in best], [y for _, y in best], color=_COLOUR, linewidth=1, zorder=1)
        if max_drop is not None:
            panel.axhline(-max_drop, color=_PICK, linewidth=1, linestyle="--", zorder=1)
        log_axis(panel)
        panel.set_xlabel("times the teacher's pace in torch fp32")
        panel.set_ylabel(f"{unit} gained over the teacher")
        panel.grid()
        return as_svg(figure)
