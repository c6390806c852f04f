"""The report stage: score and latency files in; Markdown, HTML, JSON, the plot and model cards out."""

from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.card import render_card
from hf_albert_plus.eval.plot import score_latency_svg
from hf_albert_plus.eval.table import Table, build_table
from hf_albert_plus.records import Record, file_sha256, read_json, run_stage, write_json, write_text


def report(scores: list[Path], *, bench: Path, output: Path, title: str, data_name: str) -> Record:
    """Writes `report.md`, `report.html`, `report.json`, `score_latency.svg` and a card for each scored model.

    Args:
        scores: files of `albert-plus eval --json`, one a task.
        bench: a file of `albert-plus bench --json`.
        data_name: what the cards call the data set.
    """
    if not scores:
        raise InvalidInput(
            "a report needs scores", got="no --scores", repair="make them: albert-plus eval … --json scores.json"
        )
    documents = [read_json(path, what="--scores") for path in scores]
    latency = read_json(bench, what="--bench")
    table = build_table(documents, latency)
    parents = {f"scores {i}": {"path": str(path), "sha256": file_sha256(path)} for i, path in enumerate(scores)}
    parents["bench"] = {"path": str(bench), "sha256": file_sha256(bench)}

    def work(directory: Path) -> dict[str, Any]:
        svg = score_latency_svg(table)
        facts = {"title": title, "table": table, "environment": latency["environment"], "scores": documents,
                 "latency": latency, "svg": svg, "data_name": data_name}  # fmt: skip
        write_text(directory / "report.md", _render("report.md.jinja", facts))
        write_text(directory / "report.html", _render("report.html.jinja", facts))
        write_json(directory / "report.json", {"table": table_json(table), "scores": documents, "latency": latency})
        if svg is not None:
            write_text(directory / "score_latency.svg", svg)
        for name, task in scored_models(documents):
            write_text(
                directory / "cards" / f"{name}-{task}.md",
                render_card(name, task, table=table, scores=documents, latency=latency, data_name=data_name),
            )
        return {"rows": len(table.rows), "tasks": list(table.tasks), "shapes": list(table.shapes)}

    return run_stage("report", output, settings={"title": title, "data_name": data_name}, parents=parents, work=work)


def scored_models(documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each (name, GLUE task) among the scores once."""
    return list(dict.fromkeys((row["name"], document["task"]) for document in documents for row in document["rows"]))


def table_json(table: Table) -> list[dict[str, Any]]:
    """The table as records: what `--json` prints of it."""
    return [dict(zip(table.header(), cells, strict=True)) for cells in table.cells()]


def _render(template: str, facts: dict[str, Any]) -> str:
    from hf_albert_plus.eval.templates import environment

    return environment().get_template(template).render(**facts)


__all__ = ["report", "scored_models", "table_json"]
