"""How much of a speedup is the engine's and how much the model's: the baseline's model stands between them, in the row's own engine."""

from dataclasses import dataclass

from hf_albert_plus.eval.latency.timing import speedup
from hf_albert_plus.eval.measured_documents import Latency, TimedRow

# A graph with exits runs in the engine of the graph without them.
_EXITS = "-exits"


@dataclass(frozen=True)
class Split:
    """A row's speedup under one load, in its two parts.

    Attributes:
        total: over the baseline.
        engine: of the baseline's model in the row's engine, over the baseline.
        model: of the row over the baseline's model in the same engine: the median over rounds, so that engine x model is the total but for
            noise.
        model_interval: its 95 % interval.
    """

    total: float
    engine: float
    model: float
    model_interval: tuple[float, float]


def engine_splits(latency: Latency) -> dict[str, dict[str, Split]]:
    """Label -> load -> split, of the rows in whose engine the baseline's model was timed too."""
    base = next(row for row in latency.rows if row.label == latency.baseline)
    in_engine = {row.runtime: row for row in latency.rows if row.name == base.name}
    splits: dict[str, dict[str, Split]] = {}
    for row in latency.rows:
        same = in_engine.get(row.runtime.removesuffix(_EXITS))
        if same is not None:
            splits[row.label] = _of_row(row, same)
    return splits


def _of_row(row: TimedRow, same: TimedRow) -> dict[str, Split]:
    """Load -> split, where both were timed in as many rounds: in turns."""
    splits = {}
    for load, cell in row.loads.items():
        other = same.loads.get(load)
        if other is not None and len(other.rounds) == len(cell.rounds):
            ratio, (low, high) = speedup(cell.rounds, other.rounds)
            splits[load] = Split(
                total=cell.speedup,
                engine=other.speedup,
                model=round(ratio, 3),
                model_interval=(round(low, 3), round(high, 3)),
            )
    return splits
