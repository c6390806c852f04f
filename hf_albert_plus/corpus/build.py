"""The stage that makes a corpus: text in, splits of examples out, as `datasets.load_from_disk` opens them."""

import hashlib
import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..files import write_json
from ..records import CHECKPOINTS, Record, parent, run_stage
from .documents import Part
from .parts import bar_of_parts, find_parts, sources
from .settings import CorpusSettings
from .shards import SPLITS, ShardMaker, features, open_tokenizer

TOKENIZER = "tokenizer"


def build_corpus(
    corpus: Sequence[str], *, tokenizer: str, output: Path, settings: CorpusSettings, workers: int | None = None
) -> Record:
    """Examples for pretraining: `train` and `validation` splits, and the tokenizer that they were made with.

    A killed run goes on with the parts that are missing. The examples depend on the text, the tokenizer and the settings
    alone, not on the number of workers.

    Args:
        corpus: files (.txt with blank lines between documents, .jsonl, .parquet), folders, or Hub datasets.
        workers: processes; the cores by default.

    Raises:
        InvalidInput: nothing to read, or nothing in it.
    """
    parts = find_parts(corpus, column=settings.column)

    def work(directory: Path) -> dict[str, Any]:
        opened = open_tokenizer(tokenizer)
        shards = directory / CHECKPOINTS
        shards.mkdir(exist_ok=True)
        opened.save_pretrained(shards / TOKENIZER)
        maker = ShardMaker(
            settings=settings,
            tokenizer=str(shards / TOKENIZER / "tokenizer.json"),
            start=opened.cls_token_id,
            separator=opened.sep_token_id,
            unknown=opened.unk_token_id,
            vocabulary=len(opened),
            directory=str(shards),
        )
        counts = _counts(maker, parts, workers=workers or _cores())
        _check(counts, settings)
        for split in SPLITS:
            _index(shards / split, features(maker.vocabulary))
            os.replace(shards / split, directory / split)
        os.replace(shards / TOKENIZER, directory / TOKENIZER)
        write_json(directory / "dataset_dict.json", {"splits": list(SPLITS)})
        return {name.replace(" ", "_"): counts[name] for name in sorted(counts)}

    return run_stage(
        "corpus",
        output,
        settings=settings.describe(),
        parents={"tokenizer": parent(tokenizer), **sources(parts)},
        work=work,
        resumable=True,
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _counts(maker: ShardMaker, parts: list[Part], *, workers: int) -> Counter[str]:
    """Makes every shard; the sum of what they count."""
    counts: Counter[str] = Counter()
    with bar_of_parts(parts, description="examples of text") as step:
        for part, found in _made(maker, parts, workers):
            counts.update(found)
            step(part)
    return counts


def _made(maker: ShardMaker, parts: list[Part], workers: int) -> Iterator[tuple[Part, dict[str, int]]]:
    if workers == 1 or len(parts) == 1:
        for index, part in enumerate(parts):
            yield part, maker.make(index, part)
        return
    # A fork of a process with threads may hang, a new one does not.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(parts)), mp_context=spawn, initializer=_end_with_ctrl_c) as pool:
        futures = {pool.submit(maker.make, index, part): part for index, part in enumerate(parts)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_ctrl_c() -> None:
    """Workers get Ctrl-C too: they end at once and say nothing, as the first process does that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _check(counts: Counter[str], settings: CorpusSettings) -> None:
    if not counts["documents"]:
        raise InvalidInput(
            "--corpus must hold text", got="none", repair="check the files, or name the --column of text"
        )
    if not counts["train examples"]:
        raise InvalidInput(
            "--held-out must leave documents to train on",
            got=f"{settings.held_out} of {counts['documents']} documents",
            repair="use --held-out 0, or more text",
        )
    if settings.held_out and not counts["validation examples"]:
        raise InvalidInput(
            "--held-out must leave documents to score on, or be 0 for none",
            got=f"{settings.held_out} of {counts['documents']} documents",
            repair="use a larger share, --held-out 0, or more text",
        )
    if settings.order == "sentence-order" and not counts["train label 0"] + counts["train label 1"]:
        raise InvalidInput(
            "--order sentence-order must have documents of two sentences and more",
            got=f"{counts['sentences']} sentences in {counts['documents']} documents",
            repair="use --order none, or part documents, not sentences, by blank lines",
        )
    if settings.order == "next-sentence" and not counts["train label 1"]:
        raise InvalidInput(
            "--order next-sentence must have documents to choose from, parted by blank lines",
            got=f"{counts['documents']} documents",
            repair="use --order sentence-order, or more documents",
        )


def _index(split: Path, columns: Any) -> None:
    """Writes what `datasets.load_from_disk` reads besides the shards."""
    from datasets import DatasetInfo

    files = sorted(path.name for path in split.glob("*.arrow"))
    DatasetInfo(features=columns).write_to_directory(str(split))
    state: dict[str, Any] = {
        "_data_files": [{"filename": name} for name in files],
        "_fingerprint": hashlib.blake2b(json.dumps(files).encode(), digest_size=8).hexdigest(),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split.name,
    }
    write_json(split / "state.json", state)


__all__ = ["TOKENIZER", "build_corpus"]
