"""Two towers: the model against a loop by hand, its loss against numbers worked by hand, and the search against scikit-learn
and brute force."""

import json
import math
import os
import subprocess
import sys

import numpy
import pytest
import torch
import typer
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from sklearn.metrics import accuracy_score, f1_score, label_ranking_average_precision_score, roc_auc_score
from transformers import AutoModelForTextEncoding, AutoTokenizer
from typer.testing import CliRunner

import hf_albert_plus as plus
from hf_albert_plus.cli.evaluation import retrieve as verb
from hf_albert_plus.distillation.losses.two_towers import two_tower_loss
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.retrieval import ranks as ranking
from hf_albert_plus.eval.retrieval.document_index import DocumentIndex, index
from hf_albert_plus.eval.retrieval.search import retrieve
from hf_albert_plus.eval.retrieval.towers import open_towers
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.small_models import pair_inputs, randomise, small_config

SHAPES = {
    "shared": {},
    "cycle": {"attention_sharing": "cycle:2", "ffn_sharing": "none"},
    "bottleneck": {"norm_type": "no_norm", "bottleneck_size": 16, "type_vocab_size": 0},
}
TWINS = [
    {"twin_pooling": pooling, "twin_crossing": crossing}
    for pooling in ("weighted_average", "first_token")
    for crossing in ("cosine", "residual")
]
every_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: "-".join(twin.values()))


def _twin(**fields):
    return randomise(plus.AlbertPlusTwinModel(small_config(**fields)))


def _texts(model, **shape):
    inputs = pair_inputs(120, **shape)
    if model.config.type_vocab_size == 0:
        del inputs["token_type_ids"]
    return inputs


def _pairs(model):
    """Three pairs of padded texts, queries shorter than documents."""
    sides = {"query": _texts(model, length=7), "document": _texts(model, length=11)}
    return {f"{side}_{name}": tensor for side, inputs in sides.items() for name, tensor in inputs.items()}


def _vector_by_hand(model, ids, types):
    """Of one text without padding, token by token."""
    types = {} if types is None else {"token_type_ids": types[None]}
    states = model.albert_plus(ids[None], **types).last_hidden_state[0]
    if model.config.twin_pooling == "first_token":
        return states[0]
    weights = [math.exp(float(state @ model.pooling.score.weight[0])) for state in states]
    return sum(weight / sum(weights) * state for weight, state in zip(weights, states, strict=True))


def _logit_by_hand(model, query, document):
    crossing = model.crossing
    if model.config.twin_crossing == "cosine":
        cosine = (query @ document) / math.sqrt(float(query @ query) * float(document @ document))
        return crossing.scale * cosine + crossing.bias
    x = torch.stack([max(q, d) for q, d in zip(query, document, strict=True)])
    before = crossing.dense.weight @ x + crossing.dense.bias
    residual = 0.5 * before * (1 + torch.tanh(math.sqrt(2 / math.pi) * (before + 0.044715 * before**3)))  # gelu_new
    return crossing.classifier.weight[0] @ (residual + x) + crossing.classifier.bias[0]


@every_twin
@pytest.mark.parametrize("shape", SHAPES)
def test_a_score_by_hand(shape, twin):
    model = _twin(**SHAPES[shape], **twin)
    pairs = _pairs(model)
    with torch.no_grad():
        output = model(**pairs)
        for row in range(3):
            vectors = {}
            for side in ("query", "document"):
                kept = pairs[f"{side}_attention_mask"][row].bool()
                types = pairs.get(f"{side}_token_type_ids")
                ids = pairs[f"{side}_input_ids"][row][kept]
                vectors[side] = _vector_by_hand(model, ids, None if types is None else types[row][kept])
                torch.testing.assert_close(output[f"{side}_embedding"][row], vectors[side], atol=2e-5, rtol=2e-5)
            expected = _logit_by_hand(model, vectors["query"], vectors["document"])
            torch.testing.assert_close(output.logits[row], expected, atol=2e-5, rtol=2e-5)
    assert output.logits.shape == (3,)


