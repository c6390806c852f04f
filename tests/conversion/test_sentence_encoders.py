"""Sentence encoders: what their files say of their pooling, and classifiers that read what they were trained to be read by."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AlbertConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from hf_albert_plus.config_building import student_of, variant_of
from hf_albert_plus.conversion.sentence_encoders import open_for_task, trained_pooling
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification, AlbertPlusModel
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.glue import get_task
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, randomise, small_config

# As sentence-transformers writes them, in old files and in those of its fifth version.
OLD = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
       "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}  # fmt: skip
FILES = {
    "old, mean": (OLD, "mean"),
    "old, first": ({**OLD, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "first"),
    "old, largest": ({**OLD, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}, None),
    "old, two side by side": ({**OLD, "pooling_mode_max_tokens": True}, None),
    "new, mean": ({"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True}, "mean"),
    "new, first": ({"embedding_dimension": 32, "pooling_mode": ["cls"]}, "first"),
    "new, last": ({"embedding_dimension": 32, "pooling_mode": "lasttoken"}, None),
    "new, two side by side": ({"pooling_mode": ["mean", "max"]}, None),
    "nothing": ({}, None),
}
_ROBERTA = {**SMALL, "max_position_embeddings": 66, "pad_token_id": 1}
ENCODERS = {
    "bert": BertConfig(**SMALL),
    "albert": AlbertConfig(**SMALL, embedding_size=16),
    "distilbert": DistilBertConfig(vocab_size=120, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64),
    "roberta": RobertaConfig(**_ROBERTA, type_vocab_size=1),
    "xlm-roberta": XLMRobertaConfig(**_ROBERTA, type_vocab_size=1),
    "mpnet": MPNetConfig(**_ROBERTA),
    "albert_plus": small_config(),
}  # fmt: skip
TASK = get_task("sst2")


def sentence_encoder(model, directory, *, pooling=OLD):
    model.save_pretrained(directory)
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return directory


@pytest.mark.parametrize(("content", "pooling"), FILES.values(), ids=FILES)
def test_what_a_file_says(tmp_path, content, pooling):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(content))
    assert trained_pooling(tmp_path) == pooling


def test_a_model_without_the_file_and_a_broken_one(tmp_path):
    assert trained_pooling(tmp_path) is None
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(InvalidInput, match="1_Pooling/config.json"):
        trained_pooling(tmp_path)


@pytest.mark.parametrize("config", ENCODERS.values(), ids=ENCODERS)
def test_a_classifier_reads_the_mean_that_the_encoder_gives(tmp_path, config, capfd):
    """Against the mean of what transformers' own model gives for each text alone, without padding."""
    encoder = randomise(AutoModel.from_config(config))
    asked = "mean" if config.model_type == "mpnet" else None
    source = str(sentence_encoder(encoder, tmp_path / "e"))
    classifier = open_for_task(source, task=TASK, pooling=asked, option="--model").eval()
    assert isinstance(classifier, AlbertPlusForSequenceClassification)
    assert (classifier.config.pooling, classifier.config.pooler) == ("mean", "none")
    assert classifier.config.id2label == {0: "negative", 1: "positive"}
    assert ("reads the mean of the tokens" in capfd.readouterr().err) == (asked is None)
    ids = torch.randint(5, 120, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(9) < torch.tensor([[9], [5], [2]])
    ids[~mask] = config.pad_token_id
    with torch.no_grad():
        means = [encoder(row[kept][None]).last_hidden_state[0].mean(0) for row, kept in zip(ids, mask, strict=True)]
        pooled = classifier.albert_plus(ids, mask.long()).pooler_output
    torch.testing.assert_close(pooled, torch.stack(means), atol=1e-5, rtol=1e-5)


def test_a_family_whose_first_token_is_as_good_keeps_it(tmp_path, capfd):
    encoder = randomise(AutoModel.from_config(ENCODERS["mpnet"]))
    model = open_for_task(str(sentence_encoder(encoder, tmp_path / "mean")), task=TASK, option="--model")
    assert type(model).__name__ == "MPNetForSequenceClassification"
    for name, weight in encoder.state_dict().items():
        if not name.startswith("pooler."):
            assert torch.equal(weight, model.base_model.state_dict()[name]), name
    assert "--pooling mean reads that" in capfd.readouterr().err


def test_what_reads_the_first_token_stays_as_it_was(tmp_path):
    """The same class and weights as where no file speaks of pooling."""
    encoder = randomise(BertModel(BertConfig(**SMALL)))
    source = sentence_encoder(encoder, tmp_path / "mean")
    encoder.save_pretrained(tmp_path / "plain")
    first = {**OLD, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    opened = []
    for place, pooling in ((tmp_path / "plain", None), (source, "first"), (sentence_encoder(encoder, tmp_path / "cls", pooling=first), None)):  # fmt: skip
        torch.manual_seed(1)
        opened.append(open_for_task(str(place), task=TASK, pooling=pooling, option="--model"))
    assert {type(model).__name__ for model in opened} == {"BertForSequenceClassification"}
    for model in opened[1:]:
        for name, weight in model.state_dict().items():
            assert torch.equal(weight, opened[0].state_dict()[name]), name


def test_a_plain_encoder_is_read_by_the_mean_where_asked(tmp_path):
    for number, encoder in enumerate((BertModel(BertConfig(**SMALL)), AlbertPlusModel(small_config()))):
        encoder.save_pretrained(tmp_path / str(number))
        model = open_for_task(str(tmp_path / str(number)), task=TASK, pooling="mean", option="--model")
        assert (model.config.pooling, model.config.pooler) == ("mean", "none")


def test_a_pooling_that_cannot_be(tmp_path, capfd):
    electra = ElectraConfig(**{**SMALL, "vocab_size": 120, "max_position_embeddings": 66})
    source = str(sentence_encoder(randomise(AutoModel.from_config(electra)), tmp_path / "electra"))
    model = open_for_task(source, task=TASK, option="--model")
    assert type(model).__name__ == "ElectraForSequenceClassification"
    said = capfd.readouterr().err
    assert "was trained to be read by the mean of the tokens, but electra has no ALBERT-plus counterpart" in said
    with pytest.raises(InvalidInput, match=r"electra has no ALBERT-plus counterpart in .*leave --pooling out"):
        open_for_task(source, task=TASK, pooling="mean", option="--model")
    trained = tmp_path / "trained"
    AlbertPlusForSequenceClassification(small_config(id2label={0: "negative", 1: "positive"})).save_pretrained(trained)
    with pytest.raises(InvalidInput, match=r"--pooling mean for .*, a classifier that reads the first token"):
        open_for_task(str(trained), task=TASK, pooling="mean", option="--model")
    assert open_for_task(str(trained), task=TASK, pooling="first", option="--model").config.pooling == "first"


def test_a_conversion_reads_as_its_source_was_trained(tmp_path, tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    bert = randomise(BertModel(BertConfig(**{**SMALL, "vocab_size": len(tokenizer)})))
    source = sentence_encoder(bert, tmp_path / "bert")
    tokenizer.save_pretrained(source)
    record = convert(str(source), output=tmp_path / "out")
    assert record.result["max_abs_difference"] <= 1e-5  # of the encoder as it is, before its pooling is another
    converted = AutoModel.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(5, 100, (2, 7))
    with torch.no_grad():
        expected = bert(ids).last_hidden_state.mean(1)
        torch.testing.assert_close(converted(ids).pooler_output, expected, atol=1e-6, rtol=1e-5)


def test_students_inherit_the_pooling():
    teacher = small_config(pooling="mean", pooler="none")
    assert (student_of(teacher).pooling, student_of(teacher).pooler) == ("mean", "none")
    assert student_of(teacher, overrides={"pooling": "first"}).pooling == "first"
    assert variant_of(teacher, variant="albert-base-v2").pooling == "mean"
    assert student_of(BertConfig(**SMALL)).pooling == "first"


@pytest.mark.slow
def test_from_a_sentence_encoder_to_a_served_student(tmp_path, tokenizer_dir, data_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    bert = BertModel(BertConfig(**{**SMALL, "vocab_size": len(tokenizer)}))
    source = sentence_encoder(bert, tmp_path / "bert")
    tokenizer.save_pretrained(source)
    trained = ["--data", data_dir, "--task", "sst2", "--epochs", 0.2, "--max-length", 16, "--precision", "fp32"]
    invoke("finetune", "--model", source, *trained, "--out", tmp_path / "teacher")
    assert read_record(tmp_path / "teacher").result["pooling"] == "mean"
    invoke("distill", "--teacher", tmp_path / "teacher", "--method", "pkd", *trained, "--out", tmp_path / "student")
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
    assert student.config.pooling == "mean"
    invoke("export", tmp_path / "student", "--to", "onnx", "--out", tmp_path / "exported")
    assert read_record(tmp_path / "exported").result["exports"]["onnx"]["max_abs_difference"] <= 1e-4
    invoke("finetune", "--model", source, *trained, "--pooling", "first", "--out", tmp_path / "first")
    assert "bert.pooler.dense.weight" in load_file(tmp_path / "first" / "model.safetensors")
    assert read_record(tmp_path / "first").settings["pooling"] == "first"
