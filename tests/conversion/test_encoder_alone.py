"""`convert --to encoder` against the base models of transformers' own classifiers, taggers and masked models, and what starts from it."""

import re
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
)

from hf_albert_plus.checkpoints import load_classifier
from hf_albert_plus.config_files import load_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.task_file import read_task, write_task
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

_KINDS = (AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoModelForMaskedLM)
_CONFIGS = (
    BertConfig(**SMALL, num_labels=3),
    DistilBertConfig(vocab_size=120, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64, num_labels=3),
    ElectraConfig(**SMALL, embedding_size=16, num_labels=3),
    MPNetConfig(**{**SMALL, "max_position_embeddings": 66}, num_labels=3),
)  # fmt: skip


def _write(model, directory, tokenizer_dir):
    randomise(model).save_pretrained(directory)
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(directory)
    return directory


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("config", _CONFIGS, ids=lambda config: config.model_type)
def test_it_reads_as_the_base_of_the_model(tmp_path, tokenizer_dir, kind, config):
    model = kind.from_config(type(config)(**{**config.to_dict(), "vocab_size": 2000}))
    source = _write(model, tmp_path / "source", tokenizer_dir)
    invoke("convert", source, "--to", "encoder", "--out", tmp_path / "encoder")
    encoder, loading = AutoModel.from_pretrained(
        tmp_path / "encoder", output_loading_info=True, **({} if _has_pooler(model) else _without_pooler(model))
    )
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert encoder.config.num_labels == 2
    assert encoder.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    inputs = pair_inputs(2000)
    inputs.pop("token_type_ids")
    with torch.no_grad():
        torch.testing.assert_close(
            encoder.eval()(**inputs).last_hidden_state, model.base_model(**inputs).last_hidden_state, atol=0, rtol=0
        )


def _has_pooler(model):
    return getattr(model.base_model, "pooler", None) is not None


def _without_pooler(model):
    return {"add_pooling_layer": False} if hasattr(model.base_model, "pooler") else {}


def test_another_task_starts_from_it_with_a_new_head_that_reads_what_the_old_one_read(tmp_path, tokenizer_dir):
    config = small_config(vocab_size=2000, pooling="mean", exit_layers=[1], num_labels=2)
    config.exit_criterion, config.exit_threshold, config.exit_tolerance = "patience", 1, 25.0
    source = _write(AlbertPlusForSequenceClassification(config), tmp_path / "source", tokenizer_dir)
    with pytest.raises(InvalidInput, match="classifier with the 1 labels of stsb") as refused:
        load_classifier(source, option="--model", task=get_task("stsb"))
    words = re.search(r"albert-plus (convert .*)$", str(refused.value))[1].split()
    words[words.index("--out") + 1] = str(tmp_path / "encoder")
    invoke(*words)
    bare = load_config(tmp_path / "encoder", option="--model")
    assert (bare.pooling, bare.exit_layers, bare.exit_threshold) == ("mean", None, None)
    assert (bare.exit_criterion, bare.exit_tolerance) == ("entropy", 0.1)
    started = load_classifier(tmp_path / "encoder", option="--model", task=get_task("stsb"))
    assert started.config.num_labels == 1
    assert started.config.problem_type == "regression"
    old = load_file(source / "model.safetensors")
    for name, value in started.albert_plus.state_dict().items():
        assert torch.equal(value, old[f"albert_plus.{name}"])


def test_a_task_of_its_own_does_not_come_along(classifier_dir, tmp_path):
    shutil.copytree(classifier_dir, tmp_path / "source")
    write_task(tmp_path / "source", replace(get_task("sst2"), name="mine", benchmark=""))
    invoke("convert", tmp_path / "source", "--to", "encoder", "--out", tmp_path / "encoder")
    assert read_task(tmp_path / "source") is not None
    assert read_task(tmp_path / "encoder") is None


def test_an_encoder_without_a_head_is_refused(encoder_dir, tmp_path):
    with pytest.raises(InvalidInput, match="--to encoder is for a model with a head"):
        invoke("convert", encoder_dir, "--to", "encoder", "--out", tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()