@every_twin
def test_forward_is_two_encodings_crossed_and_one_query_meets_all(twin):
    model = _twin(**twin)
    pairs = _pairs(model)
    with torch.no_grad():
        output = model(**pairs)
        query, document = (
            model.encode(*(pairs[f"{side}_{name}"] for name in ("input_ids", "attention_mask", "token_type_ids")))
            for side in ("query", "document")
        )
        assert torch.equal(output.logits, model.cross(query, document))
        assert torch.equal(output.query_embedding, query)
        one_by_one = torch.cat([model.cross(query[:1], one[None]) for one in document])
        torch.testing.assert_close(model.cross(query[:1], document), one_by_one)


@every_twin
def test_padding_changes_nothing(twin):
    model = _twin(**twin)
    inputs = _texts(model, length=11)
    longer = {name: torch.nn.functional.pad(tensor, (0, 6)) for name, tensor in inputs.items()}
    longer["input_ids"][longer["attention_mask"] == 0] = 17
    with torch.no_grad():
        torch.testing.assert_close(model.encode(**longer), model.encode(**inputs), atol=1e-6, rtol=1e-5)


@every_twin
def test_sdpa_is_eager(twin):
    model = _twin(**twin)
    pairs = _pairs(model)
    with torch.no_grad():
        assert model.config._attn_implementation == "sdpa"
        sdpa = model(**pairs).logits
        model.set_attn_implementation("eager")
        torch.testing.assert_close(model(**pairs).logits, sdpa, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("labels", [[0, 1, 1], [0.2, 1.0, 0.55]])
def test_loss_of_labels_and_soft_labels(labels):
    model = _twin()
    output = model(**_pairs(model), labels=torch.tensor(labels))
    p = torch.sigmoid(output.logits)
    expected = -sum(y * torch.log(p[i]) + (1 - y) * torch.log(1 - p[i]) for i, y in enumerate(labels)) / 3
    torch.testing.assert_close(output.loss, expected)
    # A Trainer that accumulates says how many pairs its step has.
    shared = model(**_pairs(model), labels=torch.tensor(labels), num_items_in_batch=12).loss
    torch.testing.assert_close(shared, expected / 4)


def test_outputs_as_a_tuple():
    model = _twin()
    outputs = model(**_pairs(model), labels=torch.tensor([0, 1, 1]), return_dict=False)
    assert [tuple(tensor.shape) for tensor in outputs] == [(), (3,), (3, 32), (3, 32)]


def test_both_towers_learn_in_one_encoder():
    model = _twin(hidden_dropout_prob=0.0).train()
    pairs = _pairs(model)
    model(**pairs, labels=torch.tensor([0, 1, 1])).loss.backward()
    together = model.albert_plus.embeddings.projection.weight.grad.clone()
    gradients = []
    for side in ("query", "document"):
        model.zero_grad()
        output = model(**pairs)
        vectors = {"query": output.query_embedding, "document": output.document_embedding}
        vectors["document" if side == "query" else "query"] = vectors[
            "document" if side == "query" else "query"
        ].detach()
        logits = model.cross(vectors["query"], vectors["document"])
        torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor([0.0, 1, 1])).backward()
        gradients.append(model.albert_plus.embeddings.projection.weight.grad.clone())
    assert all(gradient.abs().max() > 0 for gradient in gradients)
    torch.testing.assert_close(together, sum(gradients), atol=1e-6, rtol=1e-4)


@every_twin
@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_are_the_encoders_once_and_those_of_the_crossing(shape, twin):
    config = small_config(**SHAPES[shape], **twin)
    encoder = plus.AlbertPlusModel(config, add_pooling_layer=False).num_parameters()
    pooling = {"weighted_average": 32, "first_token": 0}[twin["twin_pooling"]]
    crossing = {"cosine": 2, "residual": 32 * 32 + 32 + 32 + 1}[twin["twin_crossing"]]
    assert plus.AlbertPlusTwinModel(config).num_parameters() == encoder + pooling + crossing


