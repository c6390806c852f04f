"""What a search says of itself: the frontier, the pick and why, what was tried, and the commands that make each candidate."""

import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hf_albert_plus.eval.metrics import measure_text
from hf_albert_plus.eval.reporting.templates import environment
from hf_albert_plus.eval.reporting.trials_plot import PlottedTrial, trials_svg

from ..records.files import write_json, write_text
from .commands import commands_of
from .finalists import nearest
from .hunt import SPENT, Hunt
from .leaving_early import is_worth_it
from .pick import CONFIDENCE, Pick, loss_text
from .tried import TEACHER, Tried, has_learned_on

PAGE = "compress.html"
_COLUMNS = ["candidate", "score", "lost", "at most, with 90 %", "speedup", "ms alone", "MB", "why it was stopped"]


def write_frontier(hunt: Hunt, pick: Pick, *, out: Path, report: Path | None = None) -> Path:
    """Writes `compress.json`, `compress.md`, `compress.html`, which is returned, and `frontier.svg`.

    Args:
        report: the finalists', timed in turns; None where they were not.
    """
    task, metric = hunt.task, hunt.task.metrics[0]
    done = [each for each in hunt.tried if each.measured is not None]
    unit = "points" if not task.is_scored_by_error else f"{metric} (less is better)"
    svg = trials_svg([_plotted(each, pick) for each in done], max_drop=hunt.budget.max_drop, unit=unit)
    facts = {
        "title": f"{task.name}: {hunt.budget.in_words()}",
        "verdict": verdict(hunt, pick),
        "notes": notes(hunt, pick),
        "svg": svg,
        "columns": _COLUMNS,
        "rows": [_row(each, pick, metric, hunt) for each in sorted(hunt.tried, key=_order)],
        "report": None if report is None else os.path.relpath(report, out),
        "is_stopped": hunt.is_stopped,
        "goes_on": not hunt.ended,
    }
    write_text(out / "frontier.svg", svg)
    page = out / PAGE
    write_text(page, environment().get_template("compress.html.jinja").render(**facts))
    write_text(out / "compress.md", environment().get_template("compress.md.jinja").render(**facts))
    write_json(out / "compress.json", document(hunt, pick))
    return page


def write_progress(hunt: Hunt, *, out: Path) -> Path:
    """The same while the search goes on, by the losses that are known: the choice among all is cross-fitted at its end."""
    leader = hunt.leader()
    so_far = Pick(None if leader is None else leader.name, CONFIDENCE, None, hunt.losses)
    return write_frontier(hunt, so_far, out=out)


def document(hunt: Hunt, pick: Pick) -> dict[str, Any]:
    """The search as JSON."""
    return {
        "task": hunt.task.name,
        "metric": hunt.task.metrics[0],
        "budget": asdict(hunt.budget),
        "rows": len(hunt.judge.teacher.labels),
        "pick": pick.name,
        "confidence": pick.confidence,
        "expected_loss": pick.expected_loss,
        "ended": hunt.ended,
        "seconds": round(hunt.workshop.spent_s, 1),
        "candidates": [
            {
                "name": each.name,
                "shape": each.words,
                "score": each.score,
                "stopped": each.why,
                **({} if each.measured is None else _figures(each, pick)),
            }
            for each in hunt.tried
        ],
    }


def _figures(tried: Tried, pick: Pick) -> dict[str, Any]:
    assert tried.measured is not None
    lost = pick.losses[tried.name]
    return {
        "lost": round(lost.points, 4) if math.isfinite(lost.points) else None,
        "lost_at_most": None if lost.at_most is None else round(lost.at_most, 4),
        "speedup": round(tried.measured.speedup, 2),
        "alone_ms": round(tried.measured.latency_ms, 3),
        "file_bytes": tried.measured.file_bytes,
        "directory": str(tried.directory),
        "runtime": tried.runtime,
    }


def verdict(hunt: Hunt, pick: Pick) -> str:
    """The pick in a sentence; where there is none, what comes nearest."""
    budget = hunt.budget.in_words()
    if pick.name is None:
        near = " or ".join(
            f"{_loss_words(each, pick, hunt)} for {_speed_words(each)} ({each.words})" for each in nearest(hunt, pick)
        )
        return f"Nothing that was tried keeps within {budget}. Nearest: {near}."
    chosen = next(each for each in hunt.tried if each.name == pick.name)
    expected = (
        ""
        if pick.expected_loss is None
        else f"; picks made so lose {loss_text(pick.expected_loss, hunt.task)} {hunt.budget.unit} on rows that did not choose them"
    )
    return (
        f"The pick for {budget}: {chosen.words}, {_speed_words(chosen)}, {_loss_words(chosen, pick, hunt)}{expected}."
    )


