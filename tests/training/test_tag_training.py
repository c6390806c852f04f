"""Fine-tuning on tags: what is learned and scored, against transformers' own alignment and seqeval, and starts that are refused."""

import json
from dataclasses import replace

import numpy
import pytest
import seqeval.metrics
import torch
from seqeval.scheme import IOB2
from transformers import AutoModelForTokenClassification, AutoTokenizer, BertConfig, BertForTokenClassification

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.scoring import score_engine, score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.long_texts import LongTexts
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.new_heads import start_at_priors
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.small_models import make_encoder, small_config
from tests.support.tagged import tagged_sentences, write_tagged

SETTINGS = TrainSettings(epochs=6, batch_size=8, learning_rate=2e-3, max_length=24, precision="fp32")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tagged")
    write_tagged(directory / "train.jsonl", tagged_sentences(96))
    write_tagged(directory / "validation.jsonl", tagged_sentences(24, seed=1))
    return directory


@pytest.fixture(scope="module")
def encoder(tokenizer_dir, tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder"), tokenizer_dir)


@pytest.fixture(scope="module")
def tagger(data, encoder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tagger") / "model"
    task = find_task(str(data))
    finetune(str(encoder), data=str(data), task=task, output=directory, settings=SETTINGS)
    return directory


@pytest.mark.slow
def test_a_tagger_is_scored_as_transformers_and_seqeval_have_it(data, tagger):
    task = find_task(str(data))
    model, tokenizer = AutoModelForTokenClassification.from_pretrained(tagger), AutoTokenizer.from_pretrained(tagger)
    assert [model.config.id2label[number] for number in range(model.num_labels)] == list(task.labels)
    said, held = [], []
    for words, tags in tagged_sentences(24, seed=1):
        encoded = tokenizer(
            words, is_split_into_words=True, truncation=True, max_length=SETTINGS.max_length, return_tensors="pt"
        )
        with torch.no_grad():
            best = model.eval()(**encoded).logits[0].argmax(dim=-1).tolist()
        word_ids = encoded.word_ids()
        seen = {
            word: model.config.id2label[best[word_ids.index(word)]] for word in range(len(words)) if word in word_ids
        }
        said.append([seen.get(word, "O") for word in range(len(words))])
        held.append(tags)
    expected = 100 * seqeval.metrics.f1_score(held, said, mode="strict", scheme=IOB2)
    assert expected > 20
    scores = score_targets([parse_target(str(tagger))], data=str(data), task=task, settings=EvalSettings(max_length=SETTINGS.max_length))  # fmt: skip
    (run,) = scores.rows[0].runs
    assert [[task.labels[tag] for tag in row] for row in run.predictions] == said
    assert run.metrics["entity_f1"] == pytest.approx(expected)
    (pace,) = run.throughput
    assert pace.words_per_s == pytest.approx(sum(map(len, held)) / run.seconds, rel=0.5 / 1e3 / run.seconds + 0.01)
    assert pace.words_per_s > pace.sentences_per_s > 0
    assert score_engine(
        Engine.load(tagger), data=str(data), task=task, max_length=SETTINGS.max_length
    ) == pytest.approx(expected)
    assert sum(each.answers for each in run.reliability.bins) == sum(map(len, held))


def test_the_table_has_words_a_second(data, tagger):
    said = invoke("eval", tagger, "--data", data, "--batching", "length:512", "--batching", "file:8").output
    columns = ("sentences/s length:512", "sentences/s file:8", "words/s length:512", "words/s file:8")
    assert [len(said.split(column)) for column in columns] == [2, 2, 2, 2]


def test_the_record_says_what_was_in_the_data(tagger):
    facts = json.loads((tagger / "record.json").read_text())["result"]["data"]
    sentences = tagged_sentences(96)
    assert facts["words"][1] == max(len(words) for words, _ in sentences)
    assert facts["classes"]["O"] == sum(tags.count("O") for _, tags in sentences)


@pytest.mark.slow
def test_words_that_are_not_read_are_counted_aloud(encoder, tmp_path, capfd):
    """In training and in scoring, where `--max-length` cuts them and where a row has more windows than are read; not where all are read."""
    words, tags = tagged_sentences(1)[0]
    long = (words * 60, tags * 60)
    for name, rows in (("train", [long, *tagged_sentences(30)]), ("validation", [long])):
        (tmp_path / "my").mkdir(exist_ok=True)
        write_tagged(tmp_path / "my" / f"{name}.jsonl", rows)
    data, task = str(tmp_path / "my"), find_task(str(tmp_path / "my"))
    settings = replace(SETTINGS, epochs=0.1, max_length=10)
    said = {}
    for way, size in (("cut", 10), ("windows", 10), ("windows", 24)):
        chosen, directory = replace(task, long=LongTexts(way)), tmp_path / f"{way}-{size}"
        finetune(str(encoder), data=data, task=chosen, output=directory, settings=replace(settings, max_length=size))
        facts = json.loads((directory / "record.json").read_text())["result"]["data"]
        said[way, size] = facts["cut_words"], capfd.readouterr().err
        score_targets([parse_target(str(directory))], data=data, task=chosen, settings=EvalSettings(max_length=size))
        said[way, size] += (capfd.readouterr().err,)
    share, trained, scored = said["cut", 10]
    assert share > 0.5
    assert (
        f"words should be read to have a tag of their own, got {100 * share:.2f} % that are not with --max-length 10: raise it"
        in trained
    )
    assert "that are not with --max-length 10: raise it" in scored
    share, trained, scored = said["windows", 10]
    assert 0 < share < 0.5
    for text in (trained, scored):
        assert "cut rows into several, as a row has 64 windows at most" in text
        assert "a text should have fewer than 64 windows of 10 tokens, got one with as many or more" in text
    assert f"got {100 * share:.2f} % that are not" in trained
    share, trained, scored = said["windows", 24]
    assert share == 0
    assert "look at this: words" not in trained + scored
    assert "fewer than 64 windows" not in trained + scored


@pytest.mark.slow
def test_a_trained_tagger_learns_on(data, tagger, tmp_path):
    task = find_task(str(data))
    finetune(str(tagger), data=str(data), task=task, output=tmp_path / "on", settings=TrainSettings(epochs=0.1, batch_size=8, learning_rate=1e-9, max_length=24, precision="fp32"))  # fmt: skip
    one, other = (
        AutoModelForTokenClassification.from_pretrained(path).state_dict() for path in (tagger, tmp_path / "on")
    )
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, atol=1e-6, rtol=0)


def test_a_head_of_tags_starts_at_their_shares_of_the_words(data, tokenizer_dir):
    task = find_task(str(data))
    model = BertForTokenClassification(BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=task.num_labels))  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    rows = encode(load_split(str(data), task, "train"), task, tokenizer, max_length=64)
    start_at_priors(model, rows["labels"][:], task)
    tags = [tag for _, tags in tagged_sentences(96) for tag in tags]
    shares = numpy.array([tags.count(name) / len(tags) for name in task.labels])
    numpy.testing.assert_allclose(model.classifier.bias.softmax(dim=0).detach().numpy(), shares, rtol=1e-5)


def test_what_cannot_start_a_tagger_is_refused(data, encoder, tokenizer_dir, tmp_path):
    task = find_task(str(data))
    texts = AlbertPlusForSequenceClassification(small_config(num_labels=task.num_labels))
    texts.save_pretrained(tmp_path / "texts")
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(tmp_path / "texts")
    with pytest.raises(
        InvalidInput, match="a model that gives each word a label, got AlbertPlusForSequenceClassification"
    ):
        finetune(str(tmp_path / "texts"), data=str(data), task=task, output=tmp_path / "out", settings=SETTINGS)
    with pytest.raises(InvalidInput, match="--pooling says what of a text one answer is read by"):
        finetune(str(encoder), data=str(data), task=task, output=tmp_path / "out", settings=SETTINGS, pooling="mean")
    assert not (tmp_path / "out").exists()


def test_a_classifier_of_texts_is_no_target(data, tokenizer_dir, tmp_path):
    task = find_task(str(data))
    AlbertPlusForSequenceClassification(small_config(num_labels=task.num_labels)).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="a target must be a token classifier"):
        score_targets([parse_target(str(tmp_path))], data=str(data), task=task)