@every_twin
@pytest.mark.parametrize("shape", SHAPES)
def test_save_and_load_are_exact(tmp_path, shape, twin):
    """In the weights. The last bit of a product also follows how they lie in memory."""
    model = _twin(**SHAPES[shape], **twin)
    model.save_pretrained(tmp_path)
    for opener in (plus.AlbertPlusTwinModel, AutoModelForTextEncoding):
        again, report = opener.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, again.state_dict()[name]), name
        with torch.no_grad():
            logits, expected = (one.eval()(**_pairs(model)).logits for one in (again, model))
            torch.testing.assert_close(logits, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("head", ["Model", "ForMaskedLM"])
def test_towers_start_from_an_encoder(tmp_path, head):
    """What is not in its checkpoint starts as it does in a new model, not as whatever lay in memory."""
    encoder = randomise(getattr(plus, f"AlbertPlus{head}")(small_config()))
    encoder.save_pretrained(tmp_path)
    model, report = plus.AlbertPlusTwinModel.from_pretrained(tmp_path, output_loading_info=True)
    assert set(report["missing_keys"]) == {"pooling.score.weight", "crossing.scale", "crossing.bias"}
    assert (model.crossing.scale.item(), model.crossing.bias.item()) == (5.0, -2.5)
    assert 0 < model.pooling.score.weight.abs().max().item() < 0.2
    for name, tensor in encoder.base_model.state_dict().items():
        if not name.startswith("pooler."):
            assert torch.equal(model.albert_plus.state_dict()[name], tensor), name


@pytest.mark.slow
def test_a_checkpoint_opens_without_the_package(tmp_path):
    model = _twin(twin_crossing="residual")
    model.save_pretrained(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["auto_map"]["AutoModelForTextEncoding"] == "twin_albert_plus.AlbertPlusTwinModel"
    assert "AutoModelForTextEncoding" not in small_config().auto_map, "other heads are saved without the towers' file"
    script = """
import json, sys, torch, transformers
sys.modules["hf_albert_plus"] = None
model = transformers.AutoModelForTextEncoding.from_pretrained("saved", trust_remote_code=True).eval()
assert type(model).__module__.startswith("transformers_modules."), type(model)
ids = torch.arange(5, 29).reshape(2, 12)
print(json.dumps(model(ids, None, ids + 40, None).logits.tolist()))
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home")}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    ids = torch.arange(5, 29).reshape(2, 12)
    with torch.no_grad():
        expected = model(ids, None, ids + 40, None).logits.tolist()
    assert json.loads(ran.stdout.splitlines()[-1]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"twin_pooling": "mean"}, ["twin_pooling", "'mean'", "weighted_average, first_token"]),
        ({"twin_crossing": "dot"}, ["twin_crossing", "'dot'", "cosine, residual"]),
    ],
)
def test_other_poolings_and_crossings_are_refused(fields, words):
    with pytest.raises(StrictDataclassError) as raised:
        small_config(**fields)
    for word in words:
        assert word in str(raised.value)


def test_distillation_loss_by_hand():
    """At T = 2: logits (0, 2 ln 3) give the teacher p = 3/4, a student's 2 ln 4 gives σ = 4/5; logits (0, 0) and 0 give
    halves."""
    teacher = torch.tensor([[0.0, 2 * math.log(3)], [1.0, 1.0]])
    student = torch.tensor([2 * math.log(4), 0.0])
    first = -(0.75 * math.log(0.8) + 0.25 * math.log(0.2))
    expected = 4 * (first + math.log(2)) / 2
    assert two_tower_loss(student, teacher, temperature=2).item() == pytest.approx(expected, rel=1e-6)


def test_distillation_gradient_is_nothing_at_the_teacher_and_keeps_its_size():
    """T·(σ(z / T) - p): about a quarter of the logits' distance at high temperatures."""
    teacher = torch.tensor([[-0.5, 1.0], [0.3, 0.1]])
    at_teacher = (teacher[:, 1] - teacher[:, 0]).requires_grad_()
    two_tower_loss(at_teacher, teacher, temperature=2).backward()
    torch.testing.assert_close(at_teacher.grad, torch.zeros(2), atol=1e-7, rtol=0)
    away = (at_teacher.detach() + 1).requires_grad_()
    two_tower_loss(away, teacher, temperature=1000).backward()
    torch.testing.assert_close(away.grad, torch.full((2,), 1 / 4 / 2), atol=1e-3, rtol=0)


def test_a_teacher_of_three_classes_is_refused():
    with pytest.raises(InvalidInput, match=r"a teacher's two, got \(4,\) and \(4, 3\)"):
        two_tower_loss(torch.zeros(4), torch.zeros(4, 3), temperature=2)


def _search_by_sorting(scores, chosen):
    """Mean position over both ends of each tie, from sorted lists."""
    from_above, from_below = sorted(scores, reverse=True), sorted(scores)
    return [(from_above.index(scores[i]) + 1 + len(scores) - from_below.index(scores[i])) / 2 for i in chosen]


@pytest.mark.parametrize("distinct", [3, 1000])
def test_ranks_and_what_is_made_of_them(distinct):
    generator = numpy.random.default_rng(0)
    scores = generator.integers(distinct, size=(40, 30)).astype(float)
    answers = [sorted(generator.choice(30, size=generator.integers(1, 5), replace=False)) for _ in range(40)]
    expected = [_search_by_sorting(list(row), chosen) for row, chosen in zip(scores, answers, strict=True)]
    ranks = [ranking.mean_ranks(row, chosen) for row, chosen in zip(scores, answers, strict=True)]
    for ours, theirs in zip(ranks, expected, strict=True):
        assert ours.tolist() == theirs
    assert ranking.reciprocal_ranks(ranks) == pytest.approx([100 / min(of_query) for of_query in expected])
    for k in (1, 10):
        shares = [sum(rank <= k for rank in of_query) / len(of_query) for of_query in expected]
        assert ranking.recall_at(ranks, k) == pytest.approx(100 * sum(shares) / len(shares))


def test_mrr_of_single_answers_is_scikit_learns():
    """With one answer a query its label ranking average precision is MRR."""
    generator = numpy.random.default_rng(1)
    scores, answers = generator.random((25, 12)), generator.integers(12, size=25)
    theirs = label_ranking_average_precision_score(numpy.eye(12, dtype=int)[answers], scores)
    ranks = [ranking.mean_ranks(row, [int(answer)]) for row, answer in zip(scores, answers, strict=True)]
    assert ranking.reciprocal_ranks(ranks).mean() == pytest.approx(100 * theirs)


def test_equal_scores_gain_nothing():
    ranks = ranking.mean_ranks(numpy.zeros(9), [0, 4])
    assert ranks.tolist() == [5, 5]
    assert ranking.recall_at([ranks], 1) == 0


@pytest.mark.parametrize("distinct", [4, 1000])
def test_roc_auc_is_scikit_learns(distinct):
    generator = numpy.random.default_rng(2)
    scores, labels = generator.integers(distinct, size=200), generator.integers(2, size=200)
    assert ranking.roc_auc(scores, labels) == pytest.approx(100 * roc_auc_score(labels, scores))
    assert ranking.roc_auc(scores, numpy.ones(200)) is None


def test_interval_of_a_mean():
    """Wide enough for the normal approximation's 1.96 standard errors, and a point where nothing varies."""
    values = numpy.random.default_rng(3).normal(50, 10, size=400)
    low, high = ranking.mean_interval(values)
    error = 1.96 * values.std() / math.sqrt(400)
    assert (low, high) == pytest.approx((values.mean() - error, values.mean() + error), abs=0.2)
    assert ranking.mean_interval(values) == [low, high]
    assert ranking.mean_interval(numpy.full(7, 25.0)) == [25, 25]


@pytest.fixture(scope="module")
def pairs_dir(tmp_path_factory, data_dir):
    """The demo's pairs, and some of their texts in other pairs: queries with several answers, shared documents."""
    rows = load_split(str(data_dir), get_task("mrpc"), "validation").to_list()
    again = [(0, 5, 1), (0, 9, 1), (1, 0, 1), (2, 3, 0), (0, 0, 1)]
    rows += [
        {**rows[0], "sentence1": rows[i]["sentence1"], "sentence2": rows[j]["sentence2"], "label": label}
        for i, j, label in again
    ]
    directory = tmp_path_factory.mktemp("pairs")
    (directory / "mrpc").mkdir()
    Dataset.from_list(rows).to_parquet(directory / "mrpc" / "validation.parquet")
    return directory


@pytest.fixture(scope="module")
def twin_dir(tmp_path_factory, tokenizer_dir, pairs_dir):
    directory = tmp_path_factory.mktemp("twin")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    model = _twin(vocab_size=len(tokenizer))
    # Amid the logits at random weights, so that both labels are predicted.
    rows = load_split(str(pairs_dir), get_task("mrpc"), "validation").to_list()
    with torch.no_grad():
        queries, documents = (
            torch.cat([model.encode(**tokenizer(row[column], return_tensors="pt")) for row in rows])
            for column in ("sentence1", "sentence2")
        )
        logits = model.cross(queries, documents).unique()
        model.crossing.bias -= logits[len(logits) // 2 - 1 : len(logits) // 2 + 1].mean()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def found(twin_dir, pairs_dir, tmp_path_factory):
    """A search with an index, and the file of that."""
    file = tmp_path_factory.mktemp("index") / "mrpc.safetensors"
    options = {"data": str(pairs_dir), "task": get_task("mrpc"), "max_length": 48, "threads": 1, "index_file": file}
    return retrieve(twin_dir, **options), options


def test_search_against_brute_force(twin_dir, pairs_dir, found):
    """Every text encoded by itself, every pair scored by itself, the answers counted with scikit-learn."""
    document, _ = found
    rows = load_split(str(pairs_dir), get_task("mrpc"), "validation").to_list()
    model = plus.AlbertPlusTwinModel.from_pretrained(twin_dir).eval()
    tokenizer = AutoTokenizer.from_pretrained(twin_dir)

    def vector(text):
        return model.encode(**tokenizer(text, return_tensors="pt", return_token_type_ids=True))

    with torch.no_grad():
        vectors = {text: vector(text) for row in rows for text in (row["sentence1"], row["sentence2"])}
        documents = list({row["sentence2"]: None for row in rows})
        answers = {}
        for row in rows:
            if row["label"] == 1:
                answers.setdefault(row["sentence1"], set()).add(row["sentence2"])
        reciprocal, hits = [], []
        for query, right in answers.items():
            scores = [float(model.cross(vectors[query], vectors[text])) for text in documents]
            ranks = _search_by_sorting(scores, [documents.index(text) for text in right])
            reciprocal.append(1 / min(ranks))
            hits.append(sum(rank <= 10 for rank in ranks) / len(ranks))
        logits = [float(model.cross(vectors[row["sentence1"]], vectors[row["sentence2"]])) for row in rows]
    labels, predicted = [row["label"] for row in rows], [int(logit > 0) for logit in logits]
    assert 0 < sum(predicted) < len(predicted)
    assert max(map(len, answers.values())) == 3
    assert document["queries"] == len(answers)
    assert document["documents"] == len(documents)
    assert document["metrics"]["mrr"] == pytest.approx(100 * numpy.mean(reciprocal), abs=1e-4)
    assert document["metrics"]["recall@10"] == pytest.approx(100 * numpy.mean(hits))
    low, high = document["intervals"]["mrr"]
    assert low < document["metrics"]["mrr"] < high
    assert document["pairs"]["roc_auc"] == pytest.approx(100 * roc_auc_score(labels, logits))
    assert document["pairs"]["accuracy"] == pytest.approx(100 * accuracy_score(labels, predicted))
    assert document["pairs"]["f1"] == pytest.approx(100 * f1_score(labels, predicted))
    assert set(document["latency"]) == {"documents", "rounds", "kept_ms", "encoded_ms", "speedup"}
    json.dumps(document, allow_nan=False)


def test_an_index_is_read_instead_of_encoding(twin_dir, found, monkeypatch):
    document, options = found
    with safe_open(options["index_file"], "pt") as file:
        assert file.get_tensor("vectors").shape == (document["documents"], 32)
    monkeypatch.setattr(DocumentIndex, "build", None)
    again = retrieve(twin_dir, **options)
    assert again["metrics"] == document["metrics"]
    assert again["pairs"] == document["pairs"]


def test_stale_indices_are_refused(tmp_path, twin_dir, tokenizer_dir):
    texts = ["a film", "the plot", "an actor"]
    file = twin_dir / "index.safetensors"  # beside the weights: it must not make itself stale
    towers = open_towers(twin_dir, max_length=16)
    made = index(towers, texts, file=file)
    assert torch.equal(index(open_towers(twin_dir, max_length=16), texts, file=file).vectors, made.vectors)
    for changed in (texts[::-1], texts[:2], ["a filmthe plot", "", "an actor"]):
        with pytest.raises(InvalidInput, match="made from another list of documents; remove it"):
            index(towers, changed, file=file)
    with pytest.raises(InvalidInput, match="made from another --max-length"):
        index(open_towers(twin_dir, max_length=8), texts, file=file)
    other = plus.AlbertPlusTwinModel.from_pretrained(twin_dir)
    with torch.no_grad():
        other.crossing.bias.add_(1)
    other.save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(tmp_path / "other")
    with pytest.raises(InvalidInput, match="made from another model"):
        index(open_towers(tmp_path / "other", max_length=16), texts, file=file)
    file.write_text("no tensors")
    with pytest.raises(InvalidInput, match="readable safetensors file"):
        index(towers, texts, file=file)
    file.unlink()


@pytest.mark.parametrize("task", ["sst2", "stsb", "rte"])
def test_tasks_without_answers_are_refused(twin_dir, pairs_dir, task):
    with pytest.raises(InvalidInput, match=f"got '{task}'; use one of mrpc, qqp"):
        retrieve(twin_dir, data=str(pairs_dir), task=get_task(task))


def test_other_models_and_too_long_texts_are_refused(classifier_dir, twin_dir):
    with pytest.raises(InvalidInput, match="two towers.*got AlbertPlusForSequenceClassification"):
        open_towers(classifier_dir, max_length=16)
    with pytest.raises(InvalidInput, match="must not exceed the model's 64 positions, got 65"):
        open_towers(twin_dir, max_length=65)


def test_logits_that_are_no_numbers_are_refused(twin_dir):
    towers = open_towers(twin_dir, max_length=16)
    vectors = towers.encode(["a film", "the plot"])
    vectors[1, 0] = math.nan
    with pytest.raises(InvalidInput, match="logits must be finite"):
        towers.cross(vectors[:1], vectors)


def test_the_verb_prints_a_table_and_writes_every_number(tmp_path, twin_dir, pairs_dir, found):
    app = typer.Typer()
    app.command()(verb)
    words = [str(twin_dir), "--task", "mrpc", "--data", str(pairs_dir), "--max-length", "48", "--threads", "1"]
    words += ["--index", str(tmp_path / "index.safetensors"), "--json", str(tmp_path / "found.json")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    document, expected = json.loads((tmp_path / "found.json").read_text()), found[0]
    assert document["metrics"] == expected["metrics"]
    assert f"{expected['metrics']['mrr']:.2f}" in result.stdout
    for words in ("MRR", "recall@10", "ROC AUC of pairs", f"{expected['queries']} queries"):
        assert words in result.stdout
    assert (tmp_path / "index.safetensors").is_file()
