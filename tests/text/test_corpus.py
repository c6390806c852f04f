"""The corpus stage: documents against a brute-force reading, shards against a second run, labels against the text."""

import json
import re
import subprocess
import sys
import time
from unittest.mock import Mock

import pyarrow
import pytest
from datasets import load_from_disk
from pyarrow import parquet
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.pretraining.batches import token_types
from hf_albert_plus.text import corpus_parts as parts
from hf_albert_plus.text import documents, shards
from hf_albert_plus.text.corpus import build_corpus
from hf_albert_plus.text.corpus_parts import find_parts
from hf_albert_plus.text.documents import Part
from hf_albert_plus.text.settings import CorpusSettings, TokenizerSettings
from hf_albert_plus.text.tokenizers import train_tokenizer
from tests.support.command_line import invoke
from tests.support.corpora import as_text, make_text
from tests.support.documents import ROOT
from tests.support.processes import running


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(as_text(make_text(count=120)) + "\n", encoding="utf-8")
    return path


def read(found: list[Part]) -> list[list[str]]:
    return [lines for part in found for lines in part.documents()]


ODD = "\n \nA b.\r\nc\r\n\r\n\t\n\nd é ü\n\n\n\ne\n  \nf\ng 漢字\n \n\nlast"


@pytest.mark.parametrize("part_bytes", [*range(1, 14), 20, 33, 1000])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n \n"])
def test_every_document_is_read_once_however_the_file_is_cut(tmp_path, part_bytes, end):
    path = tmp_path / "odd.txt"
    path.write_bytes((ODD + end).encode())
    expected = [["A b.", "c"], ["d é ü"], ["e"], ["f", "g 漢字"], ["last"]]
    assert read(find_parts([str(path)], part_bytes=part_bytes)) == expected


@pytest.mark.parametrize("part_bytes", [57, 640, 5000])
def test_parts_of_a_longer_text(text_file, part_bytes):
    assert read(find_parts([str(text_file)], part_bytes=part_bytes)) == make_text(count=120)


@pytest.mark.parametrize(("max_length", "told"), [(16, True), (128, False)])
def test_examples_of_few_sentences_are_said_to_tell_their_order(
    text_file, tokenizer_dir, tmp_path, capsys, max_length, told
):
    settings = CorpusSettings(max_length=max_length, held_out=0.5)
    build_corpus([str(text_file)], tokenizer=str(tokenizer_dir), output=tmp_path / "corpus", settings=settings)
    assert ("where segments end tells much of their order" in capsys.readouterr().err) == told
    found = subprocess.run(
        [sys.executable, ROOT / "examples" / "order_cue.py", tmp_path / "corpus"],
        capture_output=True,
        text=True,
        check=True,
    )
    share, examples = re.fullmatch(r"(0\.\d+|1\.000) of (\d+) examples\n", found.stdout).groups()
    # Sentences that all fit are whole: what is longer, and chance, is all there is to see.
    assert (float(share) > 0.75) == told
    assert int(examples) == sum(
        label >= 0 for label in load_from_disk(tmp_path / "corpus")["validation"]["sentence_order_label"]
    )


@pytest.mark.parametrize("part_bytes", [7, 100, 10_000])
def test_endless_lines_and_documents_come_in_pieces_and_lose_nothing(tmp_path, monkeypatch, part_bytes):
    monkeypatch.setattr(documents, "LONGEST_LINE", 20)
    monkeypatch.setattr(documents, "LONGEST_DOCUMENT", 60)
    path = tmp_path / "long.txt"
    words = [f"w{i}" for i in range(80)]
    wide = "é" * 75
    path.write_text(f"one\n\n{' '.join(words)}\n{wide}\n\n{' ' * 50}\ntwo\n\n" + "three\n" * 40, encoding="utf-8")
    found = read(find_parts([str(path)], part_bytes=part_bytes))
    assert all(sum(len(line.encode()) for line in lines) <= 60 + 20 for lines in found)
    assert "".join(" ".join(line for lines in found for line in lines).split()) == (
        "one" + "".join(words) + wide + "two" + "three" * 40
    )
    assert found[0] == ["one"]