def _speed_words(tried: Tried) -> str:
    assert tried.measured is not None
    return f"{tried.measured.speedup:.1f} times the teacher's pace and {tried.measured.file_bytes / 1e6:.1f} MB"


def _loss_words(tried: Tried, pick: Pick, hunt: Hunt) -> str:
    lost = pick.losses[tried.name]
    bound = "" if lost.at_most is None else f" (at most {loss_text(lost.at_most, hunt.task)} with 90 % confidence)"
    return f"{loss_text(lost.points, hunt.task)} {hunt.budget.unit} lost{bound}"


def notes(hunt: Hunt, pick: Pick) -> list[str]:
    """What one must know to read the report."""
    rows, spent = len(hunt.judge.teacher.labels), hunt.workshop.spent_s
    ending = f"the search ended because {hunt.ended}" if hunt.ended else "the search goes on"
    said = [
        f"Judged on {rows:,} validation rows, which no candidate learned from. The choice is cross-fitted in {len(hunt.judge.folds)} folds: "
        "the loss that is expected is that of picks on rows that did not choose them.",
        f"{_counted(len(hunt.tried), 'candidate')} in {_counted(round(spent / 60), 'minute')}; {ending}.",
    ]
    passes = hunt.workshop.passes
    if passes.count < passes.whole:
        kept = (
            ", the last third of which was kept for one that learns on"
            if any(has_learned_on(each.name) for each in hunt.tried)
            else ""
        )
        said.append(
            f"Candidates learned {passes.count:g} of the {passes.whole:g} passes that the task takes, so that several had room in the time{kept}; in "
            "another --out a larger --time-budget gives them more."
        )
    if hunt.task.has_tags:
        said.append(
            "No candidate has exits: they read one answer to a text, and a sentence could leave no earlier than its least sure word."
        )
    has_exits = any(each.name.startswith(f"{TEACHER}-exits") for each in hunt.tried)
    if has_exits and not is_worth_it(hunt):
        said.append("No shape has exits: within the budget they made the teacher less than a tenth faster, or slower.")
    if pick.name is not None and pick.confidence > 0.9:
        said.append(
            f"Held at {100 * pick.confidence:g} % confidence: milder picks lost more on rows that had not chosen them."
        )
    if pick.is_surest:
        said.append("The surest was picked: faster ones that held lost more on rows that had not chosen them.")
    done = sorted((each for each in hunt.tried if each.measured is not None), key=_order)
    chosen = next((each for each in done if each.name == pick.name), None)
    faster = [
        each
        for each in done
        if chosen is not None and each.measured and chosen.measured and each.measured.speedup > chosen.measured.speedup
    ]
    if faster:
        next_one = min(faster, key=lambda each: each.measured.speedup if each.measured else 0.0)
        pace, lost = (
            _speed_words(next_one),
            f"lost {loss_text(pick.losses[next_one.name].points, hunt.task)} {hunt.budget.unit}",
        )
        said.append(
            f"More time would look between the pick and the next faster candidate, {pace}, which {lost}: the same command with a larger --time-budget goes on."
            if hunt.is_stopped or hunt.ended == SPENT
            else f"The next faster candidate, {pace}, {lost}."
        )
    return said


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _order(tried: Tried) -> tuple[bool, float]:
    """The finished ones first, the fastest of them first."""
    return tried.measured is None, 0.0 if tried.measured is None else -tried.measured.speedup


def _plotted(tried: Tried, pick: Pick) -> PlottedTrial:
    assert tried.measured is not None
    lost = pick.losses[tried.name]
    return PlottedTrial(
        tried.name,
        tried.measured.speedup,
        lost.points,
        lost.at_most,
        tried.measured.file_bytes,
        tried.name == pick.name,
    )


def _row(tried: Tried, pick: Pick, metric: str, hunt: Hunt) -> dict[str, Any]:
    cells = [measure_text(metric, tried.score, decimals=1)]
    if tried.measured is None:
        cells += ["", "", "", "", "", tried.why or ""]
    else:
        lost = pick.losses[tried.name]
        cells += [
            loss_text(lost.points, hunt.task, decimals=2),
            "undefined" if lost.at_most is None else loss_text(lost.at_most, hunt.task, decimals=2),
            f"{tried.measured.speedup:.1f}x",
            f"{tried.measured.latency_ms:.2f}",
            f"{tried.measured.file_bytes / 1e6:.1f}",
            "",
        ]
    return {
        "name": tried.name,
        "words": tried.words,
        "cells": cells,
        "is_pick": tried.name == pick.name,
        "commands": commands_of(tried.name, hunt.workshop),
    }
