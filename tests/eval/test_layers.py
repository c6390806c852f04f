"""What layers do to texts, against numpy over transformers' own outputs, text by text, and what cannot be looked into."""

import json

import numpy
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, RobertaConfig, RobertaModel

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.layers import reading
from hf_albert_plus.eval.layers.measures import LayerMeasures, alignment
from hf_albert_plus.eval.layers.reading import names_of, read_layers
from hf_albert_plus.modeling_albert_plus import AlbertPlusModel
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, randomise, small_config

TEXTS = ["the film was good", "bad", "a very moving story and a dull cast but not long", "never", "good and bad"]


def by_hand(source, *columns):
    """The measures by numpy: each text alone, without padding, through transformers' model of the directory."""
    model = AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(source)
    distances, angles, entropies, states = [], [], [], []
    for text in zip(*columns, strict=True):
        with torch.no_grad():
            output = model(**tokenizer(*text, return_tensors="pt"), output_hidden_states=True, output_attentions=True)
        hidden = numpy.stack([state[0].numpy() for state in output.hidden_states]).astype(float)
        moved = numpy.diff(hidden, axis=0)
        distances.append(numpy.sqrt((moved**2).sum(-1)))
        norms = numpy.sqrt((hidden**2).sum(-1))
        cosines = (hidden[1:] * hidden[:-1]).sum(-1) / (norms[1:] * norms[:-1])
        angles.append(numpy.degrees(numpy.arccos(cosines)))
        weights = numpy.stack([attention[0].numpy() for attention in output.attentions]).astype(float)
        entropies.append(-(weights * numpy.log(weights)).sum(-1))
        states.append(hidden)
    tokens = numpy.concatenate(states, axis=1)
    # With Gram matrices of the tokens, which the definition of CKA has (Kornblith et al. 2019, eq. 3).
    centre = numpy.eye(tokens.shape[1]) - 1 / tokens.shape[1]
    grams = [centre @ state @ state.T @ centre for state in tokens]
    likeness = [[(a * b).sum() / numpy.sqrt((a * a).sum() * (b * b).sum()) for b in grams] for a in grams]
    return {
        "distances": numpy.concatenate(distances, axis=1).mean(1),
        "angles": numpy.concatenate(angles, axis=1).mean(1),
        "entropies": numpy.concatenate(entropies, axis=2).mean(2),
        "likeness": numpy.array(likeness),
    }