@pytest.mark.parametrize("part_bytes", [1, 90, 100_000])
def test_rows_of_jsonl_and_parquet(tmp_path, part_bytes):
    rows = ["\n".join(lines) for lines in make_text(count=30)]
    jsonl, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    jsonl.write_text("".join(json.dumps({"id": i, "text": row}) + "\n" for i, row in enumerate(rows)) + "\n")
    parquet.write_table(pyarrow.table({"text": [*rows, None, ""]}), table, row_group_size=7)
    assert read(find_parts([str(jsonl)], part_bytes=part_bytes)) == make_text(count=30)
    assert read(find_parts([str(table)], part_bytes=part_bytes)) == make_text(count=30)
    assert read(find_parts([str(tmp_path)])) == make_text(count=30) * 2


def test_a_hub_dataset_is_streamed_shard_by_shard(tmp_path, monkeypatch):
    """Of the commit that was the newest at first."""
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda api, name: type("Info", (), {"sha": "5ba9"}))
    rows = ["\n".join(lines) for lines in make_text(count=30)]
    directory = tmp_path / "owner" / "texts"
    directory.mkdir(parents=True)
    for shard in range(3):
        parquet.write_table(pyarrow.table({"body": rows[shard::3]}), directory / f"train-{shard:05}-of-00003.parquet")
    found = parts._of_hub(str(directory), "body")
    assert [(part.kind, part.start, part.revision) for part in found] == [("hub", i, "5ba9") for i in range(3)]
    assert parts.sources(found) == {"corpus 0": {"path": f"{directory}@5ba9", "sha256": "hub"}}
    assert sorted(read(found)) == sorted(make_text(count=30))


def rows_of(directory, split="train"):
    return load_from_disk(str(directory))[split].to_list()


@pytest.fixture
def small_parts(monkeypatch):
    """Many parts and batches of a small text."""
    monkeypatch.setattr(parts.find_parts, "__kwdefaults__", {"column": "text", "part_bytes": 2000})
    monkeypatch.setattr(shards, "_BATCH_CHARACTERS", 700)


SETTINGS = CorpusSettings(max_length=32, held_out=0.2)


def test_rows_are_what_the_tokenizer_makes_of_the_segments(text_file, tokenizer_dir, tmp_path, small_parts):
    record = build_corpus(
        [str(text_file)], tokenizer=str(tokenizer_dir), output=tmp_path / "corpus", settings=SETTINGS, workers=1
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "corpus" / "tokenizer")
    whole = [tokenizer(" ".join(lines), add_special_tokens=False)["input_ids"] for lines in make_text(count=120)]
    whole = [" ".join(map(str, ids)) for ids in whole]
    rows = [*rows_of(tmp_path / "corpus"), *rows_of(tmp_path / "corpus", "validation")]
    for row in rows:
        ids, second = row["input_ids"], row["second_segment"]
        assert row["length"] == len(ids) <= 32
        first, rest = (ids[1 : second - 1], ids[second:-1]) if second else (ids[1:-1], None)
        assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
        assert (row["sentence_order_label"] == -100) == (second == 0)
        if second:
            assert ids[second - 1] == tokenizer.sep_token_id
            a, b = (rest, first) if row["sentence_order_label"] else (first, rest)
            if len(ids) < 32:
                assert ids == tokenizer(*map(tokenizer.decode, (first, rest)))["input_ids"]
                joined = " ".join(map(str, a + b))
                assert any(joined in text for text in whole)
    counts = record.result
    assert counts["documents"] == 120
    assert counts["train_examples"] + counts["validation_examples"] == len(rows)
    assert counts["tokens"] == sum(len(text.split()) for text in whole)
    assert counts["train_label_1"] == sum(row["sentence_order_label"] == 1 for row in rows_of(tmp_path / "corpus"))


