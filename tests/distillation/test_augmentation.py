"""Augmentation: draws counted, and the folder that the stage writes. `test_word_candidates` has the words that are drawn from."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import typer
from datasets import ClassLabel
from pyarrow import parquet
from transformers import AutoTokenizer
from typer.testing import CliRunner

from hf_albert_plus.distillation.augmentation import candidates as masked_words
from hf_albert_plus.distillation.augmentation import stage
from hf_albert_plus.distillation.augmentation.candidates import MaskedLmCandidates
from hf_albert_plus.distillation.augmentation.stage import augment, replace_in_row, replace_words
from hf_albert_plus.distillation.augmentation.words import WholeWords
from hf_albert_plus.distillation.settings import AugmentSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from tests.distillation.masked_lms import RANKING, wordpiece

FEW = AugmentSettings(copies=3, candidates=4, seed=1)


@pytest.fixture(scope="module")
def small_data(tmp_path_factory, data_dir) -> Path:
    """The demo's tasks with few training rows."""
    directory = tmp_path_factory.mktemp("small") / "data"
    shutil.copytree(data_dir, directory)
    for path in directory.glob("*/train-*"):
        parquet.write_table(parquet.read_table(path)[:15], path)
    return directory


# --- both, and the draws


def test_a_share_of_the_words_is_replaced_evenly_by_their_candidates():
    text = "a b, c d ."
    candidates = [["x", "y", "z"], ["x", "y", "z"], [], ["w"], []]
    random, draws, probability = Random(0), 20_000, 0.4
    seen = [Counter() for _ in candidates]
    for _ in range(draws):
        copy, replaced = replace_words(text, candidates, probability=probability, random=random)
        words = copy.split()
        assert replaced == sum(word != other for word, other in zip(words, text.split(), strict=True))
        for counter, word in zip(seen, words, strict=True):
            counter[word] += 1
    assert seen[2] == {"c": draws}
    assert seen[4] == {".": draws}

    def about(share):  # five standard deviations
        return pytest.approx(draws * share, abs=5 * math.sqrt(draws * share * (1 - share)))

    assert seen[0]["a"] == seen[1]["b,"] + seen[0]["a"] - seen[1]["b,"] == about(0.6)
    assert seen[3] == {"d": about(0.6), "w": about(0.4)}
    for option in "xyz":
        assert seen[0][option] == about(0.4 / 3)
        assert seen[1][f"{option},"] == about(0.4 / 3)


def test_the_sentences_of_a_pair_change_independently_and_from_the_original():
    row = {"sentence1": "a", "sentence2": "a", "label": 1, "idx": 5}
    candidates = {"sentence1": [["x"]], "sentence2": [["y"]]}
    random, draws = Random(0), 4000
    seen: Counter = Counter()
    for _ in range(draws):
        copy, _ = replace_in_row(row, candidates, probability=0.5, random=random)
        seen[copy["sentence1"], copy["sentence2"]] += 1
    assert row == {"sentence1": "a", "sentence2": "a", "label": 1, "idx": 5}
    assert set(seen) == {("a", "a"), ("a", "y"), ("x", "a"), ("x", "y")}
    assert all(count == pytest.approx(draws / 4, abs=5 * math.sqrt(draws * 3 / 16)) for count in seen.values())


# --- the stage


def written(output: Path, task: str) -> Path:
    return output / task / "train-00000-of-00001.parquet"


