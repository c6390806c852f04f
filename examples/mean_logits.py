"""The mean of what several teachers say of the same rows, as soft labels for a student.

    python mean_logits.py answers.parquet scored-1 scored-2 scored-3

Each SCORED is what `albert-plus score --logits` wrote of the same files with the same `--keep`. The output has the columns that were kept, and the mean logits.
"""

import sys
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

_OF_ONE = ("label", "score", "scores", "labels", "label_scores", "logits", "tokens", "truncated")


def main(output: str, *scored: str) -> None:
    tables = [pyarrow.parquet.read_table(Path(folder) / "scores") for folder in scored]
    kept = tables[0].drop_columns([name for name in _OF_ONE if name in tables[0].column_names])
    for table in tables:
        if not table.select(kept.column_names).equals(kept):
            raise SystemExit("the teachers must have answered the same rows, in the same order, with the same --keep")
    mean = numpy.mean([table["logits"].to_pylist() for table in tables], axis=0)
    pyarrow.parquet.write_table(kept.append_column("logits", pyarrow.array(mean.tolist())), output)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
