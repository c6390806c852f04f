"""Layers removed: the model without them against transformers' own with its list cut, and the choice against a brute force."""

from itertools import combinations

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification

from hf_albert_plus.compression.depth import least_missed, with_layers
from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.ranking import Ranking
from hf_albert_plus.compression.settings import PruneSettings
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.conversion.models import to_albert_plus
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.glue import get_task
from tests.support.small_models import pair_inputs, randomise, small_config


def bert(layers):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=48
    )
    return randomise(BertForSequenceClassification(config)).eval()


@pytest.mark.parametrize("kept", [[0, 2, 4], [3], [4, 1]])
def test_a_bert_without_layers(kept):
    whole = bert(5)
    shorter = with_layers(to_albert_plus(whole), kept)
    whole.bert.encoder.layer = torch.nn.ModuleList(whole.bert.encoder.layer[layer] for layer in kept)
    whole.config.num_hidden_layers = len(kept)
    inputs = pair_inputs(99)
    with torch.no_grad():
        torch.testing.assert_close(shorter(**inputs).logits, whole(**inputs).logits)


def test_blocks_that_no_layer_runs_are_gone():
    fields = {"num_hidden_layers": 4, "attention_sharing": [0, 1, 2, 1], "ffn_sharing": "all"}
    model = randomise(
        AlbertPlusForSequenceClassification(small_config(**fields, block_attention_heads=[1, 2, 3])).eval()
    )
    shorter = with_layers(model, [2, 3])
    assert shorter.config.attention_map == (1, 0)
    assert shorter.config.attention_heads == (2, 3)
    assert shorter.config.ffn_map == (0, 0)
    encoder, theirs = shorter.base_model.encoder, model.base_model.encoder
    torch.testing.assert_close(encoder.attention[0].query.weight, theirs.attention[1].query.weight, rtol=0, atol=0)
    torch.testing.assert_close(encoder.attention[1].query.weight, theirs.attention[2].query.weight, rtol=0, atol=0)
    assert sum(tensor.numel() for tensor in shorter.state_dict().values()) < sum(
        tensor.numel() for tensor in model.state_dict().values()
    )


def test_layers_that_differ_keep_their_differences():
    model = randomise(AlbertPlusForSequenceClassification(small_config(layer_rank=2, ffn_sharing=2)).eval())
    shorter = with_layers(model, [1, 3])
    encoder, theirs = shorter.base_model.encoder, model.base_model.encoder
    inputs = pair_inputs(120)
    hidden = torch.randn(2, 5, model.config.hidden_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs.run(theirs.run(hidden, None, 1, 2), None, 3, 4)
        torch.testing.assert_close(encoder(hidden), expected)
        assert shorter(**inputs).logits.shape == (3, 2)


def test_the_layer_that_goes_is_missed_least():
    """Of a BERT of transformers' own, by running it without each layer."""
    whole = bert(4)
    with torch.no_grad():  # so that layers differ in what they do
        for number, scale in enumerate((1.0, 0.05, 0.5, 0.2)):
            for name in ("attention", "intermediate", "output"):
                for parameter in getattr(whole.bert.encoder.layer[number], name).parameters():
                    if parameter.ndim == 2:
                        parameter.mul_(scale)
    batches = [pair_inputs(99, batch=2), pair_inputs(99, batch=5, length=7)]
    layers, distances = list(whole.bert.encoder.layer), {}
    with torch.no_grad():
        full = [whole(**batch).logits for batch in batches]
        for kept in combinations(range(4), 3):
            whole.bert.encoder.layer = torch.nn.ModuleList(layers[layer] for layer in kept)
            whole.config.num_hidden_layers = 3
            distances[kept] = sum(
                float((whole(**batch).logits - logits).square().sum())
                for batch, logits in zip(batches, full, strict=True)
            )
    whole.bert.encoder.layer, whole.config.num_hidden_layers = torch.nn.ModuleList(layers), 4
    model = to_albert_plus(whole)
    (first,) = least_missed(model, batches, keep=3)
    assert {first} == set(range(4)) - set(min(distances, key=distances.get))
    # Greedy: what goes next goes from what is left, whether the first is known or not.
    both = least_missed(model, batches, keep=2)
    assert both[0] == first
    assert both == least_missed(model, batches, keep=2, gone=[first])


def test_layers_heads_and_columns_go_together(teachers, data_dir, tmp_path):
    settings = PruneSettings(
        epochs=1, batch_size=8, max_length=32, depth=1, heads=0.5, columns=0.5, examples=24, multiple_of=4
    )
    record = prune(
        str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "p", settings=settings
    )
    config = AlbertPlusConfig.from_pretrained(tmp_path / "p")
    assert config.num_hidden_layers == len(record.result["layers"]) == 1
    assert sum(config.attention_heads) < config.num_attention_heads
    AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "p")


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "heads"), [(1, 0.25), (None, 0.25), (1, 0.0)])
def test_what_one_pruning_looked_at_serves_the_next(depth, heads, teachers, data_dir, tmp_path, monkeypatch):
    def pruned(name, *, depth, heads, known):
        prune(
            str(teachers / "sst2"),
            data=str(data_dir),
            task=get_task("sst2"),
            output=tmp_path / name,
            settings=PruneSettings(epochs=1, batch_size=8, max_length=32, depth=depth, heads=heads, examples=24),
            ranking=known,
        )
        return load_file(tmp_path / name / "model.safetensors")

    alone = pruned("alone", depth=depth, heads=heads, known=None)
    known = Ranking()
    pruned("before", depth=1, heads=0.5, known=known)
    for name in ("least_missed", "_by_taylor"):
        monkeypatch.delattr(f"hf_albert_plus.compression.ranking.{name}")
    torch.testing.assert_close(pruned("after", depth=depth, heads=heads, known=known), alone, rtol=0, atol=0)


def test_all_layers_are_no_choice(teachers, data_dir, tmp_path):
    settings = PruneSettings(epochs=1, batch_size=8, max_length=32, depth=99)
    with pytest.raises(InvalidInput, match=r"--depth must be below the \d+ layers that there are, got 99"):
        prune(
            str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "p", settings=settings
        )