@pytest.mark.parametrize("name", ["sst2", "mrpc", "stsb"])
def test_the_folder_is_one_that_every_verb_reads(tmp_path, masked_lm, small_data, tokenizer_dir, name):
    task = get_task(name)
    record = augment(str(small_data), task=task, output=tmp_path / "out", settings=FEW, masked_lm=str(masked_lm))
    before, after = (load_split(str(folder), task, "train") for folder in (small_data, tmp_path / "out"))
    assert record.result["rows"] == len(before)
    assert record.result["copies"] == 3 * len(before)
    assert after.features == before.features
    assert isinstance(after.features["label"], ClassLabel) == (not task.is_regression)
    assert after["idx"] == list(range(4 * len(before)))
    columns = [*task.columns, "label"]
    assert after[::4].keys() == before[:].keys()
    assert {column: after[::4][column] for column in columns} == {column: before[:][column] for column in columns}
    for i, row in enumerate(after):
        original = before[i // 4]
        assert row["label"] == original["label"]
        for column in task.columns:
            assert len(row[column].split()) == len(original[column].split())
    for path in (small_data / name).glob("validation*"):
        assert (tmp_path / "out" / name / path.name).read_bytes() == path.read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    assert len(encode(after, task, tokenizer, max_length=32)) == len(after)


def test_the_counts_are_those_of_the_written_words(tmp_path, masked_lm, small_data):
    task = get_task("mrpc")
    settings = AugmentSettings(copies=5, candidates=4, probability=0.3)
    record = augment(str(small_data), task=task, output=tmp_path / "out", settings=settings, masked_lm=str(masked_lm))
    rows = load_split(str(tmp_path / "out"), task, "train").to_list()
    words = replaced = 0
    for i, row in enumerate(rows):
        for column in task.columns:
            original = rows[i - i % 6][column].split()
            words += len(original) if i % 6 == 0 else 0
            replaced += sum(a != b for a, b in zip(original, row[column].split(), strict=True))
    assert record.result["words"] == words
    assert record.result["words_replaced"] == pytest.approx(replaced / words / 5, abs=1e-4)
    share = 0.3 * record.result["words_with_candidates"]
    assert replaced == pytest.approx(5 * words * share, abs=5 * math.sqrt(5 * words * share))
    # Both sentences differ from copy to copy.
    for column in task.columns:
        assert len({row[column] for row in rows[1:6]}) > 1


def test_same_seed_same_bytes_other_seed_others(tmp_path, masked_lm, small_data, monkeypatch):
    task = get_task("sst2")
    for name, seed in (("one", 1), ("other", 2)):
        settings = AugmentSettings(copies=2, candidates=4, seed=seed)
        augment(str(small_data), task=task, output=tmp_path / name, settings=settings, masked_lm=str(masked_lm))
    monkeypatch.setattr(masked_words, "BATCH_SIZE", 5)
    settings = AugmentSettings(copies=2, candidates=4, seed=1)
    augment(str(small_data), task=task, output=tmp_path / "again", settings=settings, masked_lm=str(masked_lm))
    one, again, other = (written(tmp_path / name, "sst2").read_bytes() for name in ("one", "again", "other"))
    assert one == again
    assert one != other


def test_draws_depend_on_a_rows_place_alone(tmp_path, masked_lm, small_data, monkeypatch):
    task = get_task("sst2")
    rows = []
    for size in (1000, 7):
        monkeypatch.setattr(stage, "_ROWS_AT_A_TIME", size)
        augment(str(small_data), task=task, output=tmp_path / str(size), settings=FEW, masked_lm=str(masked_lm))
        rows.append(load_split(str(tmp_path / str(size)), task, "train").to_list())
    assert rows[0] == rows[1]


def test_a_second_run_is_the_first(tmp_path, biased_lm, glove):
    data = tsv_data(tmp_path / "tsv")
    given = {"task": get_task("sst2"), "output": tmp_path / "out", "settings": FEW, "word_vectors": glove}
    first = augment(str(data), **given, masked_lm=str(biased_lm))
    second = augment(str(data), **given, masked_lm=str(biased_lm))
    assert not first.reused
    assert second.reused
    assert set(second.parents) == {"data", "masked_lm", "word_vectors"}
    assert second.settings == {"task": "sst2", "copies": 3, "probability": 0.4, "candidates": 4, "seed": 1}


def tsv_data(root: Path, text: str = "The film was good ,") -> Path:
    (root / "SST-2").mkdir(parents=True)
    (root / "SST-2" / "train.tsv").write_text(f"sentence\tlabel\n{text}\t1\n")
    (root / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nbad films\t0\n")
    (root / "SST-2" / "test.tsv").write_text("index\tsentence\n7\tgood films\n")
    return root


def test_glues_own_files_become_parquet(tmp_path, biased_lm):
    task = get_task("sst2")
    augment(str(tsv_data(tmp_path / "tsv")), task=task, output=tmp_path / "out", settings=FEW, masked_lm=str(biased_lm))
    assert len(load_split(str(tmp_path / "out"), task, "train")) == 4
    for split in ("validation", "test"):
        there = [load_split(str(tmp_path / name), task, split, labelled=False).to_list() for name in ("tsv", "out")]
        assert there[0] == there[1]


# --- bad input


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"copies": 0}, "--copies must be at least 1 and at most 10,000, got 0"),
        ({"probability": 0}, "--probability must be .*, got 0"),
        ({"probability": 1.1}, "--probability must be .*, got 1.1"),
        ({"candidates": 0}, "--candidates must be at least 1 and at most 10,000, got 0"),
        ({"seed": -1}, "--seed must be .*, got -1"),
    ],
)
def test_settings_are_checked(fields, words):
    with pytest.raises(InvalidInput, match=words):
        AugmentSettings(**fields)


