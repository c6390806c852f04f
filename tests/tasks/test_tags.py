"""Tags: every form gives the same words and tags, schemes are what they are, pieces stand for words, and wrong rows are refused."""

import json
import re
from dataclasses import replace
from itertools import groupby
from random import Random

import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, List, Value
from seqeval.metrics.sequence_labeling import get_entities
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.conll import read_conll
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.inspection import look_at
from hf_albert_plus.tasks.own_data import as_written, find_task, in_words
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.tag_schemes import entities, find_scheme
from hf_albert_plus.tasks.task_file import read_task, write_task
from hf_albert_plus.tasks.word_pieces import UNSEEN, first_pieces, joined
from tests.support.tagged import tagged_sentences, write_tagged

SENTENCES = tagged_sentences(40)
NAMES = ("O", "B-what", "B-when", "I-when", "B-where", "B-who")


def as_conll(path, sentences, *, separator=" ", middle=()):
    """A word a line, other columns between it and its tag, the marks of documents among them."""
    lines = ["-DOCSTART- -X- O", ""]
    for words, tags in sentences:
        lines += [separator.join((word, *middle, tag)) for word, tag in zip(words, tags, strict=True)] + [""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def written(directory, form):
    words, tags = (list(each) for each in zip(*SENTENCES, strict=True))
    if form == "jsonl":
        return write_tagged(directory / "my.jsonl", SENTENCES)
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"words": words, "tags": tags}), directory / "my.parquet")
        return directory / "my.parquet"
    if form.startswith("conll"):
        separator = "\t" if "tabs" in form else " "
        return as_conll(
            directory / "my.conll", SENTENCES, separator=separator, middle=("NN", "I-NP") if "four" in form else ()
        )
    rows = Dataset.from_dict({"tokens": words, "tags": tags})
    rows.cast_column("tags", List(ClassLabel(names=list(NAMES)))).save_to_disk(directory / "my")
    return directory / "my"


@pytest.mark.parametrize("form", ["jsonl", "parquet", "conll", "conll tabs", "conll four columns", "ids of a dataset"])
def test_every_form_has_the_same_words_and_tags(tmp_path, form):
    data = str(written(tmp_path, form))
    task = find_task(data)
    assert (task.kind, task.tag_scheme, task.labels) == ("tags", "IOB2", NAMES)
    assert "IOB2" in in_words(data, task)
    parts = [load_split(data, task, split) for split in ("train", "validation")]
    back = [(row[task.columns[0]], [NAMES[tag] for tag in row["label"]]) for rows in parts for row in rows]
    assert sorted(back) == sorted(SENTENCES)
    write_task(tmp_path, task)
    assert read_task(tmp_path) == task


def test_rows_written_back_are_read_again_as_they_were(tmp_path):
    data = str(write_tagged(tmp_path / "my.jsonl", SENTENCES))
    task = find_task(data)
    rows = load_split(data, task, "train")
    as_written(rows, task).to_parquet(tmp_path / "again.parquet")
    again = find_task(str(tmp_path / "again.parquet"))
    assert (again.labels, again.tag_scheme) == (task.labels, task.tag_scheme)


