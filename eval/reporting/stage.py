"""The report stage, which makes Markdown, CSV, JSON, one HTML page and model cards of score and latency files."""

from functools import cache
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.measured_documents import (
    FLOOR,
    PREDICTIONS,
    Latency,
    Scores,
    read_latency,
    read_scores,
    to_json,
)
from hf_albert_plus.eval.reporting import presentation
from hf_albert_plus.eval.reporting.card import card_facts, render_card
from hf_albert_plus.eval.reporting.class_tables import class_sections
from hf_albert_plus.eval.reporting.data_facts import data_sections
from hf_albert_plus.eval.reporting.plots import (
    distribution_svg,
    frontier_svg,
    reliability_svg,
    size_svg,
    split_svg,
    task_bars_svg,
)
from hf_albert_plus.eval.reporting.table import Table, build_table
from hf_albert_plus.records.files import write_json, write_text
from hf_albert_plus.records.record import Record, file_parent, fingerprint
from hf_albert_plus.records.stage import run_stage


def read_table(scores: list[Path], *, bench: Path) -> Table:
    """The table of a report, from the documents that it was made of."""
    return build_table([read_scores(path) for path in scores], read_latency(bench))


def report(
    scores: list[Path],
    *,
    bench: Path,
    output: Path,
    title: str,
    data_name: str | None = None,
    allow_different: tuple[str, ...] = (),
) -> Record:
    """Writes `report.md`, `report.csv`, `report.json`, `report.html` and, in `cards/`, a card for each scored
    model; of a task of one's own also `classes-TASK.md` and `classes-TASK.csv`.

    Args:
        scores: files of `albert-plus eval --json`, one a task.
        bench: a file of `albert-plus bench --json`.
        data_name: what the report calls the data set; by default GLUE, or what a task of one's own is called.
        allow_different: see `build_table`.
    """
    if not scores:
        raise InvalidInput(
            "a report needs scores", got="no --scores", repair="make them: albert-plus eval … --json scores.json"
        )
    documents = [read_scores(path) for path in scores]
    latency = read_latency(bench)
    table = build_table(documents, latency, allow_different=allow_different)
    tasks = ("GLUE" if task.benchmark else task.name for task in table.described.values())
    all_data = data_name or ", ".join(dict.fromkeys(tasks))
    parents = {f"scores {i}": file_parent(path) for i, path in enumerate(scores)}
    parents["bench"] = file_parent(bench)

    def work(directory: Path) -> dict[str, Any]:
        facts = _facts(table, documents, latency, title=title, data_name=all_data)
        figures = facts.pop("figures")
        for figure in figures:
            write_text(directory / "figures" / f"{figure['file']}.svg", figure["svg"])
        write_text(directory / "report.md", _render("report.md.jinja", {**facts, "figures": figures}))
        write_text(directory / "report.html", _render("report.html.jinja", {**facts, "figures": figures}))
        write_text(directory / "report.csv", presentation.csv_text(table))
        content = {"table": presentation.records(table), "scores": documents, "latency": latency}
        write_json(directory / "report.json", to_json(content))
        for section in facts["classes"]:
            figure = next(
                (each["file"] for each in figures if each["file"] == _file_name("reliability", section["task"])), None
            )
            page = _render("classes.md.jinja", {"section": section, "figure": figure})
            write_text(directory / f"classes-{section['task']}.md", page)
            write_text(directory / f"classes-{section['task']}.csv", section["csv"])
        fingerprint_of = cache(fingerprint)  # many models have one teacher
        for name, task in scored_models(table):
            card = card_facts(
                name,
                task,
                table=table,
                scores=documents,
                latency=latency,
                data_name=data_name,
                fingerprint_of=fingerprint_of,
            )
            write_json(directory / "cards" / f"{name}-{task}.json", card)
            write_text(directory / "cards" / f"{name}-{task}.md", render_card(card))
        return {"rows": len(table.rows), "tasks": list(table.tasks), "loads": list(table.loads)}

    settings = {"title": title, "data_name": all_data, "allow_different": list(allow_different)}
    return run_stage("report", output, settings=settings, parents=parents, work=work)


def scored_models(table: Table) -> list[tuple[str, str]]:
    """Each (name, task) among the scored model directories once, by the names that they have in the table."""
    models = [
        (row.name, task.name)
        for task in table.described.values()
        for row in table.rows
        if row.runtime not in (PREDICTIONS, FLOOR) and any(part in row.scores for part in task.rows)
    ]
    return list(dict.fromkeys(models))


def _facts(table: Table, documents: list[Scores], latency: Latency, *, title: str, data_name: str) -> dict[str, Any]:
    """What both templates read."""
    return {
        "title": title,
        "baseline": table.baseline,
        "main": presentation.main_grid(table),
        "differences": presentation.difference_grid(table),
        "sizes": presentation.size_grid(table),
        "splits": presentation.split_grid(table),
        "latencies": presentation.latency_grid(table),
        "averages": presentation.average_grid(table),
        "classes": class_sections(table),
        "data": data_sections(table),
        "notes": presentation.notes(table, documents, data_name),
        "machine": _machine(latency),
        "figures": _figures(table),
    }


def _machine(latency: Latency) -> dict[str, str]:
    """The machine in words."""
    facts = latency.environment
    ceilings = ", ".join(
        f"{precision} {ceiling.gops_per_s / 1e3:.2f} TOPS ({ceiling.library})"
        for precision, ceiling in latency.ceilings.items()
    )
    features = ", ".join(facts.features) or "no int8 or bf16 instructions found"
    return {
        "processor": f"{facts.processor}, {facts.cores} cores, {features}",
        "threads": f"{facts.threads}, on the cores {', '.join(map(str, facts.affinity or [])) or 'not known'}",
        "clock governor": facts.governor or "not readable here",
        "load average": f"{facts.load_average} before, {facts.load_average_after} after",
        "memory": f"{facts.memory_gib} GiB",
        "attainable": f"{ceilings}, the fastest product of two 1024 x 1024 matrices",
        "system": facts.platform,
        "libraries": ", ".join(f"{name} {version}" for name, version in facts.versions.items()),
    }


def _figures(table: Table) -> list[dict[str, str]]:
    drawn = [
        *(("frontier", load, "Score against latency: up and to the left is better.", frontier_svg(table, load)) for load in table.loads),
        ("frontier", "MB", "Score against size: up and to the left is better.", size_svg(table)),
        *(("speedups", load, "How much of each speedup is the engine's, how much the model's.", split_svg(table, load)) for load in table.loads),
        *(("latency", load, "Every sample: quartiles, whiskers, outliers.", distribution_svg(table, load)) for load in table.loads),
        *(("score", task, "Scores with their intervals.", task_bars_svg(table, task)) for task in table.tasks),
        *(("reliability", task, "On the line, answers are right as often as they are said to be.", reliability_svg(table, task)) for task in table.tasks),
    ]  # fmt: skip
    return [
        {
            "file": _file_name(kind, what),
            "title": what,
            "caption": caption,
            "svg": svg,
        }
        for kind, what, caption, svg in drawn
        if svg is not None
    ]


def _file_name(kind: str, what: str) -> str:
    return f"{kind}-{what}".replace(" ", "-").replace("/", "-")


def _render(template: str, facts: dict[str, Any]) -> str:
    from hf_albert_plus.eval.reporting.templates import environment

    return environment().get_template(template).render(**facts)
