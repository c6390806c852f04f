"""The encoder against transformers' own models, the paper's counts and an unshared copy of itself."""

import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file
from scipy.stats import kstest, truncnorm
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification

from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.heads import HEADS, albert_plus_class, auto_class
from hf_albert_plus.modeling_albert_plus import (
    AlbertPlusForMaskedLM,
    AlbertPlusForSequenceClassification,
    AlbertPlusModel,
)
from hf_albert_plus.relative_positions_albert_plus import AlbertPlusRelativeBias
from tests.support.small_models import pair_inputs, randomise, small_config

IDS = torch.ones(1, 4, dtype=torch.long)
SHARINGS = ["all", "none", 2, "cycle:2", [0, 1, 1, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("embedding_size", [16, 32])
@pytest.mark.parametrize("ffn", SHARINGS)
@pytest.mark.parametrize("attention", SHARINGS)
def test_a_shared_model_computes_what_its_unshared_copy_does(attention, ffn, embedding_size):
    """Copies of the blocks in every layer give the same logits, and their gradients add up to the shared block's."""
    shared = randomise(
        AlbertPlusForSequenceClassification(
            small_config(attention_sharing=attention, ffn_sharing=ffn, embedding_size=embedding_size)
        )
    )
    config = small_config(attention_sharing="none", ffn_sharing="none", embedding_size=embedding_size)
    unshared = AlbertPlusForSequenceClassification(config).eval()
    unshared.load_state_dict(
        {key: shared.state_dict()[_shared_key(key, shared.config)] for key in unshared.state_dict()}
    )
    inputs = {**pair_inputs(120), "labels": torch.tensor([0, 1, 1])}
    one, other = shared(**inputs), unshared(**inputs)
    torch.testing.assert_close(one.logits, other.logits, atol=1e-6, rtol=0)
    one.loss.backward()
    other.loss.backward()
    total: dict[str, torch.Tensor] = {}
    for key, parameter in unshared.named_parameters():
        name = _shared_key(key, shared.config)
        total[name] = total.get(name, 0) + parameter.grad
    for key, parameter in shared.named_parameters():
        torch.testing.assert_close(parameter.grad, total[key], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("fields", [{}, {"attention_sharing": "none"}, {"ffn_sharing": 2, "embedding_size": 32}])
def test_layers_that_differ_from_their_block(fields):
    """A layer computes what a block of its own does whose weights are the shared ones plus U·D, with the layer's norms and biases."""
    relaxed = randomise(AlbertPlusForSequenceClassification(small_config(layer_rank=3, **fields)))
    config = small_config(**{**fields, "attention_sharing": "none", "ffn_sharing": "none"})
    unshared = AlbertPlusForSequenceClassification(config).eval()
    state, merged = relaxed.state_dict(), {}
    for key in unshared.state_dict():
        name = _shared_key(key, relaxed.config)
        if "encoder." not in key:
            merged[key] = state[name]
            continue
        _, _, kind, layer, *module, leaf = key.split(".")
        own = f"albert_plus.encoder.layers.{layer}.own_{kind}.{'.'.join(module)}"
        if module == ["layer_norm"]:
            merged[key] = state[f"{own}.{leaf}"]
        elif leaf == "bias":
            merged[key] = state[f"{own}.up.bias"]
        else:
            merged[key] = state[name] + state[f"{own}.up.weight"] @ state[f"{own}.down.weight"]
    unshared.load_state_dict(merged)
    inputs = {**pair_inputs(120), "labels": torch.tensor([0, 1, 1])}
    one, other = (model(**inputs, output_hidden_states=True) for model in (relaxed, unshared))
    torch.testing.assert_close(one.logits, other.logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(one.hidden_states, other.hidden_states, atol=1e-5, rtol=1e-5)
    one.loss.backward()
    assert all(parameter.grad is not None for parameter in relaxed.parameters())


def test_a_new_model_has_no_differences_yet():
    """Of every layer's own products the second is zero, so that training begins with plain sharing."""
    state = AlbertPlusForSequenceClassification(small_config(layer_rank=3)).state_dict()
    ups = [name for name in state if name.endswith("up.weight")]
    assert len(ups) == 4 * 6
    assert not any(state[name].any() for name in ups)
    assert all(state[name.replace(".up.", ".down.")].any() for name in ups)


def drawn_weights(**fields):
    """All weights of products, tables and biases of distances of a new model, in units of the config's deviation."""
    torch.manual_seed(0)
    config = small_config(initializer_range=0.05, relative_attention_buckets=8, **fields)
    model = AlbertPlusForSequenceClassification(config)
    padding = model.albert_plus.embeddings.word_embeddings.padding_idx
    kinds = (torch.nn.Linear, torch.nn.Embedding, AlbertPlusRelativeBias)
    weights = {name: module.weight.detach() for name, module in model.named_modules() if isinstance(module, kinds)}
    flat = torch.cat([weight.flatten() for weight in weights.values()]).double() / 0.05
    if padding is not None:
        assert not model.albert_plus.embeddings.word_embeddings.weight[padding].any()
    return flat[flat != 0].numpy()


def test_new_weights_are_tensorflows():
    """Against SciPy's distributions: a normal one that is cut at two deviations, not clamped to them, and the whole one."""
    cut, whole = drawn_weights(), drawn_weights(initializer="normal")
    assert len(cut) > 5000
    assert abs(cut).max() < 2
    assert cut.std() == pytest.approx(truncnorm(-2, 2).std(), rel=0.02)
    assert kstest(cut, truncnorm(-2, 2).cdf).pvalue > 0.001
    assert abs(whole).max() > 3
    assert kstest(whole, "norm").pvalue > 0.001
    assert kstest(cut, "norm").pvalue < 0.001


def test_padding_changes_nothing_where_layers_differ():
    model = randomise(AlbertPlusForSequenceClassification(small_config(layer_rank=2)))
    inputs = pair_inputs(120)
    with torch.no_grad():
        together = model(**inputs).logits
        length = int(inputs["attention_mask"][2].sum())
        alone = model(**{name: tensor[2:3, :length] for name, tensor in inputs.items()}).logits
    torch.testing.assert_close(alone[0], together[2], atol=1e-5, rtol=0)


def _shared_key(key: str, config: AlbertPlusConfig) -> str:
    for kind, blocks in (("attention", config.attention_map), ("ffn", config.ffn_map)):
        prefix = f"albert_plus.encoder.{kind}."
        if key.startswith(prefix):
            layer, _, rest = key.removeprefix(prefix).partition(".")
            return f"{prefix}{blocks[int(layer)]}.{rest}"
    return key


def test_padding_and_token_types_count():
    model = randomise(AlbertPlusForSequenceClassification(small_config()))
    inputs = pair_inputs(120)
    with torch.no_grad():
        together = model(**inputs).logits
        for row in range(3):
            length = int(inputs["attention_mask"][row].sum())
            alone = model(**{name: tensor[row : row + 1, :length] for name, tensor in inputs.items()}).logits
            torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=0)
        without_types = model(**{**inputs, "token_type_ids": torch.zeros_like(inputs["input_ids"])}).logits
    assert (without_types - together).abs().max() > 1e-3


@pytest.mark.parametrize("sharing", SHARINGS)
def test_safetensors_hold_each_block_once_and_reload_exactly(tmp_path, sharing):
    model = randomise(AlbertPlusForSequenceClassification(small_config(attention_sharing=sharing, ffn_sharing=sharing)))
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.numel() for tensor in stored.values()) == model.num_parameters()
    blocks = max(model.config.attention_map) + 1
    assert sum(key.endswith("query.weight") for key in stored) == blocks
    again, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    inputs = pair_inputs(120)
    with torch.no_grad():
        assert torch.equal(again.eval()(**inputs).logits, model(**inputs).logits)


def test_masked_lm_ties_its_decoder_and_survives_a_resize(tmp_path):
    model = randomise(AlbertPlusForMaskedLM(small_config()))
    model.resize_token_embeddings(130, mean_resizing=False)
    model.save_pretrained(tmp_path)
    assert "predictions.decoder.weight" not in load_file(tmp_path / "model.safetensors")
    again = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert again.predictions.decoder.weight is again.albert_plus.embeddings.word_embeddings.weight
    inputs = pair_inputs(130)
    with torch.no_grad():
        logits = again(**inputs).logits
        torch.testing.assert_close(logits, model(**inputs).logits, atol=1e-6, rtol=0)
    assert logits.shape == (3, 11, 130)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "exactly one of input_ids and inputs_embeds"),
        ({"input_ids": torch.ones(1, 65, dtype=torch.long)}, r"\(64\), got 65"),
        ({"input_ids": IDS, "inputs_embeds": torch.ones(1, 4, 16)}, "exactly one of input_ids and inputs_embeds"),
    ],
)
def test_wrong_inputs_are_refused(inputs, words):
    with pytest.raises(ValueError, match=words):
        AlbertPlusModel(small_config(type_vocab_size=0))(**inputs)


def test_token_types_are_passed_over_with_one_warning_by_a_model_without_them(caplog):
    model = randomise(AlbertPlusModel(small_config(type_vocab_size=0)))
    transformers.logging.enable_propagation()
    try:
        given = model(input_ids=IDS, token_type_ids=torch.ones_like(IDS)).last_hidden_state
        model(input_ids=IDS, token_type_ids=torch.ones_like(IDS))
    finally:
        transformers.logging.disable_propagation()
    assert torch.equal(given, model(input_ids=IDS).last_hidden_state)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "return_token_type_ids=False" in warning


@pytest.mark.parametrize("head", HEADS)
def test_auto_classes_know_every_head(head):
    assert isinstance(AutoConfig.for_model("albert_plus"), AlbertPlusConfig)
    assert isinstance(auto_class(head).from_config(small_config()), albert_plus_class(head))


def test_importing_the_package_imports_no_heavy_library():
    # Not scipy and scikit-learn: transformers imports them by itself where they are installed.
    heavy = "onnx onnxruntime onnxscript openvino tensorrt datasets ray matplotlib typer"
    code = f"import sys, hf_albert_plus; print([name for name in '{heavy}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
