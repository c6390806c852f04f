"""What transformers expects of a model: attention implementations, captured outputs, checkpointing, compilation, export,
dtypes and loading, over a grid of architectures."""

import copy
import shutil

import pytest
import torch
import torch._dynamo.testing
from safetensors.torch import load_file
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask

from hf_albert_plus.heads import HEADS, albert_plus_class
from hf_albert_plus.modeling_albert_plus import (
    AlbertPlusForPreTraining,
    AlbertPlusForSequenceClassification,
    AlbertPlusModel,
)
from tests.support.small_models import pair_inputs, randomise, small_config

ARCHITECTURES = {
    "all shared": {},
    "none shared, E = H": {"attention_sharing": "none", "ffn_sharing": "none", "embedding_size": 32},
    "attention shared": {"ffn_sharing": "none"},
    "ffn in groups, attention in a cycle": {"attention_sharing": "cycle:2", "ffn_sharing": 2},
    "reversed cycle, relu": {"attention_sharing": "reversed_cycle:2", "ffn_sharing": [0, 1, 1, 0], "hidden_act": "relu"},
    "no norm, bottleneck, no token types": {
        "norm_type": "no_norm", "bottleneck_size": 16, "num_feedforward_networks": 2, "type_vocab_size": 0,
        "pooler": "none",
    },
    "inverted bottleneck": {
        "bottleneck_size": 48, "query_key_bottleneck": False, "trigram_embeddings": True, "ffn_sharing": "none",
    },
    "bottleneck with layer norm, shared by halves": {
        "bottleneck_size": 16, "attention_sharing": 2, "ffn_sharing": "none", "pooler": "relu",
    },
    "trigrams": {"trigram_embeddings": True, "ffn_sharing": "sequence:2"},
    "mean of the tokens": {"pooling": "mean", "pooler": "none"},
    "relative positions": {"relative_attention_buckets": 8, "type_vocab_size": 0, "ffn_sharing": 2},
    "layers that differ from their block": {"layer_rank": 3, "attention_sharing": 2},
    "blocks of uneven sizes": {
        "attention_sharing": "none", "block_attention_heads": [4, 1, 3, 2], "ffn_sharing": 2, "block_intermediate_sizes": [8, 40],
    },
}  # fmt: skip
every_architecture = pytest.mark.parametrize("fields", ARCHITECTURES.values(), ids=ARCHITECTURES)


def _inputs(model, **shape):
    inputs = pair_inputs(120, **shape)
    if model.config.type_vocab_size == 0:
        del inputs["token_type_ids"]
    return inputs


@every_architecture
def test_captured_outputs_are_what_the_layers_gave(fields):
    """One hidden state and one attention a layer, a shared block's once a call, rebuilt here layer by layer."""
    model = randomise(AlbertPlusModel._from_config(small_config(**fields), attn_implementation="eager"))
    inputs = _inputs(model)
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True, output_attentions=True)
        hidden = model.embeddings(inputs["input_ids"], inputs.get("token_type_ids"), None, None)
        mask = torch.where(inputs["attention_mask"][:, None, None] == 1, 0.0, torch.finfo(torch.float32).min)
        assert torch.equal(output.hidden_states[0], hidden)
        maps = zip(model.config.attention_map, model.config.ffn_map, strict=True)
        for layer, (a, f) in enumerate(maps):
            own = model.encoder.layers[layer]
            places = model.encoder.relative_positions
            buckets = None if places is None else places(hidden.shape[1])
            attended, weights = model.encoder.attention[a](hidden, mask, own.own_attention, buckets)
            hidden = model.encoder.ffn[f](attended, hidden, own.own_ffn)
            torch.testing.assert_close(output.attentions[layer], weights, atol=1e-6, rtol=0)
            torch.testing.assert_close(output.hidden_states[layer + 1], hidden, atol=1e-5, rtol=1e-5)
    assert len(output.hidden_states) == len(output.attentions) + 1 == 5
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    for weights in output.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
        assert weights.masked_select(inputs["attention_mask"][:, None, None, :] == 0).abs().max() < 1e-6


def _unpadded_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """What a variable-length kernel computes: each row over its real tokens only. `attention_mask` is `[B, S]` or None,
    as flash attention's is."""
    batch, heads, length, size = query.shape
    context = torch.zeros(batch, length, heads, size)
    for row in range(batch):
        kept = torch.ones(length, dtype=torch.bool) if attention_mask is None else attention_mask[row].bool()
        q, k, v = (tensor[row][:, kept] for tensor in (query, key, value))
        context[row, kept] = torch.softmax(q @ k.transpose(1, 2) * scaling, -1).matmul(v).transpose(0, 1)
    return context, None


