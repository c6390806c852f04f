"""Taggers through the verbs that make models smaller or mend them."""

from pathlib import Path

import numpy
import pytest
import torch
from sklearn.metrics import log_loss
from transformers import AutoModelForTokenClassification, AutoTokenizer

from hf_albert_plus.calibration.settings import CalibrateScoresSettings
from hf_albert_plus.calibration.stage import calibrate_scores
from hf_albert_plus.compression.depth import least_missed
from hf_albert_plus.compression.exits.stage import calibrate_exits
from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import CalibrateSettings, PruneSettings, QatSettings, SparsifySettings
from hf_albert_plus.compression.sparsity import sparsify
from hf_albert_plus.compression.trimming import trim
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.task_file import read_task
from hf_albert_plus.training.collators import collator_of, counted_labels
from hf_albert_plus.training.finetuning import task_rows
from hf_albert_plus.training.row_logits import row_logits
from tests.support.tagged import tagged_sentences, write_tagged
from tests.support.taggers import make_model_of

QUICK = {"epochs": 0.3, "batch_size": 8, "learning_rate": 1e-3, "max_length": 24, "precision": "fp32"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_tagged(tmp_path_factory.mktemp("tagged") / "my.jsonl", tagged_sentences(60)))


@pytest.fixture(scope="module")
def task(data):
    return find_task(data)


@pytest.fixture(scope="module")
def tagger(task, tokenizer_dir, tmp_path_factory):
    return str(make_model_of(task, tmp_path_factory.mktemp("tagger"), tokenizer_dir))


def opened(directory):
    return AutoModelForTokenClassification.from_pretrained(directory).eval()


@pytest.mark.slow
@pytest.mark.parametrize("importance", ["taylor", "movement"])
def test_a_pruned_tagger_is_a_tagger(data, task, tagger, tmp_path, importance):
    settings = PruneSettings(heads=0.25, columns=0.5, multiple_of=8, importance=importance, examples=32, **QUICK)
    prune(tagger, data=data, task=task, output=tmp_path / "out", settings=settings)
    assert opened(tmp_path / "out").num_parameters() < opened(tagger).num_parameters()
    assert read_task(tmp_path / "out").tag_scheme == "IOB2"


def test_the_layer_that_words_miss_least_goes(data, task, tagger):
    """What is said at padding does not count: padded further, the same layers stay."""
    tokenizer, rows = task_rows(tagger, opened(tagger).config, data=data, task=task, max_length=24)
    batch = dict(collator_of(task, tokenizer)(rows.select(range(8)).to_list()))
    batch.pop("labels")
    further = {name: torch.nn.functional.pad(tensor, (0, 20), value=tokenizer.pad_token_id if name == "input_ids" else 0) for name, tensor in batch.items()}  # fmt: skip
    assert least_missed(opened(tagger), [batch], keep=2) == least_missed(opened(tagger), [further], keep=2)


def test_a_tagger_is_trimmed_to_the_pieces_of_its_texts(data, task, tagger, tmp_path):
    record = trim(tagger, data=data, task=task, output=tmp_path / "out")
    assert record.result["pieces"] < record.result["pieces_before"]
    smaller, tokenizer = opened(tmp_path / "out"), AutoTokenizer.from_pretrained(tmp_path / "out")
    text = " ".join(tagged_sentences(1)[0][0])
    with torch.no_grad():
        found = smaller(**tokenizer(text, return_tensors="pt")).logits
        expected = opened(tagger)(**AutoTokenizer.from_pretrained(tagger)(text, return_tensors="pt")).logits
    torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_a_tagger_becomes_sparse_and_learns_few_bits(data, task, tagger, tmp_path):
    sparsify(tagger, data=data, task=task, output=tmp_path / "sparse", settings=SparsifySettings(**QUICK))
    record = qat(tagger, data=data, task=task, output=tmp_path / "bits", settings=QatSettings(**QUICK))
    assert record.result["steps"] > 0
    assert (tmp_path / "bits" / "quantisation.json").is_file()
    for name in ("sparse", "bits"):
        assert opened(tmp_path / name).num_labels == task.num_labels


def test_a_temperature_makes_the_tags_of_words_probable(data, task, tagger, tmp_path):
    """The loss that scikit-learn has of the words' tags, before and after, of a tagger that is far too sure."""
    sure = opened(tagger)
    with torch.no_grad():
        sure.classifier.weight.mul_(10)
    sure.save_pretrained(tmp_path / "sure")
    AutoTokenizer.from_pretrained(tagger).save_pretrained(tmp_path / "sure")
    settings = CalibrateScoresSettings(max_length=24, split="train")
    record = calibrate_scores(tmp_path / "sure", data=data, task=task, output=tmp_path / "out", settings=settings)
    losses = []
    for directory in (tmp_path / "sure", tmp_path / "out"):
        model = opened(directory)
        tokenizer, rows = task_rows(directory, model.config, data=data, task=task, max_length=24)
        logits = row_logits(model, rows.to_list(), collator_of(task, tokenizer)).double()
        tags = counted_labels(rows["labels"][:], task)
        assert len(tags) == len(logits) == record.result["rows"]
        losses.append(log_loss(tags, logits.softmax(dim=-1).numpy(), labels=range(task.num_labels)))
    assert losses[1] < losses[0] - 0.05


def test_the_logits_of_words_are_those_of_their_first_pieces(data, task, tagger):
    model = opened(tagger)
    tokenizer, rows = task_rows(tagger, model.config, data=data, task=task, max_length=24)
    found = row_logits(model, rows.to_list(), collator_of(task, tokenizer))
    expected = []
    for row in rows:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0]
        expected += [logits[piece] for piece in row["first_pieces"] if piece >= 0]
    numpy.testing.assert_allclose(found, torch.stack(expected), atol=1e-4)


def test_traffic_is_of_the_words_with_blanks_between(data, task):
    words = Traffic(data, task).rows[0]["tokens"]
    assert Traffic(data, task).text(0) == " ".join(words)


def test_thresholds_of_exits_are_of_texts(data, task, tagger, tmp_path):
    with pytest.raises(
        InvalidInput, match="^calibrate is for tasks with an answer to each text, got my, which has a tag"
    ):
        calibrate_exits(
            Path(tagger),
            data=data,
            task=task,
            output=tmp_path / "out",
            settings=CalibrateSettings(),
            score=lambda *_: 0.0,
        )
    assert not (tmp_path / "out").exists()
