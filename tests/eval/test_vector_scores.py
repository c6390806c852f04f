"""Scores of vectors: the cosine of pairs against scipy, a search against brute force, the floor, and what a batch does to vectors."""

import json

import numpy
import pyarrow as pa
import pyarrow.csv
import pytest
import scipy.stats
import torch
from transformers import AutoModel, AutoTokenizer

from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.floor.static_embeddings import StaticEmbeddings
from hf_albert_plus.eval.load.neighbours import bench_invariance
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.measured_documents import read_scores
from hf_albert_plus.eval.retrieval.search import retrieve
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import EvalSettings, InvarianceSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.eval.vector_targets import STATIC
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke

SHORT = EvalSettings(max_length=32)
STSB = get_task("stsb")


@pytest.fixture(scope="module")
def pairs(data_dir):
    return load_split(str(data_dir), STSB, "validation")


def by_hand(directory, texts):
    """The means of the real tokens over their lengths, text by text."""
    tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory).eval()
    with torch.no_grad():
        means = [
            model(**tokenizer([text], truncation=True, max_length=32, return_tensors="pt")).last_hidden_state[0].mean(0)
            for text in texts
        ]
    return numpy.array([(mean / mean.norm()).double().tolist() for mean in means])


def cosines_by_hand(first, second):
    return [a @ b / numpy.linalg.norm(a) / numpy.linalg.norm(b) for a, b in zip(first, second, strict=True)]


def test_the_cosine_of_pairs_is_scored_as_scipy_does(sentence_dir, vectors_dir, data_dir, pairs):
    """In torch by modules.json, and by a graph that pools; with intervals, as any row."""
    targets = [parse_target(f"enc={sentence_dir}"), parse_target(f"enc={vectors_dir}:onnx")]
    scores = score_targets(targets, data=str(data_dir), task=STSB, settings=SHORT)
    cosines = cosines_by_hand(*(by_hand(sentence_dir, pairs[column][:]) for column in STSB.columns))
    expected = {
        "spearman": 100 * scipy.stats.spearmanr(cosines, pairs["label"][:]).statistic,
        "pearson": 100 * scipy.stats.pearsonr(cosines, pairs["label"][:]).statistic,
    }
    assert [row.label for row in scores.rows] == ["enc torch fp32", "enc onnx fp32"]
    for row in scores.rows:
        assert row.runs[0].predictions == pytest.approx(cosines, abs=1e-4)
        assert row.metrics["pearson"] == pytest.approx(expected["pearson"], abs=0.05)
        low, high = row.intervals["pearson"]
        assert low < row.metrics["pearson"] < high
    # Ranks of the very numbers that were scored: close cosines change places from one library to the next.
    for row in scores.rows:
        ranked = scipy.stats.spearmanr(row.runs[0].predictions, pairs["label"][:]).statistic
        assert row.metrics["spearman"] == pytest.approx(100 * ranked, abs=0.05)
    assert scores.rows[0].metrics["spearman"] == pytest.approx(expected["spearman"], abs=1.0)


def test_the_floor_is_a_row_of_the_same_table(sentence_dir, encoder_dir, data_dir, pairs, tmp_path):
    file = tmp_path / "scores.json"
    printed = invoke(
        "eval", f"enc={sentence_dir}", "--static", encoder_dir, "--task", "stsb", "--data", data_dir, "--max-length", 32,
        "--threads", 1, "--json", file,
    ).output  # fmt: skip
    assert "text to vector" in printed
    scores = read_scores(file)
    encoder, static = scores.rows
    assert (static.label, static.runtime) == (STATIC, "floor")
    texts = [text for column in STSB.columns for text in pairs[column][:]]
    vectors = StaticEmbeddings.of(texts, teacher=str(encoder_dir))
    expected = cosines_by_hand(*(vectors.vectors(pairs[column][:]) for column in STSB.columns))
    assert static.runs[0].predictions == pytest.approx(expected, abs=1e-5)
    assert static.runs[0].file_bytes == vectors.vectors_VD.nbytes
    assert encoder.examples == static.examples == len(pairs)