@pytest.mark.slow
def test_any_number_of_workers_and_a_killed_run_make_the_same(text_file, tokenizer_dir, tmp_path, small_parts):
    """A process of its own is killed -9 after its first shards."""
    script = f"""
from pathlib import Path
from hf_albert_plus.text import corpus_parts
from hf_albert_plus.text.corpus import build_corpus
from hf_albert_plus.text.settings import CorpusSettings
corpus_parts.find_parts.__kwdefaults__["part_bytes"] = 2000
build_corpus(
    [{str(text_file)!r}], tokenizer={str(tokenizer_dir)!r}, output=Path({str(tmp_path / "killed")!r}),
    settings=CorpusSettings(max_length=32, held_out=0.2), workers=1,
)
"""
    checkpoints = tmp_path / "killed.partial" / "checkpoints"
    with running([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as killed:
        while len(list(checkpoints.glob("*.json"))) < 3:
            assert killed.poll() is None
            time.sleep(0.001)
        killed.kill()
    assert not (tmp_path / "killed").exists()
    made = {path.name: path.stat().st_ino for path in checkpoints.glob("train/*.arrow")}
    complete = [f"{path.stem}.arrow" for path in checkpoints.glob("*.json")]
    for name, workers in (("one", 1), ("two", 2), ("killed", 1)):
        build_corpus(
            [str(text_file)],
            tokenizer=str(tokenizer_dir),
            output=tmp_path / name,
            settings=SETTINGS,
            workers=workers,
        )
    assert all((tmp_path / "killed" / "train" / name).stat().st_ino == made[name] for name in complete)
    for split in ("train", "validation"):
        assert (
            rows_of(tmp_path / "one", split) == rows_of(tmp_path / "two", split) == rows_of(tmp_path / "killed", split)
        )


def test_killed_after_its_last_shard_it_makes_the_same(text_file, tokenizer_dir, tmp_path, small_parts, monkeypatch):
    """All that is missing then is the record."""
    call = {"tokenizer": str(tokenizer_dir), "settings": SETTINGS, "workers": 1}
    with monkeypatch.context() as patched:
        patched.setattr("hf_albert_plus.records.stage.record_run", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build_corpus([str(text_file)], output=tmp_path / "killed", **call)
    assert not (tmp_path / "killed").exists()
    for name in ("killed", "whole"):
        build_corpus([str(text_file)], output=tmp_path / name, **call)
    for split in ("train", "validation"):
        assert rows_of(tmp_path / "killed", split) == rows_of(tmp_path / "whole", split)


def test_copies_differ_and_held_out_documents_stay_out(text_file, tokenizer_dir, tmp_path, small_parts):
    for name, copies in (("once", 1), ("thrice", 3)):
        settings = CorpusSettings(max_length=32, held_out=0.2, copies=copies)
        build_corpus(
            [str(text_file)], tokenizer=str(tokenizer_dir), output=tmp_path / name, settings=settings, workers=1
        )
    once, thrice = rows_of(tmp_path / "once"), rows_of(tmp_path / "thrice")
    assert 2.5 < len(thrice) / len(once) < 3.5
    assert len({tuple(row["input_ids"]) for row in thrice}) > 2 * len(once)
    held = len(rows_of(tmp_path / "once", "validation"))
    assert 0.05 < held / (held + len(once)) < 0.4


def test_next_sentences_are_balanced_in_both_splits(text_file, tokenizer_dir, tmp_path, small_parts):
    """A held-out document that is alone in its part has others to choose from all the same."""
    settings = CorpusSettings(max_length=32, held_out=0.2, order="next-sentence")
    build_corpus(
        [str(text_file)], tokenizer=str(tokenizer_dir), output=tmp_path / "corpus", settings=settings, workers=1
    )
    for split in ("train", "validation"):
        labels = [row["sentence_order_label"] for row in rows_of(tmp_path / "corpus", split)]
        assert 0.4 < labels.count(1) / len(labels) < 0.75


def test_a_document_and_its_copy_lie_on_one_side(tokenizer_dir, tmp_path):
    path = tmp_path / "twice.txt"
    text = as_text(make_text(count=40))
    path.write_text(f"{text}\n\n{text}\n")
    settings = CorpusSettings(format="doc-sentences", max_length=512, held_out=0.5)
    build_corpus([str(path)], tokenizer=str(tokenizer_dir), output=tmp_path / "corpus", settings=settings, workers=1)
    sides = [
        {tuple(row["input_ids"]) for row in rows_of(tmp_path / "corpus", split)} for split in ("train", "validation")
    ]
    assert len(sides[0]) + len(sides[1]) == 40
    assert not sides[0] & sides[1]


def test_examples_are_read_from_disk(text_file, tokenizer_dir, tmp_path):
    build_corpus(
        [str(text_file)], tokenizer=str(tokenizer_dir), output=tmp_path / "corpus", settings=SETTINGS, workers=1
    )
    opened = load_from_disk(str(tmp_path / "corpus"))["train"]
    assert opened.cache_files
    assert all(file["filename"].startswith(str(tmp_path)) for file in opened.cache_files)
    assert opened.features["input_ids"].feature.dtype == "uint16"


@pytest.mark.parametrize("format_", ["full-sentences", "doc-sentences"])
def test_formats_of_one_segment(text_file, tokenizer_dir, tmp_path, format_):
    invoke(
        "corpus", "build", "--corpus", text_file, "--tokenizer", tokenizer_dir, "--format", format_, "--max-length", 64,
        "--held-out", 0, "--workers", 1, "--out", tmp_path / "corpus",
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    inner = [row["input_ids"][1:-1] for row in rows_of(tmp_path / "corpus")]
    assert rows_of(tmp_path / "corpus", "validation") == []
    assert any(tokenizer.sep_token_id in ids for ids in inner) == (format_ == "full-sentences")
    found = [token for ids in inner for token in ids if token != tokenizer.sep_token_id]
    expected = [tokenizer(" ".join(lines), add_special_tokens=False)["input_ids"] for lines in make_text(count=120)]
    assert found == [token for ids in expected for token in ids]


def wrong(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: {"corpus": []}, ["--corpus must name", "none"]),
        (lambda p: {"corpus": [str(p / "none.txt")]}, ["--corpus must be there", "none.txt", "check the path"]),
        (lambda p: {"corpus": [wrong(p, "a.docx", b"x")]}, ["--corpus FILE must end in", "a.docx"]),
        (lambda p: {"corpus": [wrong(p, "a.txt", b"good\n\nbad \xe9\n")]}, ["UTF-8", "0xe9 at offset 10", "iconv"]),
        (lambda p: {"corpus": [wrong(p, "a.txt", b" \n\n")]}, ["must hold text"]),
        (lambda p: {"corpus": [wrong(p, "a.jsonl", b'{"text": "x"}\n{"text"')]}, ["JSON object a line", "offset 14", "mend"]),
        (lambda p: {"corpus": [wrong(p, "a.jsonl", b'{"body": "x"}\n')]}, ["--column", "'text'", "use one of body"]),
        (lambda p: {"corpus": [wrong(p, "a.jsonl", b'{"text": 3}\n')]}, ["--column must hold text", "int"]),
        (lambda p: {"corpus": [wrong(p, "a.parquet", b"none")]}, ["must be Parquet"]),
        (lambda p: {"corpus": ["nobody/no-such-dataset"]}, ["a file, a folder or a Hub dataset", "nobody/no-such-dataset"]),
        (lambda p: {"tokenizer": str(p / "none")}, ["--tokenizer must be", "albert-plus tokenizer train"]),
        (lambda p: {"max_length": 4}, ["--max-length must be at least 8"]),
        (lambda p: {"format": "paragraphs"}, ["--format", "'paragraphs'", "segment-pair"]),
        (lambda p: {"order": "sentence_order"}, ["--order", "did you mean 'sentence-order'"]),
        (lambda p: {"format": "doc-sentences", "order": "next-sentence"}, ["--order must be none for doc-sentences"]),
        (lambda p: {"copies": 0}, ["--copies must be at least 1"]),
        (lambda p: {"copies": 2, "format": "doc-sentences"}, ["--copies must be 1 for doc-sentences"]),
        (lambda p: {"held_out": 1.0}, ["--held-out must be a share"]),
        (lambda p: {"short_share": -0.1}, ["--short-share must be a share"]),
        (lambda p: {"language": "English"}, ["--language must be an ISO 639 code", "'English'"]),
        (lambda p: {"corpus": [wrong(p, "a.txt", b"One. Two. Three.\n")], "order": "next-sentence", "held_out": 0.0}, ["documents to choose from"]),
        (lambda p: {"corpus": [wrong(p, "a.txt", b"One.\n\nTwo.\n\nThree.\n")], "held_out": 0.0}, ["two sentences and more", "--order none"]),
        (lambda p: {"corpus": [wrong(p, "a.txt", b"One. Two. Three.\n")]}, ["documents to score on", "--held-out 0"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_left(text_file, tokenizer_dir, tmp_path, make, words):
    given = {"corpus": [str(text_file)], "tokenizer": str(tokenizer_dir), **make(tmp_path)}
    call = {name: given.pop(name) for name in ("corpus", "tokenizer")}
    with pytest.raises(InvalidInput) as raised:
        build_corpus(**call, output=tmp_path / "out", settings=CorpusSettings(**given), workers=1)
    for word in words:
        assert word in str(raised.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_error_of_a_worker_comes_home(text_file, tokenizer_dir, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"good\n\nbad \xe9\n")
    with pytest.raises(InvalidInput, match="0xe9 at offset 10 of .*bad.txt; convert it: iconv"):
        build_corpus(
            [str(text_file), str(bad)],
            tokenizer=str(tokenizer_dir),
            output=tmp_path / "out",
            settings=SETTINGS,
            workers=2,
        )


def test_other_settings_are_another_corpus(text_file, tokenizer_dir, tmp_path):
    call = {"tokenizer": str(tokenizer_dir), "output": tmp_path / "corpus", "workers": 1}
    build_corpus([str(text_file)], settings=SETTINGS, **call)
    assert build_corpus([str(text_file)], settings=SETTINGS, **call).reused
    with pytest.raises(StageConflict, match="max_length: 32 there, 64 asked for"):
        build_corpus([str(text_file)], settings=CorpusSettings(max_length=64, held_out=0.2), **call)


def test_lines_that_are_sentences_already(tokenizer_dir, tmp_path, monkeypatch):
    """Without a library that splits; with one the first line is two."""
    text = tmp_path / "text.txt"
    text.write_text("One film. Two films.\nThree of them\n\nFour. Five.\n")
    found = {}
    for language in ("en", "none"):
        if language == "none":
            monkeypatch.setitem(sys.modules, "sentencex", None)
        out, settings = tmp_path / language, CorpusSettings(language=language, held_out=0.0, max_length=32)
        record = build_corpus([str(text)], tokenizer=str(tokenizer_dir), output=out, settings=settings, workers=1)
        found[language] = record.result["sentences"]
    assert found == {"en": 5, "none": 3}


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe"])
def test_pairs_are_laid_out_as_the_tokenizer_does(kind, text_file, tmp_path):
    """RoBERTa's tokenizers set two separators between segments: a fine-tuned pair then looks like a pretrained one."""
    settings = TokenizerSettings(kind=kind, vocab_size=320)
    train_tokenizer([str(text_file)], output=tmp_path / "tokenizer", settings=settings)
    build_corpus(
        [str(text_file)],
        tokenizer=str(tmp_path / "tokenizer"),
        output=tmp_path / "corpus",
        settings=CorpusSettings(max_length=400, held_out=0),
        workers=1,
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "corpus" / "tokenizer")
    separator = tokenizer.sep_token_id
    pairs = [row for row in load_from_disk(str(tmp_path / "corpus"))["train"] if row["second_segment"]]
    assert len(pairs) > 50
    for row in pairs:
        first, second = row["input_ids"][1 : row["second_segment"]], row["input_ids"][row["second_segment"] :]
        texts = [tokenizer.decode([i for i in segment if i != separator]) for segment in (first, second)]
        encoded = tokenizer(*texts)
        assert row["input_ids"] == encoded["input_ids"]
        assert token_types(row) == encoded["token_type_ids"]


def test_a_full_pair_of_two_separators_fits(text_file, tmp_path):
    train_tokenizer(
        [str(text_file)], output=tmp_path / "tokenizer", settings=TokenizerSettings(kind="byte-bpe", vocab_size=320)
    )
    for form in ("segment-pair", "full-sentences"):
        build_corpus(
            [str(text_file)],
            tokenizer=str(tmp_path / "tokenizer"),
            output=tmp_path / form,
            settings=CorpusSettings(format=form, max_length=16, held_out=0),
            workers=1,
        )
        assert max(load_from_disk(str(tmp_path / form))["train"]["length"]) == 16
