"""Which student a teacher gets: its depth, its blocks, its width of embeddings, and the layers that it starts from."""

import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification

from hf_albert_plus.config_building import student_of
from hf_albert_plus.distillation.methods import METHODS, get_method
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.distillation.students import start_student, student_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import randomise

WIDTHS = {"vocab_size": 300, "hidden_size": 144, "num_attention_heads": 4, "intermediate_size": 160}


def _bert(layers):
    return randomise(BertForSequenceClassification(BertConfig(**WIDTHS, num_hidden_layers=layers)))


@pytest.mark.parametrize(
    ("teacher", "third", "half"), [(1, 1, 1), (2, 1, 1), (3, 1, 1), (6, 2, 3), (8, 3, 4), (12, 4, 6), (24, 8, 12)]
)
def test_depth_and_blocks_of_the_parts(teacher, third, half):
    source = BertConfig(**WIDTHS, num_hidden_layers=teacher)
    own, shared = student_of(source, part="third"), student_of(source, part="half")
    assert (own.num_hidden_layers, len(set(own.attention_map)), len(set(own.ffn_map))) == (third, third, third)
    assert (shared.num_hidden_layers, len(set(shared.attention_map)), len(set(shared.ffn_map))) == (half, 1, 1)
    assert {config.embedding_size for config in (own, shared)} == {128}
    assert student_of(source).to_dict() == shared.to_dict()


@pytest.mark.parametrize(("depth", "layers"), [(1, [0]), (2, [0, 5]), (3, [0, 2, 5]), (6, [0, 1, 2, 3, 4, 5])])
def test_layers_that_share_nothing_start_as_one_of_the_teachers_each(depth, layers):
    teacher, task = _bert(6), get_task("sst2")
    settings, method = StudentSettings("third", (("num_hidden_layers", depth),)), get_method("kd-hidden")
    config = student_config(teacher.config, task=task, settings=settings, method=method)
    student, done = start_student(teacher, config, task=task, settings=settings, method=method)
    assert f"of the source's layers {layers}" in done
    theirs = teacher.bert.encoder.layer
    for block, layer in enumerate(layers):
        ours = student.albert_plus.encoder
        torch.testing.assert_close(ours.attention[block].query.weight, theirs[layer].attention.self.query.weight)
        torch.testing.assert_close(ours.ffn[block].output.weight, theirs[layer].output.dense.weight)


def test_a_named_start_and_shared_blocks_combine_layers():
    teacher, task, method = _bert(6), get_task("sst2"), get_method("kd-hidden")
    for settings in (StudentSettings("third", initialise="average"), StudentSettings("half")):
        config = student_config(teacher.config, task=task, settings=settings, method=method)
        student, done = start_student(teacher, config, task=task, settings=settings, method=method)
        assert done.startswith("average of the source's layers, ")
        spanned = teacher.bert.encoder.layer[: 3 if settings.student == "third" else 6]
        mean = torch.stack([layer.output.dense.weight for layer in spanned]).mean(0)
        torch.testing.assert_close(student.albert_plus.encoder.ffn[0].output.weight, mean)


RELEASED = [0, 2, 4, 7, 9, 11]  # DistilBERT's layers of BERT's twelve
OWN_START = {"distilbert": RELEASED, "pkd": [0, 1, 2, 3, 4, 5]}
AT_RANDOM = {"well-read", "extreme"}


@pytest.fixture(scope="module")
def twelve_layers():
    return _bert(12)


def _started(method, teacher, **overrides):
    shape = {"num_hidden_layers": 6, "embedding_size": 144, **overrides}
    settings, task = StudentSettings("half", tuple(shape.items())), get_task("mrpc")
    row = METHODS[method]
    config = student_config(teacher.config, task=task, settings=settings, method=row)
    return start_student(teacher, config, task=task, settings=settings, method=row)


def _weights_of(layer):
    own = layer.attention.self
    products = own.query, own.key, own.value, layer.attention.output.dense, layer.intermediate.dense, layer.output.dense
    return [product.weight for product in products]