def test_encoders_stand_beside_classifiers_and_on_data_of_ones_own(sentence_dir, teachers, data_dir, pairs, tmp_path):
    """A cosine has no error in the unit of the numbers."""
    targets = [parse_target(f"zero-shot={sentence_dir}"), parse_target(f"tuned={teachers / 'stsb'}")]
    both = score_targets(targets, data=str(data_dir), task=STSB, settings=SHORT)
    assert [row.name for row in both.rows] == ["zero-shot", "tuned"]
    file = tmp_path / "pairs.csv"
    table = pa.table({"one": pairs["sentence1"][:], "other": pairs["sentence2"][:], "near": pairs["label"][:]})
    pyarrow.csv.write_csv(table, file)
    out = tmp_path / "out"
    invoke(
        "eval", sentence_dir, "--data", file, "--validation", file, "--text-column", "one", "--text-pair-column", "other",
        "--label-column", "near", "--kind", "number", "--max-length", 32, "--threads", 1, "--out", out,
    )  # fmt: skip
    (row, *_) = read_scores(out / "scores.json").rows
    assert row.examples == len(pairs)
    assert row.metrics["rmse"] is None
    assert row.intervals["rmse"] is None
    assert row.metrics["pearson"] is not None


def test_a_search_is_that_of_brute_force(vectors_dir, sentence_dir, data_dir, tmp_path):
    task, file = get_task("mrpc"), tmp_path / "index.safetensors"
    rows = load_split(str(data_dir), task, "validation")
    options = {"data": str(data_dir), "task": task, "max_length": 32, "threads": 1}
    document = retrieve(f"{vectors_dir}:onnx", index_file=file, **options)
    documents = list(dict.fromkeys(rows["sentence2"][:]))
    answers = {}
    for query, text, label in zip(rows["sentence1"][:], rows["sentence2"][:], rows["label"][:], strict=True):
        if label == 1:
            answers.setdefault(query, set()).add(text)
    similar = by_hand(sentence_dir, list(answers)) @ by_hand(sentence_dir, documents).T
    ranks = [
        [1 + sum(other > line[documents.index(text)] + 1e-6 for other in line) for text in right]
        for line, right in zip(similar, answers.values(), strict=True)
    ]
    reciprocal = numpy.mean([100 / min(each) for each in ranks])
    assert document["metrics"]["mrr"] == pytest.approx(reciprocal, abs=0.5)
    for k in (1, 10):
        recall = numpy.mean([100 * numpy.mean([rank <= k for rank in each]) for each in ranks])
        assert document["metrics"][f"recall@{k}"] == pytest.approx(recall, abs=1.0)
    assert set(document["pairs"]) == {"examples", "roc_auc"}
    assert (document["queries"], document["documents"]) == (len(answers), len(documents))
    assert retrieve(f"{vectors_dir}:onnx", index_file=file, **options)["metrics"] == document["metrics"]
    with pytest.raises(InvalidInput, match="made from another model"):
        retrieve(f"{vectors_dir}:onnx-int8", index_file=file, **options)


def test_the_verb_searches_with_the_floor(encoder_dir, data_dir, tmp_path):
    file = tmp_path / "floor.json"
    printed = invoke(
        "retrieve", "--static", encoder_dir, "--task", "mrpc", "--data", data_dir, "--threads", 1, "--json", file
    ).output
    document = json.loads(file.read_text())
    assert document["directory"] == f"{STATIC} of {encoder_dir}"
    assert 0 < document["metrics"]["mrr"] <= 100
    assert "ROC AUC of pairs" in printed
    assert "accuracy of pairs" not in printed


