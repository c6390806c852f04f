"""Models of spans through the verbs that make models smaller, and the verbs that do not take them and say so."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from hf_albert_plus.batch_scoring.distribution import WorkerPool
from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.batch_scoring.stage import score
from hf_albert_plus.calibration.stage import calibrate_scores
from hf_albert_plus.cli.settings import RunSettings
from hf_albert_plus.compression.exits.stage import calibrate_exits
from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import CalibrateSettings, PruneSettings, QatSettings, SparsifySettings
from hf_albert_plus.compression.sparsity import sparsify
from hf_albert_plus.compression.trimming import trim
from hf_albert_plus.distillation.augmentation.stage import augment
from hf_albert_plus.distillation.settings import AugmentSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.floor.stage import floor
from hf_albert_plus.search.settings import CompressSettings
from hf_albert_plus.search.stage import search
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.task_file import write_task
from tests.support.questions import asked_questions, make_answerer, write_rows

QUICK = {"epochs": 0.3, "batch_size": 8, "learning_rate": 1e-3, "max_length": 40, "precision": "fp32"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_rows(tmp_path_factory.mktemp("asked") / "my.jsonl", asked_questions(40, without=0.2)))


@pytest.fixture(scope="module")
def task(data):
    return find_task(data)


@pytest.fixture(scope="module")
def answerer(task, tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("answerer")
    make_answerer(directory, tokenizer_dir, no_answer_threshold=1.0, longest_answer=6)
    write_task(directory, task, max_length=40)
    return str(directory)


def opened(directory):
    return AutoModelForQuestionAnswering.from_pretrained(directory).eval()


def test_a_model_is_trimmed_to_the_pieces_of_its_texts(data, task, answerer, tmp_path):
    record = trim(answerer, data=data, task=task, output=tmp_path / "out")
    assert record.result["pieces"] < record.result["pieces_before"]
    smaller, tokenizer = opened(tmp_path / "out"), AutoTokenizer.from_pretrained(tmp_path / "out")
    row = asked_questions(1)[0]
    with torch.no_grad():
        found = smaller(**tokenizer(row["question"], row["context"], return_tensors="pt"))
        expected = opened(answerer)(
            **AutoTokenizer.from_pretrained(answerer)(row["question"], row["context"], return_tensors="pt")
        )
    torch.testing.assert_close(found.start_logits, expected.start_logits)
    assert smaller.config.no_answer_threshold == 1.0


@pytest.mark.slow
def test_a_model_becomes_sparse(data, task, answerer, tmp_path):
    record = sparsify(answerer, data=data, task=task, output=tmp_path / "sparse", settings=SparsifySettings(**QUICK))
    assert record.result["steps"] > 0
    assert opened(tmp_path / "sparse").config.longest_answer == 30


def test_verbs_that_do_not_take_spans_say_so(data, task, answerer, tmp_path):
    calls = {
        "compress": lambda out: search(answerer, data=data, task=task, out=out, settings=CompressSettings()),
        "augment": lambda out: augment(data, task=task, output=out, settings=AugmentSettings(), word_vectors=Path(answerer)),
        "floor": lambda out: floor(data=data, task=task, output=out),
        "calibrate": lambda out: calibrate_exits(answerer, data=data, task=task, output=out, settings=CalibrateSettings(), score=lambda *_: 0.0),
        "prune": lambda out: prune(answerer, data=data, task=task, output=out, settings=PruneSettings(heads=0.25, **QUICK)),
        "qat": lambda out: qat(answerer, data=data, task=task, output=out, settings=QatSettings(**QUICK)),
        "calibrate-scores": lambda out: calibrate_scores(Path(answerer), data=data, task=task, output=out),
    }  # fmt: skip
    for verb, call in calls.items():
        with pytest.raises(
            InvalidInput, match=f"^{verb} is for tasks .*, got my, which has a span of its context for each question; "
        ):
            call(tmp_path / verb)
        assert not (tmp_path / verb).exists()
    with pytest.raises(InvalidInput, match="; export the model as it is: exits are of classifiers of texts"):
        calls["calibrate"](tmp_path / "exits")
    assert not RunSettings().has_floor(task)


def test_a_model_of_spans_is_not_pruned_for_labels(answerer, tmp_path):
    (tmp_path / "my.csv").write_text("text,label\n" + "".join(f"film {i},{i % 2}\n" for i in range(20)))
    settings = PruneSettings(heads=0.25, **QUICK)
    with pytest.raises(InvalidInput, match="with the 2 labels of my, got .*, of AlbertPlusForQuestionAnswering, with"):
        prune(answerer, data=str(tmp_path / "my.csv"), task=find_task(str(tmp_path / "my.csv")), output=tmp_path / "out", settings=settings)  # fmt: skip


def test_files_of_texts_are_not_asked(answerer, tmp_path):
    (tmp_path / "lines.txt").write_text("who ?\n")
    with pytest.raises(InvalidInput, match="score is for classifiers of texts and of words, got a model of spans"):
        score(
            [str(tmp_path / "lines.txt")],
            engine=Path(answerer),
            output=tmp_path / "out",
            settings=ScoreSettings(),
            pool=WorkerPool(),
        )
