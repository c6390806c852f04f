"""What the rows of a device become: one table, and a latency document that reports and cards read."""

from typing import Any

from hf_albert_plus.machine import FORMAT, environment

Grid = tuple[list[str], list[list[str]]]
HEADER = ["part", "way", "load", "p50 ms", "a second", "speedup (95 %)", "of the roof", "MB of a call", "found"]
# Facts that are no finding: they say what was measured, and other columns or documents have them.
_UNSAID = (
    "precision", "flops", "limits", "parameters", "effective_parameters", "sequence_flops", "architecture_sha256", "useful_operations_a_token",
)  # fmt: skip


def table_of(rows: list[dict[str, Any]]) -> Grid:
    """A line for each row; what is missing says why in its place."""
    lines = []
    for row in rows:
        line = [row["part"], row["label"], row["load"]]
        if row.get("not_measured"):
            lines.append([*line, *[""] * (len(HEADER) - len(line) - 1), f"not measured: {row['not_measured']}"])
            continue
        cell, roof, peak = row.get("cell"), row.get("of_roof"), row.get("peak_device_mb")
        if cell is None:
            line += ["", "", ""]
        else:
            low, high = cell["speedup_interval"]
            line += [f"{cell['p50_ms']:.3f}", f"{cell['items_per_s']:,.0f} {row['unit']}"]
            line.append(f"{cell['speedup']:.2f}x ({low:.2f} to {high:.2f})")
        line += ["" if roof is None else f"{100 * roof:.1f} %", "" if peak is None else f"{peak:,.0f}"]
        lines.append([*line, _findings(row["facts"])])
    return HEADER, lines


def _findings(facts: dict[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in facts.items() if name not in _UNSAID
    )


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:,}" if isinstance(value, int | float) else str(value)  # fmt: skip


def table_text(header: list[str], lines: list[list[str]]) -> str:
    """The table as Markdown."""
    cells = [header, ["---"] * 3 + ["---:"] * 5 + ["---"], *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in cells) + "\n"


def latency_document(
    rows: list[dict[str, Any]], *, device: str, name: str, directory: str, model_sha256: str, baseline: str
) -> dict[str, Any] | None:
    """The answers in torch as `albert-plus bench --json` has them; None where there are none.

    Args:
        name: of the model's rows.
        baseline: the way whose speed counts as 1.
    """
    answers = [row for row in rows if row["part"] == "inference" and row.get("cell") and row.get("runtime")]
    if not any(row["label"] == baseline for row in answers):
        return None
    timed: dict[str, dict[str, Any]] = {}
    for row in answers:
        facts, cell = row["facts"], row["cell"]
        rate = facts["flops"] / cell["p50_ms"] / 1e6
        of_label = timed.setdefault(
            row["label"],
            {
                "label": f"{name} {row['label']}",
                "name": name,
                "runtime": row["runtime"],
                "directory": directory,
                "parameters": facts["parameters"],
                "effective_parameters": facts["effective_parameters"],
                "sequence_flops": facts["sequence_flops"],
                "model_sha256": model_sha256,
                "architecture_sha256": facts["architecture_sha256"],
                "loads": {},
            },
        )
        of_label["loads"][row["load"]] = {
            **cell, "flops": facts["flops"], "gops_per_s": round(rate, 1), "attained": row.get("of_roof"),
        }  # fmt: skip
    loads = list(timed[baseline]["loads"])
    here = environment()
    return {
        "kind": "latency",
        "format": FORMAT,
        "baseline": f"{name} {baseline}",
        "loads": loads,
        "ceilings": {
            row["facts"]["precision"]: {"gops_per_s": row["facts"]["gops_per_s"], "library": "torch"}
            for row in rows
            if "precision" in row["facts"]
        },
        "rows": sorted(timed.values(), key=lambda row: row["label"] != f"{name} {baseline}"),
        "traffic": None,
        "environment": {**here, "processor": device, "load_average_after": here["load_average"]},
    }
