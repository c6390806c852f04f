"""Where words that may stand for others come from."""

from pathlib import Path

import numpy
import pytest
from transformers import AutoTokenizer

from tests.distillation.masked_lms import RANKING, save_biased_lm, save_masked_lm, wordpiece


@pytest.fixture(scope="module")
def biased_lm(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("biased")
    save_biased_lm(directory, wordpiece(), RANKING)
    return directory


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory, tokenizer_dir) -> Path:
    """At random weights, with the vocabulary of the demo's data."""
    directory = tmp_path_factory.mktemp("masked")
    save_masked_lm(directory, AutoTokenizer.from_pretrained(tokenizer_dir))
    return directory


@pytest.fixture(scope="module")
def glove(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("glove") / "vectors.txt"
    random = numpy.random.default_rng(0)
    words = ["films", "Films", "movies", "stories", ",", "'s", "Rome", "rome", "goodness", "--", "1999", *(f"word{i}" for i in range(40))]  # fmt: skip
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in random.normal(size=8))}" for word in words]
    lines.append(". . . " + " ".join(["0.5"] * 8))  # as in GloVe's 840B file
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
