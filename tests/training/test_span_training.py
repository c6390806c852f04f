"""Fine-tuning on spans: what is learned and scored against transformers' own model and a search over everything, and starts that are refused."""

import json
import shutil
from collections import Counter

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_answers import AnswerSpan
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.scoring import score_engine, score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.training.adoption import adopt
from hf_albert_plus.training.answer_limits import best_threshold
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.questions import asked_questions, write_rows
from tests.support.small_models import make_encoder, small_config

SETTINGS = TrainSettings(epochs=8, batch_size=8, learning_rate=2e-3, max_length=40, precision="fp32")
HELD = asked_questions(24, seed=1, events=3, without=0.3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("asked")
    write_rows(directory / "train.jsonl", asked_questions(96, events=3, without=0.3))
    write_rows(directory / "validation.jsonl", HELD)
    return directory


@pytest.fixture(scope="module")
def encoder(tokenizer_dir, tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder"), tokenizer_dir)


@pytest.fixture(scope="module")
def answerer(data, encoder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("answerer") / "model"
    finetune(str(encoder), data=str(data), task=find_task(str(data)), output=directory, settings=SETTINGS)
    return directory


def best_of_everything(model, tokenizer, row, *, longest):
    """The best span over all windows, span by span, and the margin of no answer. Neighbours share half, and the last one ends with the context."""
    encoded = tokenizer(row["question"], row["context"], return_offsets_mapping=True)
    ids, offsets, sequences = encoded["input_ids"], encoded["offset_mapping"], encoded.sequence_ids()
    before, count = sequences.index(1), sequences.count(1)
    room = SETTINGS.max_length - (len(ids) - count)
    starts = {min(start, max(0, count - room)) for start in range(0, count, room - room // 2)}
    spans, nothing = [], []
    for begin in starts:
        window = range(before + begin, before + min(begin + room, count))
        with torch.no_grad():
            output = model(
                input_ids=torch.tensor([ids[:before] + [ids[place] for place in window] + ids[before + count :]])
            )
        start, end = output.start_logits[0].tolist(), output.end_logits[0].tolist()
        nothing.append(start[0] + end[0])
        for one, first in enumerate(window):
            for other, last in enumerate(window):
                if one <= other < one + longest:
                    spans.append((start[before + one] + end[before + other], offsets[first][0], offsets[last][1]))
    return max(spans), min(nothing)


def words_of(text):
    """A text as SQuAD compares it, of words that have no punctuation within."""
    return [word for word in text.lower().split() if word not in ("a", "an", "the") and any(map(str.isalnum, word))]


def f1_by_hand(said, right):
    said, right = words_of(said), words_of(right)
    common = sum((Counter(said) & Counter(right)).values())
    if not said or not right:
        return float(said == right)
    return 0.0 if not common else 2 / (len(said) / common + len(right) / common)


@pytest.mark.slow
def test_a_model_is_scored_as_a_search_over_everything_says(data, answerer):
    task = find_task(str(data))
    model, tokenizer = (each.from_pretrained(answerer) for each in (AutoModelForQuestionAnswering, AutoTokenizer))
    model.eval()
    limits = json.loads((answerer / "config.json").read_text())
    said, margins = [], []
    for row in HELD:
        (best, start, end), nothing = best_of_everything(model, tokenizer, row, longest=limits["longest_answer"])
        margins.append(nothing - best)
        said.append(row["context"][start:end] if nothing - best <= limits["no_answer_threshold"] else "")
    scores = score_targets([parse_target(str(answerer))], data=str(data), task=task, settings=EvalSettings(max_length=SETTINGS.max_length))  # fmt: skip
    (run,) = scores.rows[0].runs
    assert run.predictions == said
    right = [(row["answers"]["text"] or [""])[0] for row in HELD]
    assert scores.references[scores.rows[0].task] == [row["answers"]["text"] for row in HELD]
    f1 = [f1_by_hand(*pair) for pair in zip(said, right, strict=True)]
    matches = [words_of(one) == words_of(other) for one, other in zip(said, right, strict=True)]
    answered = [bool(text) for text in right]
    expected = {
        "answer_f1": 100 * sum(f1) / len(f1),
        "exact_match": 100 * sum(matches) / len(f1),
        "answered_f1": 100 * sum(value for value, has in zip(f1, answered, strict=True) if has) / sum(answered),
        "answered_exact_match": 100 * sum(one for one, has in zip(matches, answered, strict=True) if has) / sum(answered),
        "no_answer_accuracy": 100 * sum(one for one, has in zip(matches, answered, strict=True) if not has) / answered.count(False),
    }  # fmt: skip
    assert run.metrics == pytest.approx(expected)
    assert run.metrics["answer_f1"] > 30
    assert len({round(margin, 3) for margin in margins}) > 10
    low, high = scores.rows[0].intervals["answer_f1"]
    assert low < expected["answer_f1"] < high
    engine = Engine.load(answerer)
    score = score_engine(engine, data=str(data), task=task, max_length=SETTINGS.max_length)
    assert score == pytest.approx(expected["answer_f1"])


def test_the_record_says_what_was_in_the_data(answerer):
    facts = json.loads((answerer / "record.json").read_text())["result"]["data"]
    assert facts["without_answer"] == sum(
        not row["answers"]["text"] for row in asked_questions(96, events=3, without=0.3)
    )
    assert facts["windows"][0] > 1
    assert facts["lost_answers"] == 0


@pytest.mark.slow
def test_a_trained_model_learns_on(data, answerer, tmp_path):
    quick = TrainSettings(epochs=0.1, batch_size=8, learning_rate=1e-9, max_length=40, precision="fp32")
    finetune(
        str(answerer),
        data=str(data),
        task=find_task(str(data)),
        output=tmp_path / "on",
        settings=quick,
        no_answer_threshold=-3.5,
    )
    one, other = (AutoModelForQuestionAnswering.from_pretrained(path) for path in (answerer, tmp_path / "on"))
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, atol=1e-6, rtol=0)
    assert other.config.no_answer_threshold == -3.5
    assert other.config.longest_answer == one.config.longest_answer == 30


@pytest.fixture
def foreign(answerer, tmp_path):
    """The same model as one that was trained elsewhere: without a threshold in its config."""
    directory = tmp_path / "foreign"
    shutil.copytree(answerer, directory)
    config = json.loads((directory / "config.json").read_text())
    del config["no_answer_threshold"], config["longest_answer"]
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "record.json").unlink()
    return str(directory)


def test_a_model_that_was_trained_elsewhere_may_find_no_answer(data, answerer, foreign, tmp_path):
    task = find_task(str(data))
    (row,) = score_targets([parse_target(foreign)], data=str(data), task=task, settings=EvalSettings(max_length=40)).rows  # fmt: skip
    assert row.metrics["no_answer_accuracy"] > 0
    record = adopt(foreign, data=str(data), task=task, output=tmp_path / "teacher", max_length=40)
    found, trained = (json.loads((each / "config.json").read_text()) for each in (tmp_path / "teacher", answerer))
    assert found["no_answer_threshold"] == pytest.approx(trained["no_answer_threshold"], abs=1e-3)
    assert set(record.parents) == {"model", "data"}
    kept = adopt(str(answerer), data=str(data), task=task, output=tmp_path / "kept", max_length=40)
    assert json.loads((tmp_path / "kept" / "config.json").read_text())["no_answer_threshold"] == trained["no_answer_threshold"]  # fmt: skip
    assert set(kept.parents) == {"model"}


def span(text, margin):
    return AnswerSpan(text, 0, len(text), 0.5, 0.5, margin)


def test_the_threshold_is_the_best_of_all():
    spans = [span("a b", -4.0), span("c", -2.0), span("d", 1.0), span("e f", 2.0), span("g", 3.0)]
    right = [["a b"], [], ["d"], ["e"], []]

    def total(threshold):
        return sum(
            f1_by_hand(one.text if one.margin <= threshold else "", (texts or [""])[0])
            for one, texts in zip(spans, right, strict=True)
        )

    # "a" is an article: of "a b" counts "b".
    found = best_threshold(spans, right)
    assert total(found) == max(total(step / 10) for step in range(-60, 60))
    assert 2.0 <= found < 3.0
    assert best_threshold([span("c", 1.0)], [[]]) == 0.0
    assert best_threshold([span("c", 1.0)], [["c"]]) > 1.0
    assert best_threshold([span("c", -1.0)], [[]]) < -1.0


def test_what_cannot_start_is_refused(data, encoder, tokenizer_dir, tmp_path):
    task = find_task(str(data))
    AlbertPlusForSequenceClassification(small_config(num_labels=2)).save_pretrained(tmp_path / "texts")
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(tmp_path / "texts")
    rest = {"data": str(data), "task": task, "output": tmp_path / "out", "settings": SETTINGS}
    with pytest.raises(InvalidInput, match="answers questions by spans of their contexts, got AlbertPlusForSequenceC"):
        finetune(str(tmp_path / "texts"), **rest)
    with pytest.raises(InvalidInput, match="which has a span of its context for each question"):
        finetune(str(encoder), pooling="mean", **rest)
    with pytest.raises(InvalidInput, match="must be a finite number, got nan"):
        finetune(str(encoder), no_answer_threshold=float("nan"), **rest)
    with pytest.raises(InvalidInput, match="a target must be a model of spans"):
        score_targets([parse_target(str(tmp_path / "texts"))], data=str(data), task=task)
    assert not (tmp_path / "out").exists()


def test_a_threshold_is_refused_where_every_question_has_an_answer(encoder, tmp_path):
    data = str(write_rows(tmp_path / "my.jsonl", asked_questions(30)))
    with pytest.raises(InvalidInput, match="--no-answer-threshold is for questions of which some have no answer"):
        finetune(
            str(encoder),
            data=data,
            task=find_task(data),
            output=tmp_path / "out",
            settings=SETTINGS,
            no_answer_threshold=0.0,
        )