def test_sources_are_checked(tmp_path, small_data, classifier_dir, encoder_dir, biased_lm):
    (tmp_path / "vectors.txt").write_text("Ουγγαρία 0.1 0.2\nΡώμη 0.2 0.1\n", encoding="utf-8")
    for sources, words in (
        ({}, "--masked-lm, --word-vectors or both, got neither"),
        ({"masked_lm": str(tmp_path / "none")}, "--masked-lm .* got .*none"),
        ({"masked_lm": str(classifier_dir)}, "--masked-lm must be a model with a masked-LM head, got .*without it"),
        ({"masked_lm": str(encoder_dir)}, "--masked-lm must be a model with a masked-LM head, got .*without it"),
        ({"word_vectors": tmp_path / "none.txt"}, "--word-vectors must be a file .* got .*none.txt"),
        ({"word_vectors": tmp_path / "vectors.txt"}, "candidates for some of the words, got none for the [0-9]+ words"),
    ):
        with pytest.raises(InvalidInput, match=words):
            augment(str(small_data), task=get_task("sst2"), output=tmp_path / "out", settings=FEW, **sources)
    with pytest.raises(InvalidInput, match="ax has the splits test, got train"):
        augment(str(small_data), task=get_task("ax"), output=tmp_path / "out", settings=FEW, masked_lm=str(biased_lm))
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.txt"]


def test_a_model_without_a_masked_lm_is_refused(tmp_path):
    from transformers import GPT2Config

    GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="--masked-lm .* got .*the architecture gpt2"):
        MaskedLmCandidates(tmp_path)


def test_the_verb(tmp_path, biased_lm, glove):
    from hf_albert_plus.cli.distil import augment as verb

    app = typer.Typer()
    app.command()(verb)
    words = ["--data", tsv_data(tmp_path / "tsv"), "--task", "sst2", "--masked-lm", biased_lm, "--word-vectors", glove, "--copies", 2,
             "--probability", 1, "--candidates", 3, "--out", tmp_path / "out", "--json"]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["result"] == {
        "rows": 1, "copies": 2, "words": 5, "words_with_candidates": 0.8, "words_replaced": 0.8,
    }  # fmt: skip
    rows = load_split(str(tmp_path / "out"), get_task("sst2"), "train").to_list()
    ranked = [word for word in RANKING if word in WholeWords(wordpiece()).words.values()]
    for row in rows[1:]:
        for word, other in zip(["the", "film", "was", "good"], row["sentence"].split(), strict=False):
            assert other in [candidate for candidate in ranked if candidate != word][:3]
