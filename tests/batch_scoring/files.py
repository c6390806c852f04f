"""Texts, files of them, and the rows that were written."""

import json

import pyarrow
import pyarrow.parquet as pq

WORDS = ["a", "good", "film", "with", "bad", "plot", "and", "the", "cast", "is", "not", "great", "at", "all"]
TEXTS = [" ".join(WORDS[start : start + length]) for start in range(7) for length in range(7)]


def rows_of(directory):
    return pq.read_table(directory / "out" / "scores").to_pylist()


def write(path, texts, **options):
    """Texts in the format that the file's name asks for."""
    if path.suffix == ".parquet":
        pq.write_table(pyarrow.table({"text": pyarrow.array(texts, pyarrow.string())}), path, **options)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    else:
        path.write_bytes("\n".join([*texts, ""]).encode())
