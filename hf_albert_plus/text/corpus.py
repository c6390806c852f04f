"""The stage that makes a corpus: text in, splits of examples out, as `datasets.load_from_disk` opens them.

A corpus that was built is opened here too, its examples and its tokenizer, and in no other place.
"""

import hashlib
import json
import math
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ..checkpoints import open_tokenizer
from ..errors import InvalidInput, first_line
from ..records.files import write_json
from ..records.progress import say
from ..records.record import CHECKPOINTS, Record, parent
from ..records.stage import run_stage
from .corpus_parts import bar_of_parts, find_parts, sources
from .documents import Part
from .settings import CorpusSettings
from .shards import SPLITS, ShardMaker, check_specials, features, separators_between, tokenizer_for_pretraining

TOKENIZER = "tokenizer"
# Examples of fewer sentences have an order that is told without reading (docs/results/pretraining.md).
_SENTENCES = 6


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
        opened = tokenizer_for_pretraining(tokenizer)
        shards = directory / CHECKPOINTS
        shards.mkdir(exist_ok=True)
        opened.save_pretrained(shards / TOKENIZER)
        maker = ShardMaker(
            settings=settings,
            tokenizer=str(shards / TOKENIZER / "tokenizer.json"),
            start=opened.cls_token_id,
            separator=opened.sep_token_id,
            separators=separators_between(opened),
            unknown=opened.unk_token_id,
            vocabulary=len(opened),
            directory=str(shards),
        )
        counts = _counts(maker, parts, workers=workers or _cores())
        _check(counts, settings)
        _say_what_tells_orders(counts, settings)
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
    """Makes every shard, and adds up what they count."""
    counts: Counter[str] = Counter()
    with bar_of_parts(parts, description="examples of text") as step:
        for part, of_part in _made(maker, parts, workers):
            counts.update(of_part)
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
    """Lets Ctrl-C end a worker at once and in silence: the first process says what there is to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _share_of_a_document(documents: int) -> float:
    """A share by which a few documents are held out, in the mean three."""
    return min(0.5, round(3 / documents, 3))


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
            repair=f"use --held-out {_share_of_a_document(counts['documents']):g}, --held-out 0, or more text",
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


def _say_what_tells_orders(counts: Counter[str], settings: CorpusSettings) -> None:
    """Says where examples hold so few sentences that their order is told by where the segments end: a segment that ends inside of a sentence
    was cut, and of two in their order that is seldom the first."""
    mean = counts["tokens"] / max(1, counts["sentences"])
    if settings.order == "sentence-order" and settings.max_length < _SENTENCES * mean:
        say(
            f"sentences have {mean:.0f} tokens in the mean, and examples {settings.max_length}: where segments end tells much of their order; "
            f"with --max-length {math.ceil(_SENTENCES * mean)} or more it takes what they say"
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


_COLUMNS = {"input_ids", "second_segment", "sentence_order_label", "length"}
_REPAIR = "build the corpus again: albert-plus corpus build"


def open_corpus(corpus: Path) -> tuple[Any, Any]:
    """The splits of a corpus by their names, on disk, and its tokenizer.

    Raises:
        InvalidInput: a part is missing, or is something else.
    """
    import pyarrow
    from datasets import DatasetDict, load_from_disk

    tokenizer = open_tokenizer(corpus / TOKENIZER, rule="--corpus must hold its tokenizer", repair=_REPAIR)
    rule = "--corpus must hold a tokenizer with first, separator, mask and padding tokens"
    check_specials(tokenizer, rule=rule, where=corpus / TOKENIZER, repair=_REPAIR)
    try:
        splits = load_from_disk(str(corpus.absolute()))
    # What datasets raises at JSON of another shape and at Arrow files that are none.
    except (
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
        pyarrow.ArrowException,
    ) as error:
        got = f"{corpus} ({type(error).__name__}: {first_line(error)})"
        raise InvalidInput("--corpus must hold what corpus build made", got=got, repair=_REPAIR) from error
    if not isinstance(splits, DatasetDict) or set(splits) != set(SPLITS):
        raise InvalidInput("--corpus must have the splits train and validation", got=str(corpus), repair=_REPAIR)
    for name, rows in splits.items():
        missing = sorted(_COLUMNS - set(rows.column_names))
        if missing:
            raise InvalidInput(f"--corpus must have {', '.join(missing)} in {name}", got=str(corpus), repair=_REPAIR)
    return splits, tokenizer


def longest_example(splits: Any, *, positions: int) -> int:
    """Tokens of the longest example, which is as wide as rows are.

    Args:
        positions: of the model.

    Raises:
        InvalidInput: more than that.
    """
    import pyarrow.compute as pc

    longest: int = max(pc.max(rows.data.column("length")).as_py() or 0 for rows in splits.values())
    if longest > positions:
        raise InvalidInput(
            f"the corpus's examples must have at most max_position_embeddings ({positions}) tokens",
            got=longest,
            repair=f"use --set max_position_embeddings={longest}, or build the corpus with a smaller --max-length",
        )
    return longest
