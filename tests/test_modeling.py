"""The encoder against transformers' own models, the paper's counts and an unshared copy of itself."""

import copy
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from hf_albert_plus import (
    AlbertPlusConfig,
    AlbertPlusForMaskedLM,
    AlbertPlusForSequenceClassification,
    AlbertPlusModel,
)
from tests.conftest import pair_inputs, randomise, small_config

SHARINGS = ["all", "none", 2, [0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("embedding_size", "attention", "ffn", "parameters"),
    [
        (64, "all", "all", 9_681_408), (64, "all", "none", 61_645_056), (64, "none", "all", 35_684_352),
        (64, "none", "none", 87_648_000), (128, "all", "all", 11_683_584), (128, "all", "none", 63_647_232),
        (128, "none", "all", 37_686_528), (128, "none", "none", 89_650_176), (256, "all", "all", 15_687_936),
        (256, "all", "none", 67_651_584), (256, "none", "all", 41_690_880), (256, "none", "none", 93_654_528),
        (768, "all", "all", 31_114_752), (768, "all", "none", 83_078_400), (768, "none", "all", 57_117_696),
        (768, "none", "none", 109_081_344),
    ],
)  # fmt: skip
def test_parameters_of_the_sharing_study(embedding_size, attention, ffn, parameters):
    """ALBERT, Table 4's grid at base size, counted from emb = (V+P+T)E+2E, proj = EH+H, att = 4(H²+H)+2H,
    ffn = 2HI+I+H+2H, pooler = H²+H."""
    with torch.device("meta"):
        model = AlbertPlusModel(
            AlbertPlusConfig(embedding_size=embedding_size, attention_sharing=attention, ffn_sharing=ffn)
        )
    assert model.num_parameters() == parameters


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


def _shared_key(key: str, config: AlbertPlusConfig) -> str:
    for kind, blocks in (("attention", config.attention_map), ("ffn", config.ffn_map)):
        prefix = f"albert_plus.encoder.{kind}."
        if key.startswith(prefix):
            layer, _, rest = key.removeprefix(prefix).partition(".")
            return f"{prefix}{blocks[int(layer)]}.{rest}"
    return key


@pytest.mark.parametrize("sharing", SHARINGS)
def test_eager_and_sdpa_agree_and_record_one_tensor_a_layer(sharing):
    model = randomise(AlbertPlusModel(small_config(attention_sharing=sharing, ffn_sharing=sharing)))
    inputs = pair_inputs(120)
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        fused = model(**inputs, output_hidden_states=True)
        model.set_attn_implementation("eager")
        eager = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert len(fused.hidden_states) == 5
    assert len(eager.attentions) == 4
    kept = inputs["attention_mask"].bool()
    for one, other in zip(fused.hidden_states, eager.hidden_states, strict=True):
        torch.testing.assert_close(one[kept], other[kept], atol=1e-5, rtol=0)
    for weights in eager.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
        assert weights.masked_select(inputs["attention_mask"][:, None, None, :] == 0).abs().max() < 1e-6
    assert torch.equal(fused.hidden_states[-1], fused.last_hidden_state)


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
    assert not any("decoder" in key for key in load_file(tmp_path / "model.safetensors"))
    again = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert again.predictions.decoder.weight is again.albert_plus.embeddings.word_embeddings.weight
    inputs = pair_inputs(130)
    with torch.no_grad():
        logits = again(**inputs).logits
        torch.testing.assert_close(logits, model(**inputs).logits, atol=1e-6, rtol=0)
    assert logits.shape == (3, 11, 130)


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"num_labels": 2}, torch.tensor([0, 1, 1])),
        ({"num_labels": 1}, torch.tensor([0.5, 2.0, 4.5])),
        ({"num_labels": 3}, torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 0]])),
    ],
)
def test_losses_of_the_three_problem_types(fields, labels):
    model = randomise(AlbertPlusForSequenceClassification(small_config(**fields)))
    with torch.no_grad():
        output = model(**pair_inputs(120), labels=labels)
    logits = output.logits
    if fields["num_labels"] == 1:
        expected = (logits[:, 0] - labels).square().mean()
    elif labels.dim() == 1:
        expected = -torch.log_softmax(logits, -1)[range(3), labels].mean()
    else:
        expected = -(labels * torch.sigmoid(logits).log() + (1 - labels) * torch.sigmoid(-logits).log()).mean()
    torch.testing.assert_close(output.loss, expected)


def test_gradient_checkpointing_changes_nothing():
    inputs = {**pair_inputs(120), "labels": torch.tensor([0, 1, 1])}
    gradients = []
    plain = randomise(AlbertPlusForSequenceClassification(small_config(classifier_dropout_prob=0.0)))
    for checkpointing in (False, True):
        model = copy.deepcopy(plain).train()
        if checkpointing:
            # Its name up to transformers 5.20, which Python 3.10 stays at, is the second one.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        model(**inputs).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "exactly one of input_ids and inputs_embeds"),
        ({"input_ids": torch.ones(1, 65, dtype=torch.long)}, r"\(64\), got 65"),
    ],
)
def test_wrong_inputs_are_refused(inputs, words):
    with pytest.raises(ValueError, match=words):
        AlbertPlusModel(small_config())(**inputs)


def test_auto_classes_know_the_family():
    config = small_config()
    assert isinstance(AutoConfig.for_model("albert_plus"), AlbertPlusConfig)
    assert isinstance(AutoModel.from_config(config), AlbertPlusModel)
    assert isinstance(AutoModelForMaskedLM.from_config(config), AlbertPlusForMaskedLM)
    assert isinstance(AutoModelForSequenceClassification.from_config(config), AlbertPlusForSequenceClassification)


def test_importing_the_package_imports_no_heavy_library():
    # Not scipy and scikit-learn: transformers imports them by itself where they are installed.
    heavy = "onnx onnxruntime onnxscript openvino tensorrt datasets ray matplotlib typer"
    code = f"import sys, hf_albert_plus; print([name for name in '{heavy}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
