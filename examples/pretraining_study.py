"""Gathers the records that pretraining-study.sh left, of all runs that are complete, into one document and the tables of a page.

python examples/pretraining_study.py OUT --json study.json

A figure is a mean over seeds and its standard deviation. A row that has fewer seeds than others says how many.
"""

import argparse
import json
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Figure:
    """Where a figure stands: a fact of the record of each `RUN-SEED`, and how it is written.

    Attributes:
        percent: whether it is a share, to be written in percent.
    """

    run: str
    fact: str
    decimals: int = 1
    percent: bool = False

    def values(self, out: Path) -> dict[str, float]:
        """Its value for each seed whose run is complete."""
        path = out / self.run
        found = {}
        for record in path.parent.glob(f"{path.name}-*/record.json"):
            seed = re.fullmatch(rf"{re.escape(path.name)}-(\d+)", record.parent.name)
            value = None if seed is None else _fact(json.loads(record.read_text(encoding="utf-8")), self.fact)
            if seed is not None and value is not None:
                found[seed[1]] = value
        return dict(sorted(found.items(), key=lambda item: int(item[0])))

    def text(self, summary: dict[str, Any]) -> str:
        """A summary of its values as a table has it."""
        if not summary["seeds"]:
            return NOT_MEASURED
        unit = 100 if self.percent else 1
        mean = f"{unit * summary['mean']:,.{self.decimals}f}"
        spread = summary["standard_deviation"]
        return f"{mean} ± {unit * spread:.{self.decimals}f}" if spread else mean


def _fact(record: dict[str, Any], name: str) -> float | None:
    """A fact of a result. Scores are of one target, and lie a level deeper."""
    result = record["result"]
    found = result.get(name) if name in result else next((row[name] for row in result.values() if isinstance(row, dict) and name in row), None)  # fmt: skip
    return None if found is None else float(found)


def loss(run: str) -> dict[str, Figure]:
    """What every pretraining is judged by: how well it tells the masked tokens of held-out documents."""
    return {
        "held-out loss": Figure(f"trained/{run}", "held_out_mlm_loss", decimals=3),
        "masked tokens right, %": Figure(f"trained/{run}", "held_out_mlm_accuracy", percent=True),
    }


def orders(directory: str) -> Figure:
    return Figure(directory, "held_out_order_accuracy", percent=True)


def both(run: str) -> dict[str, Figure]:
    return {**loss(run), "orders right, %": orders(f"trained/{run}")}


def with_steps(run: str) -> dict[str, Figure]:
    return {"steps": Figure(f"trained/{run}", "steps", decimals=0), **both(run)}


def with_parameters(run: str) -> dict[str, Figure]:
    return {"parameters": Figure(f"trained/{run}", "parameters", decimals=0), **both(run)}


def tuned(run: str) -> dict[str, Figure]:
    return {
        "SST-2 accuracy": Figure(f"scores/{run}-sst2", "accuracy"),
        "MRPC accuracy": Figure(f"scores/{run}-mrpc", "accuracy"),
        "MRPC F1": Figure(f"scores/{run}-mrpc", "f1"),
    }


_ITS_OWN, _OTHER = "right as trained, %", "right after a tenth with its labels, %"
# Part -> row -> column -> figure.
TABLES: dict[str, dict[str, dict[str, Figure]]] = {
    "order": {
        "sentence order": {
            **loss("base"),
            f"sentence order {_ITS_OWN}": orders("trained/base"),
            f"next sentence {_ITS_OWN}": orders("asked/base-next-sentence"),
            f"next sentence {_OTHER}": orders("taught/base-next-sentence"),
        },
        "next sentence": {
            **loss("next-sentence"),
            f"next sentence {_ITS_OWN}": orders("trained/next-sentence"),
            f"sentence order {_ITS_OWN}": orders("asked/next-sentence-sentence-order"),
            f"sentence order {_OTHER}": orders("taught/next-sentence-sentence-order"),
        },
        "none": {
            **loss("no-order"),
            f"next sentence {_OTHER}": orders("taught/no-order-next-sentence"),
            f"sentence order {_OTHER}": orders("taught/no-order-sentence-order"),
        },
    },
    "masks": {"new each time": both("masks-new"), "ten in turn": both("masks-10"), "always the same": both("masks-1")},
    "formats": {
        "segment-pair, next sentence": tuned("next-sentence"),
        "sentence-pair, next sentence": tuned("sentence-pair"),
        "full-sentences": tuned("full-sentences"),
        "doc-sentences": tuned("doc-sentences"),
    },
    "batches": {
        "AdamW, 64 rows": with_steps("base"),
        **{f"AdamW, {rows:,} rows": with_steps(f"adamw-{rows}") for rows in (256, 1024)},
        **{f"LAMB, {rows:,} rows": with_steps(f"lamb-{rows}") for rows in (64, 256, 1024)},
    },
    "dropout": {"0": both("base"), "0.1": both("dropout")},
    "sharing": {
        f"{shared}, E = {size}": with_parameters(f"{name}-{size}")
        for size in (64, 256)
        for shared, name in {"nothing": "none", "attention": "attention", "feed-forward": "ffn", "all": "all"}.items()
    },
}


def gathered(out: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Part -> row -> column -> mean, standard deviation (None of one seed) and the value of each seed."""
    return {
        part: {
            row: {column: summary_of(figure.values(out)) for column, figure in columns.items()}
            for row, columns in rows.items()
        }
        for part, rows in TABLES.items()
    }


def summary_of(values: dict[str, float]) -> dict[str, Any]:
    numbers = list(values.values())
    return {
        "mean": statistics.fmean(numbers) if numbers else None,
        "standard_deviation": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "seeds": values,
    }


def print_table(part: str, found: dict[str, dict[str, Any]], *, most: int) -> None:
    """Prints a part in Markdown.

    Args:
        most: seeds of the rows that have most.
    """
    columns = list(dict.fromkeys(column for figures in TABLES[part].values() for column in figures))
    print(f"## {part}\n\n| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for row, figures in TABLES[part].items():
        fewest = min(len(summary["seeds"]) for summary in found[row].values())
        seeds = "" if fewest in (0, most) else f" ({fewest} {'seed' if fewest == 1 else 'seeds'})"
        cells = [figures[column].text(found[row][column]) if column in figures else "" for column in columns]
        print(f"| {row}{seeds} | {' | '.join(cells)} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="directory of the study")
    parser.add_argument("--json", type=Path, help="also write every seed's values to this file")
    arguments = parser.parse_args()
    found = gathered(arguments.out)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    summaries = [summary for rows in found.values() for figures in rows.values() for summary in figures.values()]
    most = max(len(summary["seeds"]) for summary in summaries)
    for part, rows in found.items():
        print_table(part, rows, most=most)


if __name__ == "__main__":
    main()