@pytest.fixture(scope="module")
def roberta_dir(tmp_path_factory, tokenizer_dir):
    """Somebody else's encoder, whose positions begin past the padding token and which reads no token types."""
    directory = tmp_path_factory.mktemp("roberta")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    config = RobertaConfig(**{**SMALL, "vocab_size": len(tokenizer)}, type_vocab_size=1, pad_token_id=0)
    randomise(RobertaModel(config)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.parametrize("model", ["classifier_dir", "encoder_dir", "roberta_dir"])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("budget", [16, 2048])
def test_figures_by_hand(model, pairs, budget, request, monkeypatch):
    """Alone in a batch or beside longer texts: padding is no token."""
    monkeypatch.setattr(reading, "_BATCH_TOKENS", budget)
    source = str(request.getfixturevalue(model))
    columns = [TEXTS, TEXTS[::-1]] if pairs else [TEXTS]
    found, expected = read_layers(source, columns, name="it", max_length=48), by_hand(source, *columns)
    for name, values in expected.items():
        numpy.testing.assert_allclose(numpy.array(getattr(found, name)), values, rtol=2e-4, atol=2e-5, err_msg=name)
    assert found.texts == 5
    tokenizer = AutoTokenizer.from_pretrained(source)
    assert found.tokens == sum(len(ids) for ids in tokenizer(*columns)["input_ids"])
    assert numpy.ptp(found.distances) > 0.01


def test_a_model_of_shared_layers_is_its_unshared_copy(tmp_path, tokenizer_dir):
    """The one block of four layers is looked at in each of them."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    shared = randomise(AlbertPlusModel(small_config(vocab_size=len(tokenizer))))
    unshared = AlbertPlusModel(
        small_config(vocab_size=len(tokenizer), attention_sharing="none", ffn_sharing="none")
    ).eval()
    state = shared.state_dict()
    unshared.load_state_dict(
        {
            name: state[name.replace(f".{name.split('.')[2]}.", ".0.", 1) if name.startswith("encoder.") else name]
            for name in unshared.state_dict()
        }
    )
    found = []
    for name, model in (("shared", shared), ("unshared", unshared)):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        found.append(read_layers(str(tmp_path / name), [TEXTS], name=name, max_length=48))
    for measure in ("distances", "angles", "entropies", "likeness"):
        one, other = (numpy.array(getattr(each, measure)) for each in found)
        numpy.testing.assert_allclose(one, other, rtol=1e-5)
    assert len({round(distance, 3) for distance in found[0].distances}) == 4


def test_alignment_knows_rotations_and_factors():
    """By its properties: 1 for a state turned, stretched and moved; 0 for one that does not vary; little for another."""
    generator = torch.Generator().manual_seed(0)
    state, other = (torch.randn(400, 8, generator=generator) for _ in range(2))
    turned = 3 * state @ torch.linalg.qr(torch.randn(8, 8, generator=generator)).Q + 5
    found = numpy.array(alignment([state, turned, other, torch.ones(400, 8)]))
    numpy.testing.assert_allclose(found, found.T)
    numpy.testing.assert_allclose(found[0, :2], 1, rtol=1e-5)
    assert found[0, 2] < 0.05
    assert not found[3].any()


def test_likeness_is_that_of_tokens_of_all_texts(monkeypatch):
    """Of more tokens than are compared, those that are drawn come from all batches, each once."""
    measures = LayerMeasures(tokens=5000)
    numbers = torch.arange(5000, dtype=torch.float32)
    for start in range(0, 5000, 100):
        state = numbers[start : start + 100].view(10, 10, 1)
        measures.add([state, state], [torch.full((10, 2, 10, 10), 0.1)], torch.ones(10, 10))
    kept = torch.cat(measures.states[0]).flatten()
    assert len(kept.unique()) == len(kept) == 2048
    assert abs(float(kept.mean()) - 2500) < 4 * 1443 / 2048**0.5
    assert measures.figures("it").entropies == [[pytest.approx(numpy.log(10))] * 2]


def test_several_models_share_a_plot(classifier_dir, encoder_dir, data_dir, tmp_path):
    words = [classifier_dir, encoder_dir, "--data", data_dir, "--task", "sst2", "--rows", 12, "--max-length", 32]
    printed = invoke("inspect", *words, "--out", tmp_path / "out").stdout
    assert all(f"{path.name}: 12 texts" in printed for path in (classifier_dir, encoder_dir))
    assert str(tmp_path / "out") in printed
    record = read_record(tmp_path / "out")
    assert record.stage == "inspect"
    assert {f"model {classifier_dir.name}", f"model {encoder_dir.name}", "texts"} == set(record.parents)
    written = json.loads((tmp_path / "out" / "layers.json").read_text())
    texts = load_split(str(data_dir), get_task("sst2"), "validation")["sentence"][:12]
    numpy.testing.assert_allclose(written[1]["angles"], by_hand(encoder_dir, texts)["angles"], rtol=1e-4)
    plots = [(tmp_path / "out" / name).read_text() for name in ("layers.svg", "likeness.svg")]
    for path in (classifier_dir, encoder_dir):
        assert all(f">{path.name}</text>" in plot for plot in plots)
    assert ">angle, degrees</text>" in plots[0]
    # What is done is not repeated; without a directory the same numbers are printed.
    again = json.loads(invoke("inspect", *words, "--out", tmp_path / "out", "--json").stdout)
    alone = json.loads(invoke("inspect", *words, "--json").stdout)
    assert written == again
    assert [each["name"] for each in alone] == [each["name"] for each in written]
    numpy.testing.assert_allclose(alone[0]["distances"], written[0]["distances"], rtol=1e-6)


def test_texts_of_a_file(classifier_dir, tmp_path):
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS))
    words = ["--text", tmp_path / "texts.txt", "--max-length", 32, "--json"]
    (found,) = json.loads(invoke("inspect", classifier_dir, *words, "--rows", 3).stdout)
    assert found["texts"] == 3
    numpy.testing.assert_allclose(found["distances"], by_hand(classifier_dir, TEXTS[:3])["distances"], rtol=1e-4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{model}"], "the texts to read must be those of --data, or of --text, got neither; add --text FILE"),
        (["{model}", "--text", "{texts}", "--data", "{data}", "--task", "sst2"], "got both; leave out one"),
        (["{model}", "--text", "{texts}", "--split", "test"], "--split is of --data"),
        (["{model}", "--text", "{empty}"], "--text must hold texts, one a line, got none in"),
        (["{model}", "{model}", "--text", "{texts}"], "models must differ, got .* twice"),
        (["{model}", "--text", "nowhere.txt"], "--text must be an existing file"),
        (["nowhere/at/all", "--text", "{texts}"], "MODEL must be a model directory"),
        (["{model}", "--text", "{texts}", "--rows", "0"], "--rows must be at least 1"),
        (["{model}", "--text", "{texts}", "--max-length", "999"], "--max-length must not exceed the model's 64 positions"),
        (["{bare}", "--text", "{texts}"], "must hold its tokenizer"),
    ],
)  # fmt: skip
def test_what_cannot_be_looked_into(words, said, classifier_dir, data_dir, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    (tmp_path / "empty.txt").write_text(" \n\n")
    AlbertPlusModel(small_config()).save_pretrained(tmp_path / "bare")
    places = {"model": classifier_dir, "data": data_dir, "texts": tmp_path / "texts.txt", "bare": tmp_path / "bare"}
    places["empty"] = tmp_path / "empty.txt"
    lengths = [] if "--max-length" in words else ["--max-length", 32]
    with pytest.raises(InvalidInput, match=said):
        invoke("inspect", *(word.format(**places) for word in words), *lengths, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_models_are_called_by_what_tells_them_apart(tmp_path):
    for path in ("a/model", "b/model", "other"):
        (tmp_path / path).mkdir(parents=True)
    sources = [str(tmp_path / path) for path in ("a/model", "b/model", "other")]
    assert names_of(sources) == [sources[0], sources[1], "other"]