def test_intents_are_found_beside_tags_and_tags_where_they_are_named(tmp_path):
    path = tmp_path / "my.jsonl"
    rows = [
        {"tokens": words, "slots": tags, "intent": ("go", "stay")[place % 2]}
        for place, (words, tags) in enumerate(SENTENCES)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert find_task(str(path)).kind == "classes"
    assert find_task(str(path), DataSettings(label_column=("slots",))).kind == "tags"


def test_lists_of_labels_of_other_lengths_are_several_labels(tmp_path):
    path = tmp_path / "my.jsonl"
    rows = [{"tokens": words, "labels": sorted({tag[2:] for tag in tags if tag != "O"})} for words, tags in SENTENCES]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert find_task(str(path)).kind == "labels"


# The schemes that seqeval's users know, of two people beside each other, a place of one word and a person at the end.
SCHEMES = {
    "IOB1": ["I-P", "I-P", "B-P", "O", "I-L", "I-P"],
    "IOB2": ["B-P", "I-P", "B-P", "O", "B-L", "B-P"],
    "IOBES": ["B-P", "E-P", "S-P", "O", "S-L", "S-P"],
    "BILOU": ["B-P", "L-P", "U-P", "O", "U-L", "U-P"],
    "runs": ["P", "P", "P", "O", "L", "P"],
    "plain": ["NN", "NN", "VB", "DT", "NN", "."],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_is_recognised_and_its_entities_read(scheme):
    tags = SCHEMES[scheme]
    assert find_scheme([tags, tags[3:]], where="here") == scheme
    found = [(each.label, each.start, each.end) for each in entities(tags, scheme)]
    two = [("P", 0, 3)] if scheme == "runs" else [("P", 0, 2), ("P", 2, 3)]
    assert found == ([] if scheme == "plain" else [*two, ("L", 4, 5), ("P", 5, 6)])


def test_entities_of_whole_data_are_those_of_the_lenient_reading_too():
    """On tags without faults seqeval's other reader, conlleval's, finds the same."""
    for _, tags in SENTENCES:
        lenient = [(label, start, end + 1) for label, start, end in get_entities(tags)]
        assert [(each.label, each.start, each.end) for each in entities(tags, "IOB2")] == lenient


def by_hand(tags, scheme):
    """Entities by the words of each scheme, read from the left."""
    if scheme == "runs":
        groups = [(tag, list(group)) for tag, group in groupby(enumerate(tags), lambda pair: pair[1])]
        return [(tag, group[0][0], group[-1][0] + 1) for tag, group in groups if tag != "O"]
    found, place = [], 0
    first, last = {"IOB2": ("B", ""), "IOBES": ("BS", "E"), "BILOU": ("BU", "L")}[scheme]
    while place < len(tags):
        letter, kind, end = tags[place][0], tags[place][2:], place + 1
        while letter == "B" and end < len(tags) and tags[end] == f"I-{kind}":
            end += 1
        if letter == "B" and last:
            if end == len(tags) or tags[end] != f"{last}-{kind}":
                place += 1
                continue
            end += 1
        if letter in first:
            found.append((kind, place, end))
        place = end if letter in first else place + 1
    return found


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES", "BILOU", "runs"])
def test_kinds_may_have_hyphens_anywhere(scheme):
    random, kinds = Random(3), ["-LRB-", "LRB", "LRB-", "-", "--", "x-y", "O", "B-x"]
    letters = {"IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}.get(scheme, "")
    names = ["O", *(f"{letter}-{kind}" for letter in letters for kind in kinds)] if letters else kinds
    for _ in range(2000):
        few = random.sample(names, min(6, len(names)))
        tags = random.choices([*few, "O"], k=random.randint(1, 7))
        assert [(each.label, each.start, each.end) for each in entities(tags, scheme)] == by_hand(tags, scheme), tags


def test_numbers_for_tags_are_doubted(tmp_path):
    rows = [{"tokens": words, "ner_tags": [NAMES.index(tag) for tag in tags]} for words, tags in SENTENCES]
    path = tmp_path / "my.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "tags should be names, got numbers" in " ".join(look_at(str(path), find_task(str(path))).warnings)


def test_a_word_that_is_a_hash_is_no_remark(tmp_path):
    sentences = [(["#", *words], ["O", *tags]) for words, tags in SENTENCES]
    path = as_conll(tmp_path / "my.conll", sentences)
    assert words_of(path) == [words for words, _ in sentences]
    path.write_text("# a remark of one sentence\n" + path.read_text().replace("-DOCSTART- -X- O\n\n", ""))
    assert words_of(path) == [words for words, _ in sentences]


def words_of(path):
    return read_conll(path.read_text(), path).column("words").to_pylist()


def test_entities_that_no_tag_begins_are_none():
    assert entities(["O", "I-P", "I-P"], "IOB2") == []
    assert [(each.start, each.end) for each in entities(["B-P", "I-L", "I-L"], "IOB2")] == [(0, 1)]


def test_the_first_piece_of_a_word_has_its_tag(tokenizer_dir, tmp_path):
    words = ["unbelievable", "Zürich", ",", "o'clock", "e\u0301te\u0301", "👩‍👩‍👧"]
    tags = ["B-who", "O", "O", "B-when", "I-when", "O"]
    data = str(write_tagged(tmp_path / "my.jsonl", [*SENTENCES, (words, tags)]))
    tokenizer, task = AutoTokenizer.from_pretrained(tokenizer_dir), find_task(data)
    whole = load_split(data, replace(task, held_out=None), "train")
    row = encode(whole, task, tokenizer, max_length=64)[len(SENTENCES)]
    by_words = tokenizer(words, is_split_into_words=True)
    assert row["input_ids"] == by_words["input_ids"]
    word_ids = by_words.word_ids()
    expected = [word_ids.index(word) if word in word_ids else UNSEEN for word in range(len(words))]
    assert row["first_pieces"] == expected
    labels = dict(zip(expected, map(task.labels.index, tags), strict=True))
    assert row["labels"] == [labels.get(place, -100) for place in range(len(word_ids))]


def test_words_beyond_the_longest_input_are_unseen(tokenizer_dir, tmp_path):
    data = str(write_tagged(tmp_path / "my.jsonl", SENTENCES))
    tokenizer, task = AutoTokenizer.from_pretrained(tokenizer_dir), find_task(data)
    rows = encode(load_split(data, task, "train"), task, tokenizer, max_length=6)
    words = [piece for pieces in rows["first_pieces"] for piece in pieces]
    facts = look_at(data, task, tokenizer=tokenizer, max_length=6)
    assert facts.cut_words == sum(piece == UNSEEN for piece in words) / len(words) > 0.3
    lengths = [len(words) for words in load_split(data, task, "train")["tokens"]]
    assert facts.words == (round(sum(lengths) / len(lengths), 2), max(lengths))
    counts = [tag for tags in load_split(data, task, "train")["label"] for tag in tags]
    assert facts.classes == {name: counts.count(i) for i, name in enumerate(task.labels)}


def test_a_blank_that_a_piece_begins_with_is_no_part_of_its_word():
    text, spans = joined(["a", "bc", "d"])
    assert first_pieces(text, [(0, 0), (0, 1), (1, 3), (3, 4), (4, 5), (4, 6), (0, 0)], spans) == [1, 2, 5]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(["a", "b"], ["O"])], "every word must have its tag, got 2 words and 1 tags in row 41"),
        ([(["a", " "], ["O", "O"])], r"must not be empty, got ' ', word 2 of row 41"),
        ([([], [])], r"list of words in every row, got \[\] in row 41"),
        ([(["a", 3], ["O", "O"])], "type in every line|list of words in every row"),
        ([(["a", "b"], ["O", None])], r"list of tags in every row, one a word, got \['O', None\]"),
        ([(["a", "b"], ["O", "I-who"]), (["a"], ["B-who"])], r"I-X follows B-X or I-X alone, got I-who after O \(word 2 of row 41\)"),
        ([(["a", "b"], ["O", "person"])], "all but O must have one, as B-PER and I-PER, got 'person'"),
        ([(["a", "b"], ["O", "E-who"])], "in which I-X and E-X follow B-X or I-X"),
        ([(["a", "b"], ["S-who", "O"])], r"in which I-X and E-X follow B-X or I-X, and nothing else does, got O after B-who"),
        ([(["a", "b"], ["U-who", "E-who"])], "prefixes of tags must be those of one scheme"),
    ],
)  # fmt: skip
def test_wrong_rows_are_refused_with_their_place(tmp_path, rows, said):
    data = write_tagged(tmp_path / "my.jsonl", [*SENTENCES, *rows])
    with pytest.raises(InvalidInput, match=said):
        find_task(str(data), DataSettings(kind="tags"))