AttentionInterface.register("unpadded", _unpadded_attention)
AttentionMaskInterface.register("unpadded", flash_attention_mask)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # several of torch's own on the way to flex attention
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("implementation", ["sdpa", "unpadded", "flex_attention"])
@every_architecture
def test_attention_implementations_agree_with_eager(fields, implementation, padded):
    """`unpadded` stands in for flash attention, which needs a GPU: same interface, same mask, plain arithmetic."""
    torch._dynamo.reset()  # flex attention is compiled for a few sizes a process, and after that not at all
    model = randomise(AlbertPlusModel._from_config(small_config(**fields), attn_implementation="eager"))
    inputs = _inputs(model)
    if not padded:
        inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
    kept = inputs["attention_mask"].bool()
    with torch.no_grad():
        eager = model(**inputs).last_hidden_state
        model.set_attn_implementation(implementation)
        assert model.config._attn_implementation == implementation
        if model.config.relative_attention_buckets is not None and implementation != "sdpa":
            with pytest.raises(
                ValueError, match=f"need attn_implementation='sdpa' or 'eager', .* got '{implementation}'"
            ):
                model(**inputs)
            return
        other = model(**inputs).last_hidden_state
    torch.testing.assert_close(other[kept], eager[kept], atol=1e-5, rtol=1e-5)


def test_sdpa_is_the_default_and_flash_attention_asks_for_its_package():
    assert AlbertPlusModel(small_config()).config._attn_implementation == "sdpa"
    with pytest.raises((ImportError, ValueError), match="(?i)flash.?attention"):
        AlbertPlusModel._from_config(small_config(), attn_implementation="flash_attention_2")


@pytest.mark.parametrize("reentrant", [False, True])
@every_architecture
def test_gradient_checkpointing_changes_nothing(fields, reentrant):
    model = randomise(AlbertPlusForSequenceClassification(small_config(classifier_dropout_prob=0.0, **fields)))
    inputs = {**_inputs(model), "labels": torch.tensor([0, 1, 1])}
    gradients = []
    for checkpointing in (False, True):
        one = copy.deepcopy(model).train()
        if checkpointing:
            # Its name up to transformers 5.20, which Python 3.10 stays at, is the second one.
            enable = getattr(one, "activation_checkpointing_enable", one.gradient_checkpointing_enable)
            enable({"use_reentrant": reentrant})
            one.enable_input_require_grads()
        one(**inputs).loss.backward()
        gradients.append([parameter.grad for parameter in one.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@every_architecture
def test_gradients_are_those_of_finite_differences(fields):
    """A directional derivative in fp64 against (f(w + εd) - f(w - εd)) / 2ε."""
    model = randomise(AlbertPlusForSequenceClassification(small_config(**fields))).double()
    inputs = {**_inputs(model), "labels": torch.tensor([0, 1, 1])}
    model(**inputs).loss.backward()
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]
    expected = sum((p.grad * d).sum() for p, d in zip(model.parameters(), directions, strict=True))
    losses, epsilon = [], 1e-6
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, direction in zip(model.parameters(), directions, strict=True):
                parameter.add_(direction, alpha=sign * epsilon)
            losses.append(model(**inputs).loss)
    torch.testing.assert_close((losses[0] - losses[1]) / (2 * epsilon), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "training"),
    [(name, "ForSequenceClassification", training) for name in ARCHITECTURES for training in (False, True)]
    + [("all shared", head, True) for head in HEADS if head != "ForSequenceClassification"],
)
def test_compiles_to_one_graph(name, head, training):
    """A graph break would raise. Lengths are dynamic: the second shape must not compile again."""
    torch.compiler.reset()
    # transformers infers problem_type in the first call, which would be another graph.
    fixed = {"classifier_dropout_prob": 0.0, "problem_type": "single_label_classification"}
    model = randomise(albert_plus_class(head)(small_config(**fixed, **ARCHITECTURES[name])))
    model.train(training)
    counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    for shape in ({"batch": 3, "length": 11}, {"batch": 4, "length": 9}):
        inputs = _inputs(model, **shape)
        if head == "ForSequenceClassification":
            inputs["labels"] = torch.arange(shape["batch"]) % 2
        if head == "ForMultipleChoice":
            inputs = {key: tensor[:, None].repeat(1, 2, 1) for key, tensor in inputs.items()}
        for one, other in zip(compiled(**inputs).to_tuple(), model(**inputs).to_tuple(), strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    assert counter.frame_count == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's inductor needs a C++ compiler")
def test_compiles_with_inductor():
    torch.compiler.reset()
    model = randomise(AlbertPlusForSequenceClassification(small_config(num_hidden_layers=2)))
    inputs = pair_inputs(120)
    with torch.no_grad():
        expected = model(**inputs, output_hidden_states=True)
        compiled = torch.compile(model, fullgraph=True)(**inputs, output_hidden_states=True)
    torch.testing.assert_close(compiled.logits, expected.logits, atol=1e-5, rtol=1e-5)
    assert len(compiled.hidden_states) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head"),
    [("all shared", head) for head in HEADS]
    + [("no norm, bottleneck, no token types", head) for head in HEADS]
    + [(name, "ForSequenceClassification") for name in list(ARCHITECTURES)[1:] if "no norm" not in name],
)
def test_exports_with_dynamic_batch_and_length(name, head):
    model = randomise(albert_plus_class(head)(small_config(**ARCHITECTURES[name])))
    choices = head == "ForMultipleChoice"

    def shaped(batch, length):
        inputs = _inputs(model, batch=batch, length=length)
        return {name: tensor[:, None].repeat(1, 2, 1) for name, tensor in inputs.items()} if choices else inputs

    axes = {0: torch.export.Dim("batch", max=64), (2 if choices else 1): torch.export.Dim("sequence", min=2, max=64)}
    inputs = shaped(3, 11)
    program = torch.export.export(model, (), inputs, dynamic_shapes=dict.fromkeys(inputs, axes))
    for shape in ((3, 11), (2, 17), (5, 9)):
        inputs = shaped(*shape)
        with torch.no_grad():
            expected, exported = model(**inputs), program.module()(**inputs)
        for output, tensor in expected.items():
            torch.testing.assert_close(exported[output], tensor, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForPreTraining"])
@every_architecture
def test_resizing_keeps_words_decoder_and_bias_together(tmp_path, fields, head):
    model = randomise(albert_plus_class(head)(small_config(**fields)))
    old = model.get_input_embeddings().weight.detach().clone()
    bias = model.predictions.decoder.bias.detach().clone()
    for size in (131, 110):
        model.resize_token_embeddings(size, mean_resizing=False)
        assert model.config.vocab_size == size
        words = model.get_input_embeddings().weight
        assert model.predictions.decoder.weight is words
        assert torch.equal(words[:110], old[:110])
        assert torch.equal(model.predictions.decoder.bias[:110], bias[:110])
    model.save_pretrained(tmp_path)
    assert "predictions.decoder.weight" not in load_file(tmp_path / "model.safetensors")
    again = type(model).from_pretrained(tmp_path).eval()
    inputs = _inputs(model)
    inputs["input_ids"] %= 110
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs)[0], model(**inputs)[0], atol=1e-6, rtol=0)


