"""A corpus opens whole, or is refused with what is wrong and how to make it again."""

import shutil
from itertools import product

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.pretraining_step import bench_pretraining
from hf_albert_plus.text.corpus import longest_example, open_corpus
from tests.support.small_models import SMALL

NO_OBJECTS = ["[]", "5", "", "{", "\x00", "[" * 100_000 + "]" * 100_000]
OTHER_OBJECTS = ["{}", '{"splits": 5}', '{"_data_files": [{}]}']


@pytest.fixture
def copied(corpus, tmp_path):
    return shutil.copytree(corpus, tmp_path / "corpus")


def test_it_opens(corpus):
    splits, tokenizer = open_corpus(corpus)
    assert {name: len(rows) > 0 for name, rows in splits.items()} == {"train": True, "validation": True}
    longest = max(len(row["input_ids"]) for rows in splits.values() for row in rows)
    assert longest_example(splits, positions=longest) == longest
    assert len(tokenizer) > 100


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *product(("train/state.json", "validation/state.json", "dataset_dict.json"), (*NO_OBJECTS, *OTHER_OBJECTS)),
        *product(("train/dataset_info.json",), NO_OBJECTS),  # datasets needs nothing of this one
    ],
    ids=lambda given: given[:20],
)
def test_an_index_of_another_shape(copied, name, content):
    (copied / name).write_text(content)
    with pytest.raises(
        InvalidInput, match=r"--corpus must .*corpus.*; build the corpus again: albert-plus corpus build"
    ):
        open_corpus(copied)


def test_examples_that_are_none(copied):
    (shard,) = sorted((copied / "train").glob("*.arrow"))
    for content in (b"", b"garbage", shard.read_bytes()[:200]):
        shard.write_bytes(content)
        with pytest.raises(InvalidInput, match="--corpus must hold what corpus build made, got .*corpus .*; build"):
            open_corpus(copied)


def test_a_split_is_missing(copied):
    (copied / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(InvalidInput, match="--corpus must have the splits train and validation"):
        open_corpus(copied)


def test_a_tokenizer_that_lost_its_specials(copied):
    """As where the file that names them is a link to nothing."""
    (copied / "tokenizer" / "tokenizer_config.json").unlink()
    with pytest.raises(
        InvalidInput, match=r"--corpus must hold a tokenizer with first.*, got .*tokenizer without .*; build the corpus"
    ):
        open_corpus(copied)


def test_examples_longer_than_the_model(corpus):
    splits, _ = open_corpus(corpus)
    with pytest.raises(InvalidInput, match=r"at most max_position_embeddings \(1\) tokens, got \d+; use --set max_pos"):
        longest_example(splits, positions=1)
    fields = {**SMALL, "max_position_embeddings": 1, "attention_sharing": "all", "ffn_sharing": "all"}
    del fields["vocab_size"]
    with pytest.raises(InvalidInput, match=r"at most max_position_embeddings \(1\) tokens"):
        bench_pretraining(corpus, fields=fields, batch_size=1, bf16=False, seconds=0.01, threads=1)
