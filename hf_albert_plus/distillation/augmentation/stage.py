"""The augmentation stage: a task's data in, the same with copies of its training rows, some of their words replaced, out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput
from ...records.files import late_errors
from ...records.progress import track
from ...records.record import Record, file_parent, parent
from ...records.stage import run_stage
from ...tasks.own_data import as_written
from ...tasks.readers import tsv_file
from ...tasks.splits import data_parent, evaluated_splits, load_split
from ...tasks.tag_schemes import OUTSIDE
from ...tasks.task import Task, check_no_spans
from ...tasks.task_file import write_task
from ..settings import AugmentSettings
from .candidates import NONE, MaskedLmCandidates, WordVectors, read_word_vectors
from .words import Text, split_words, words_in

if TYPE_CHECKING:
    from datasets import Dataset

# For each word of a text the words that may replace it.
Candidates = Sequence[Sequence[str]]


def find_candidates(
    texts: Sequence[Text], *, masked_lm: MaskedLmCandidates | None, word_vectors: WordVectors | None, count: int
) -> Callable[[Text], Candidates]:
    """The candidates of every word of the texts: the masked LM's, where it has none the nearest words'."""
    likely = masked_lm.candidates(texts, count=count) if masked_lm is not None else {}
    lower = masked_lm is not None and masked_lm.vocabulary.lower_cases

    def of_masked_lm(text: Text) -> list[list[str]]:
        if masked_lm is None:
            return [[] for _ in words_in(text)]
        return [[masked_lm.vocabulary.words[i] for i in ids if i != NONE] for ids in likely[text].tolist()]

    def stems(text: Text) -> Iterator[str]:
        return (word.stem.lower() if lower else word.stem for word in split_words(text))

    others = {stem for text in texts for stem, own in zip(stems(text), of_masked_lm(text), strict=True) if not own}
    nearest = word_vectors.nearest(others - {""}, count=count) if word_vectors is not None else {}

    def candidates_of(text: Text) -> Candidates:
        return [own or nearest.get(stem, []) for stem, own in zip(stems(text), of_masked_lm(text), strict=True)]

    return candidates_of


def replace_words(text: Text, candidates: Candidates, *, probability: float, random: Random) -> tuple[Any, int]:
    """A copy of a text, or of its words, which are replaced by one of their candidates with a probability, and how many were."""
    words = []
    replaced = 0
    for (stem, tail), options in zip(split_words(text), candidates, strict=True):
        replace = bool(options) and random.random() < probability
        words.append((random.choice(options) if replace else stem) + tail)
        replaced += replace
    return " ".join(words) if isinstance(text, str) else words, replaced


def replace_in_row(
    row: dict[str, Any], candidates: dict[str, Candidates], *, probability: float, random: Random
) -> tuple[dict[str, Any], int]:
    """A copy of a row with words replaced in every text column, each independently of the others; and how many were."""
    copy = dict(row)
    replaced = 0
    for column, of_text in candidates.items():
        copy[column], count = replace_words(_text(row[column]), of_text, probability=probability, random=random)
        replaced += count
    return copy, replaced


def candidates_of_row(
    row: dict[str, Any], task: Task, candidates_of: Callable[[Text], Candidates]
) -> dict[str, Candidates]:
    """The candidates of every word of a row as it is written. The words of entities have none, as another word need not be a part of the same
    entity; words whose tags know no entities have theirs."""
    found = {column: candidates_of(_text(row[column])) for column in task.columns}
    if not task.has_tags or task.tag_scheme == "plain":
        return found
    tags = row[task.label_columns[0]]
    return {
        column: [options if tag == OUTSIDE else [] for options, tag in zip(of_words, tags, strict=True)]
        for column, of_words in found.items()
    }


def _text(value: Any) -> Text:
    """A text of a row, or its words."""
    return value if isinstance(value, str) else tuple(value)


_ROWS_AT_A_TIME = 1000


@dataclass(frozen=True)
class AugmentationResult:
    """What came out of an augmentation, as a record has it.

    Attributes:
        rows: training rows that were read.
        copies: rows that were added.
        words: words of the rows.
        words_with_candidates: share of them that could be replaced.
        words_replaced: share of the copies' words that were.
    """

    rows: int
    copies: int
    words: int
    words_with_candidates: float
    words_replaced: float


def augment(
    data: str,
    *,
    task: Task,
    output: Path,
    settings: AugmentSettings,
    masked_lm: str | None = None,
    word_vectors: Path | None = None,
) -> Record:
    """Writes a task's data again with every training row followed by its copies; the other splits stay as they are.

    TinyBERT (Jiao et al. 2020), Algorithm 1, but for one thing: the candidates of a word come from the row's own
    sentence, as in its authors' code, not from the copy with the words before it replaced. So the masked LM runs once
    a word, not once a word and copy.

    A copy has the label of its row, which its words need not bear out any more: what a copy is good for is a teacher's
    soft targets. A row of tagged words keeps as many words, each with its tag.

    Args:
        data: folder or Hub id in the layout of nyu-mll/glue.
        output: the directory to make, in that layout: `TASK/SPLIT-*.parquet`, record.json; of data of one's own `SPLIT-*.parquet`.
        masked_lm: directory or Hub id of the model that has the candidates of words that are one piece.
        word_vectors: file or model directory that has those of all others, or of all words without a masked LM.

    Raises:
        InvalidInput: neither source of candidates is given, or they have none for any word.
    """
    check_no_spans(task, what="augment", repair="distil without: replaced words would keep answers of other ones")
    if masked_lm is None and word_vectors is None:
        raise InvalidInput(
            "candidates must come from --masked-lm, --word-vectors or both", got="neither", repair="add one of them"
        )

    def work(directory: Path) -> dict[str, Any]:
        rows = load_split(data, task, "train")
        texts = sorted({_text(value) for column in task.columns for value in rows[column]})
        candidates_of = find_candidates(
            texts,
            masked_lm=MaskedLmCandidates(masked_lm) if masked_lm is not None else None,
            word_vectors=read_word_vectors(word_vectors) if word_vectors is not None else None,
            count=settings.candidates,
        )
        folder = directory / task.name if task.benchmark else directory
        folder.mkdir(exist_ok=True)
        if task.benchmark:
            copy_other_splits(data, task, folder)
        else:
            rows = as_written(rows, task)
            write_other_splits(data, task, folder)
        target = folder / "train-00000-of-00001.parquet"
        return asdict(write_augmented(rows, target, task=task, candidates_of=candidates_of, settings=settings))

    parents = {"data": data_parent(data, task)}
    if masked_lm is not None:
        parents["masked_lm"] = parent(masked_lm)
    if word_vectors is not None:
        name = file_parent if word_vectors.is_file() else parent
        parents["word_vectors"] = name(word_vectors)
    return run_stage("augment", output, settings={**task.settings, **settings.describe()}, parents=parents, work=work)


def write_augmented(
    rows: "Dataset", path: Path, *, task: Task, candidates_of: Callable[[Text], Candidates], settings: AugmentSettings
) -> AugmentationResult:
    """Writes each row and its copies, numbered anew.

    What is drawn for a row depends on the seed and on its place alone.

    Raises:
        InvalidInput: no word has candidates.
    """
    from pyarrow import Table
    from pyarrow.parquet import ParquetWriter

    schema = rows.features.arrow_schema
    words = with_candidates = replaced = written = 0
    with path.open("wb") as stream, late_errors(stream) as late, ParquetWriter(late, schema) as writer:
        starts = range(0, len(rows), _ROWS_AT_A_TIME)
        for start in track(starts, total=len(starts), description=f"augment {task.name}"):
            chunk: list[dict[str, Any]] = []
            for place, row in enumerate(rows.skip(start).take(_ROWS_AT_A_TIME).to_list(), start=start):
                random = Random(f"{settings.seed} {place}")
                candidates = candidates_of_row(row, task, candidates_of)
                words += sum(len(of_text) for of_text in candidates.values())
                with_candidates += sum(bool(options) for of_text in candidates.values() for options in of_text)
                chunk.append(row)
                for _ in range(settings.copies):
                    copy, count = replace_in_row(row, candidates, probability=settings.probability, random=random)
                    replaced += count
                    chunk.append(copy)
            if "idx" in schema.names:
                chunk = [{**row, "idx": idx} for idx, row in enumerate(chunk, start=written)]
            written += len(chunk)
            writer.write_table(Table.from_pylist(chunk, schema=schema))
    if not with_candidates:
        raise InvalidInput(
            "--masked-lm or --word-vectors must have candidates for some of the words",
            got=f"none for the {words} words of {task.name}",
            repair="use ones of the data's language",
        )
    return AugmentationResult(
        rows=len(rows),
        copies=written - len(rows),
        words=words,
        words_with_candidates=round(with_candidates / words, 4),
        words_replaced=round(replaced / (words * settings.copies), 4),
    )


def write_other_splits(data: str, task: Task, directory: Path) -> None:
    """Writes the splits of data of one's own that are scored, in their own columns; with them stands the task."""
    for split in evaluated_splits(data, task).values():
        rows = as_written(load_split(data, task, split), task)
        with (directory / f"{split}-00000-of-00001.parquet").open("wb") as stream, late_errors(stream) as late:
            rows.to_parquet(late)
    write_task(directory, replace(task, held_out=None))


def copy_other_splits(data: str, task: Task, directory: Path) -> None:
    """Copies the splits that nobody trains on, those that the data has."""
    root = Path(data)
    for split in task.sizes.keys() - {"train"}:
        files = [path for pattern in ("-*.parquet", ".parquet") for path in (root / task.name).glob(split + pattern)]
        for path in files:
            copyfile(path, directory / path.name)
        if not files and (not root.is_dir() or tsv_file(root, task, split) is not None):
            rows = load_split(data, task, split, labelled=False)
            with (directory / f"{split}-00000-of-00001.parquet").open("wb") as stream, late_errors(stream) as late:
                rows.to_parquet(late)