def test_a_tag_that_training_rows_lack_is_refused(tmp_path):
    write_tagged(tmp_path / "train.jsonl", SENTENCES)
    write_tagged(tmp_path / "validation.jsonl", [(["a", "b"], ["O", "B-colour"])])
    task = find_task(str(tmp_path))
    with pytest.raises(InvalidInput, match="one of its 6, those of the training rows, got 'B-colour'"):
        load_split(str(tmp_path), task, "validation")


def test_texts_that_are_no_lists_of_words_have_no_tags(tmp_path):
    path = tmp_path / "my.jsonl"
    path.write_text(json.dumps({"text": "a b", "tags": ["O", "B-a"]}) + "\n")
    with pytest.raises(InvalidInput, match=r"column 'text' must hold a list of words .*\.conll"):
        find_task(str(path), DataSettings(kind="tags"))


@pytest.mark.parametrize(
    ("content", "said"),
    [("a O\nb\n", r"in as many columns as the others \(2\), got 1 in line 2: 'b'"), ("a\nb\n", "got 1 in line 1")],
)
def test_a_line_without_its_tag_is_named(tmp_path, content, said):
    (tmp_path / "my.conll").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        find_task(str(tmp_path / "my.conll"))


def test_a_slow_tokenizer_is_refused(tokenizer_dir, tmp_path):
    data = str(write_tagged(tmp_path / "my.jsonl", SENTENCES))

    class Slow:
        is_fast = False

    with pytest.raises(InvalidInput, match=re.escape("needs a fast tokenizer")):
        encode(load_split(data, find_task(data), "train"), find_task(data), Slow(), max_length=8)


def test_numbers_stay_numbers(tmp_path):
    """Lists beside texts that are no lists are what they were."""
    rows = Dataset.from_dict({"text": ["a b", "c"] * 5, "labels": [["x"], []] * 5})
    rows.cast_column("text", Value("string")).to_parquet(tmp_path / "my.parquet")
    assert find_task(str(tmp_path / "my.parquet")).kind == "labels"
