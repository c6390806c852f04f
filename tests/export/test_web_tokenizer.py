"""The tokenizer of a folder for transformers.js gives Python's token ids in both: in Python whatever was changed, and in Node."""

import json
import sys
import unicodedata
from random import Random

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from hf_albert_plus.demo.data import pretraining_pair
from hf_albert_plus.engines.artefacts import ARTEFACTS
from hf_albert_plus.export.web_folder import write_web_folder
from hf_albert_plus.heads import albert_plus_class
from hf_albert_plus.text.vocabularies import train_unigram
from tests.support.javascript import in_node, needs_node
from tests.support.small_models import small_config
from tests.support.worldly import worldly

# Of Unicode 3.2, which every library knows: of characters that came later each has its own idea.
ASSIGNED = [
    chr(code) for code in range(sys.maxunicode + 1) if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs", "Co")
]  # fmt: skip
# Control characters, spaces and what only formats; and one in so many of the others.
STRANGE = [each for each in ASSIGNED if unicodedata.ucd_3_2_0.category(each)[0] in "CZ"] + ASSIGNED[::16]
LINES = [" ".join(pretraining_pair(drawn)) for drawn in [Random(7)] for _ in range(500)]
TEXTS = [
    *(f"ab{each}cd" for each in STRANGE), *(f"a {each} b{each}" for each in STRANGE), *worldly(LINES, seed=1), "ΟΔΟΣ ΟΔΟΣ", "x𠀀𠮷y", "", " \u0085 ",
]  # fmt: skip


@pytest.fixture(scope="module", params=["wordpiece", "cased", "unigram"])
def tokenizer(request, tokenizer_dir, tmp_path_factory):
    """BERT's kind, one that keeps case and accents, and ALBERT's."""
    if request.param == "unigram":
        made, _ = train_unigram(LINES, vocab_size=320, sample=10**6, seed=0)
        return made
    made = AutoTokenizer.from_pretrained(tokenizer_dir)
    if request.param == "wordpiece":
        return made
    folder = tmp_path_factory.mktemp("cased")
    made.save_pretrained(folder)
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    content["normalizer"] |= {"lowercase": False, "strip_accents": False}
    vocabulary = content["model"]["vocab"]
    vocabulary |= {letter: len(vocabulary) + number for number, letter in enumerate("ΣσΟΔ")}
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def written(tokenizer, tmp_path_factory):
    """The folder, with a few bytes for its graph."""
    folder, artefact = tmp_path_factory.mktemp("export"), ARTEFACTS["onnx"]
    (folder / artefact.file).parent.mkdir()
    (folder / artefact.file).write_bytes(b"a graph")
    model = albert_plus_class("Model")(small_config(vocab_size=len(tokenizer), num_hidden_layers=1))
    model.config.architectures = [type(model).__name__]
    write_web_folder(folder, model, tokenizer, artefacts=[artefact])
    return folder / "web"


@pytest.mark.slow
def test_python_has_the_same_ids_from_it(tokenizer, written):
    plain = Tokenizer.from_file(str(written / "tokenizer.json"))
    assert [each.ids for each in plain.encode_batch(TEXTS)] == tokenizer(TEXTS)["input_ids"]


@pytest.mark.slow
@needs_node
def test_node_has_the_same_ids(tokenizer, written):
    (found,) = in_node([{"model": "web", "ids": True, "texts": TEXTS}], {"web": str(written)})
    expected = tokenizer(TEXTS)["input_ids"]
    assert {text: ids for text, ids, own in zip(TEXTS, found, expected, strict=True) if ids != own} == {}