def _weights_of_blocks(student, block):
    attention, ffn = (getattr(student.albert_plus.encoder, kind)[block] for kind in ("attention", "ffn"))
    products = attention.query, attention.key, attention.value, attention.output, ffn.intermediate, ffn.output
    return [product.weight for product in products]


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS.keys() - AT_RANDOM))
def test_six_layers_start_as_six_of_twelve(method, twelve_layers):
    """Layer by layer where they share nothing: DistilBERT's every second, PKD's first six."""
    student, _ = _started(method, twelve_layers, attention_sharing="none", ffn_sharing="none")
    for block, layer in enumerate(OWN_START.get(method, RELEASED)):
        theirs = _weights_of(twelve_layers.bert.encoder.layer[layer])
        for a, b in zip(_weights_of_blocks(student, block), theirs, strict=True):
            torch.testing.assert_close(a, b)
    words = student.albert_plus.embeddings.word_embeddings.weight
    torch.testing.assert_close(words, twelve_layers.bert.embeddings.word_embeddings.weight)


@pytest.mark.parametrize("method", sorted(AT_RANDOM))
def test_a_random_start_has_no_weight_of_the_teacher(method, twelve_layers):
    student, done = _started(method, twelve_layers, attention_sharing="none", ffn_sharing="none")
    assert done == "random"
    theirs = [weight for layer in twelve_layers.bert.encoder.layer for weight in _weights_of(layer)]
    ours = [weight for block in range(6) for weight in _weights_of_blocks(student, block)]
    assert not [1 for a in ours for b in theirs if torch.equal(a, b)]


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS.keys() - AT_RANDOM))
def test_a_shared_block_starts_as_the_mean_of_its_layers(method, twelve_layers):
    """Of the six that its layers start from, or of all twelve where the method names none."""
    student, _ = _started(method, twelve_layers)
    spanned = [twelve_layers.bert.encoder.layer[layer] for layer in OWN_START.get(method, range(12))]
    means = [torch.stack(each).mean(0) for each in zip(*map(_weights_of, spanned), strict=True)]
    for a, b in zip(_weights_of_blocks(student, 0), means, strict=True):
        torch.testing.assert_close(a, b)


@pytest.fixture(scope="module")
def classifier(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("classifier")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    widths = {**WIDTHS, "vocab_size": len(tokenizer), "num_hidden_layers": 4}
    model = BertForSequenceClassification(BertConfig(**widths, id2label={0: "cold", 1: "warm"}))
    randomise(model).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


def _student(source, out, *, data, task, **options):
    how = DistilSettings("kd", StudentSettings(**options), epochs=1)
    settings = TrainSettings(epochs=1, batch_size=16, max_length=32, precision="fp32")
    return distill(source, data=str(data), task=task, output=out, settings=settings, method=how)


@pytest.mark.slow
def test_own_data_has_a_third_and_glue_a_half(classifier, tmp_path, data_dir):
    own = tmp_path / "weather.csv"
    own.write_text("text,label\n" + "".join(f"{w} day {i},{w}\n" for i in range(12) for w in ("warm", "cold")))
    expected = {"own": ("third", ["none", "none"], 1), "glue": ("half", ["all", "all"], 2)}
    for name, (data, task) in {"own": (own, find_task(str(own))), "glue": (data_dir, get_task("sst2"))}.items():
        source = classifier if name == "own" else _plain_labels(classifier, tmp_path / "plain")
        record = _student(source, tmp_path / name, data=data, task=task)
        config = json.loads((tmp_path / name / "config.json").read_text())
        shape = [config["attention_sharing"], config["ffn_sharing"]]
        assert (record.settings["student"], shape, config["num_hidden_layers"]) == expected[name]
    chosen = _student(classifier, tmp_path / "chosen", data=own, task=find_task(str(own)), student="half")
    assert chosen.settings["student"] == "half"


def _plain_labels(source, directory):
    model = AutoModelForSequenceClassification.from_pretrained(source)
    model.config.id2label, model.config.label2id = {0: "LABEL_0", 1: "LABEL_1"}, {"LABEL_0": 0, "LABEL_1": 1}
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(source).save_pretrained(directory)
    return str(directory)


def test_an_unknown_student_is_told_the_parts(classifier, tmp_path, data_dir):
    with pytest.raises(InvalidInput, match="thrid") as caught:
        _student(classifier, tmp_path / "out", data=data_dir, task=get_task("sst2"), student="thrid")
    assert "third" in str(caught.value)
    assert not (tmp_path / "out").exists()