def test_without_tying_the_decoder_is_its_own(tmp_path):
    model = randomise(AlbertPlusForPreTraining(small_config(tie_word_embeddings=False)))
    assert model.predictions.decoder.weight is not model.get_input_embeddings().weight
    shared = AlbertPlusForPreTraining(small_config())
    assert model.num_parameters() == shared.num_parameters() + 120 * 16
    model.resize_token_embeddings(131, mean_resizing=False)
    model.save_pretrained(tmp_path)
    again, report = AlbertPlusForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(**pair_inputs(131))[0], model(**pair_inputs(131))[0], atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@every_architecture
def test_every_dtype_runs_and_comes_back(tmp_path, fields, dtype):
    model = randomise(AlbertPlusForSequenceClassification(small_config(**fields)))
    inputs = _inputs(model)
    with torch.no_grad():
        expected = model(**inputs).logits
        model.to(dtype).save_pretrained(tmp_path)
        again = AlbertPlusForSequenceClassification.from_pretrained(tmp_path).eval()
        assert {parameter.dtype for parameter in again.parameters()} == {dtype}
        logits = again(**inputs).logits
        assert torch.equal(logits, model(**inputs).logits)
        assert AlbertPlusForSequenceClassification.from_pretrained(tmp_path, dtype=torch.float32).dtype == torch.float32
    # Values without norms reach into the tens here, and bf16 has 8 bits.
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 5e-2}.get(dtype, 1e-5)
    assert (logits.double() - expected.double()).norm() <= tolerance * expected.double().norm().clamp(min=1)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@every_architecture
def test_loading_leaves_nothing_uninitialised(tmp_path, fields, head):
    """Models are built on the meta device and filled: what a checkpoint lacks must be initialised, not be left as the
    memory that was there. Every parameter of every head, from a checkpoint with one tensor."""
    from safetensors.torch import save_file

    model = albert_plus_class(head)(small_config(**fields))
    model.save_pretrained(tmp_path)
    save_file({"albert_plus.nothing": torch.zeros(1)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    again = albert_plus_class(head).from_pretrained(tmp_path)
    encoder = again.base_model
    assert encoder.embeddings.position_ids.tolist() == [list(range(64))]
    for name, parameter in again.named_parameters():
        if name.endswith(("bias", "up.weight")):
            assert not parameter.any(), name
        elif "layer_norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert 0.01 < float(parameter.detach().std()) < 0.03, name
    assert not encoder.embeddings.word_embeddings.weight[0].any()