def test_int8_vectors_are_near_and_the_same_in_any_batch(sentence_dir, vectors_dir, data_dir, pairs, tmp_path):
    file = tmp_path / "invariance.json"
    words = ["--data", data_dir, "--task", "stsb", "--rows", 12, "--batches", 5, "--padded-to", 40, "--threads", 1]
    printed = invoke(
        "bench", "invariance", f"enc={vectors_dir}:onnx-int8", f"enc={vectors_dir}:onnx", "--baseline", f"enc={sentence_dir}",
        *words, "--json", file,
    ).output  # fmt: skip
    document = json.loads(file.read_text())
    assert "least cosine" in printed
    assert "clients" not in document
    texts = [text for place in range(12) for text in (pairs["sentence1"][place], pairs["sentence2"][place])]
    expected = by_hand(sentence_dir, texts)
    for row, runtime in zip(document["rows"], ("onnx-int8", "onnx"), strict=True):
        found = cosines_by_hand(TextEncoder(vectors_dir, runtime).encode(texts, batch_size=1), expected)
        assert row["cosine"] == pytest.approx(numpy.mean(found), abs=1e-5)
        assert row["least_cosine"] == pytest.approx(min(found), abs=1e-5)
        assert row["least_cosine"] > 0.999
        assert list(row["ways"]) == ["batches of 5", "padded"]
        assert all(way["difference_over_mean"] < 1e-3 for way in row["ways"].values())


def test_vectors_that_depend_on_their_batch_are_seen(vectors_dir, data_dir, monkeypatch):
    """An encoder that adds to each vector what stands beside it."""
    encode = TextEncoder.encode

    def leaky(self, texts, **options):
        found = encode(self, texts, **options)
        return found if options.get("batch_size") == 1 else found + 0.1 * found.mean(axis=0)

    monkeypatch.setattr(TextEncoder, "encode", leaky)
    target = parse_target(f"{vectors_dir}:onnx")
    document = bench_invariance(
        [target],
        baseline=target,
        traffic=Traffic(data=str(data_dir), task=STSB),
        settings=InvarianceSettings(rows=4, batches=(4,)),
        threads=1,
    )
    assert document.rows[0].ways["batches of 4"].difference_over_mean > 0.05


# What users do wrong


def test_vectors_are_scored_on_pairs_with_a_number_alone(sentence_dir, encoder_dir, data_dir):
    for task, words in (
        ("sst2", "classifier, got BertModel"),
        ("mrpc", "a number, got mrpc for .*albert-plus retrieve"),
    ):
        with pytest.raises(InvalidInput, match=words):
            score_targets([parse_target(str(sentence_dir))], data=str(data_dir), task=get_task(task))
    with pytest.raises(InvalidInput, match="got sst2 for"):
        score_targets([], data=str(data_dir), task=get_task("sst2"), static=str(encoder_dir))


def test_an_encoder_that_does_not_say_how_it_makes_vectors_is_refused(encoder_dir, data_dir):
    with pytest.raises(InvalidInput, match="gives their vectors, got .*:torch without sentence_embedding; .*--pooling"):
        score_targets([parse_target(str(encoder_dir))], data=str(data_dir), task=STSB, settings=SHORT)


def test_a_search_has_one_searcher(sentence_dir, encoder_dir, data_dir):
    options = {"data": str(data_dir), "task": get_task("mrpc")}
    with pytest.raises(InvalidInput, match="a target or with --static vectors, got neither"):
        retrieve(None, **options)
    with pytest.raises(InvalidInput, match="got both"):
        retrieve(str(sentence_dir), static=str(encoder_dir), **options)


def test_vectors_and_logits_are_no_one_table(sentence_dir, teachers, data_dir):
    with pytest.raises(InvalidInput, match="no one table, got .* and .*; compare them apart"):
        bench_invariance(
            [parse_target(str(sentence_dir))],
            baseline=parse_target(str(teachers / "stsb")),
            traffic=Traffic(data=str(data_dir), task=STSB),
        )
