"""Scores of tags against seqeval's own, of any tags that a model may give, and of sentences that a bootstrap draws."""

from itertools import groupby
from random import Random

import numpy
import pytest
import seqeval.metrics
import seqeval.scheme

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import predictions
from hf_albert_plus.eval.metrics import METRICS, comparable, compute_metrics
from hf_albert_plus.eval.predictions import as_numbers, from_numbers, read_predictions, write_predictions
from hf_albert_plus.eval.resampling import Sample, intervals
from hf_albert_plus.eval.run_details import details_of
from hf_albert_plus.eval.tag_scores import padded_tags, word_logits
from hf_albert_plus.tasks.task import Task, measures_of
from hf_albert_plus.tasks.word_pieces import UNSEEN

PREFIXES = {"IOB1": "BI", "IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}
ENTITY = ("entity_f1", "entity_precision", "entity_recall")


def task_of(scheme, labels):
    return Task(
        name="mine", columns=("words",), labels=tuple(labels), kind="tags", tag_scheme=scheme, label_columns=("tags",),
        metrics=measures_of("tags", scheme), epochs=1, batch_size=1,
    )  # fmt: skip


def drawn(labels, *, seed, rows=60):
    """Tags of sentences drawn without any rule: most of them break the scheme somewhere; O is as frequent as all others."""
    random = Random(seed)
    lengths = [Random(number).randint(1, 9) for number in range(rows)]
    return [[random.choice(["O", random.choice(labels)]) for _ in range(length)] for length in lengths]


def numbered(sentences, task):
    return padded_tags([[task.labels.index(tag) for tag in tags] for tags in sentences])


def of_seqeval(held, said, scheme):
    options = {"mode": "strict", "scheme": getattr(seqeval.scheme, scheme), "zero_division": 0}
    measures = (seqeval.metrics.f1_score, seqeval.metrics.precision_score, seqeval.metrics.recall_score)
    return {name: 100 * float(measure(held, said, **options)) for name, measure in zip(ENTITY, measures, strict=True)}


@pytest.mark.parametrize("scheme", PREFIXES)
def test_entities_are_scored_as_seqeval_scores_them(scheme):
    labels = ["O", *(f"{letter}-{kind}" for kind in ("L", "P") for letter in PREFIXES[scheme])]
    task = task_of(scheme, labels)
    held, said = (drawn(labels, seed=seed) for seed in (0, 1))
    said[:20] = held[:20]
    predicted, references = numbered(said, task), numbered(held, task)
    metrics = compute_metrics(predicted, references, task)
    assert {name: metrics[name] for name in ENTITY} == pytest.approx(of_seqeval(held, said, scheme))
    assert 5 < metrics["entity_f1"] < 95
    pairs = [pair for both in zip(held, said, strict=True) for pair in zip(*both, strict=True)]
    assert metrics["tag_accuracy"] == pytest.approx(100 * sum(one == other for one, other in pairs) / len(pairs))
    options = {"mode": "strict", "scheme": getattr(seqeval.scheme, scheme), "zero_division": 0, "output_dict": True}
    table = seqeval.metrics.classification_report(held, said, **options)
    for each in details_of(predicted, references, task)["classes"]:
        theirs = table[each.label]
        ours = {"precision": each.precision / 100, "recall": each.recall / 100, "f1-score": each.f1 / 100}
        assert {name: theirs[name] for name in ours} == pytest.approx(ours, abs=1e-5)
        assert each.support == theirs["support"]


def test_neighbours_with_one_tag_are_an_entity_where_tags_have_no_prefixes():
    task = task_of("runs", ["O", "L", "P"])
    held, said = (drawn(["L", "P"], seed=seed) for seed in (0, 1))

    def runs(sentences):
        found = set()
        for row, tags in enumerate(sentences):
            for tag, group in groupby(range(len(tags)), key=tags.__getitem__):
                places = list(group)
                found |= {(row, tag, places[0], places[-1])} if tag != "O" else set()
        return found

    there, found = runs(held), runs(said)
    metrics = compute_metrics(numbered(said, task), numbered(held, task), task)
    assert metrics["entity_recall"] == pytest.approx(100 * len(there & found) / len(there))
    assert metrics["entity_precision"] == pytest.approx(100 * len(there & found) / len(found))


def test_tags_without_entities_are_measured_by_words():
    task = task_of("plain", ["NN", "VB"])
    metrics = compute_metrics(numbered([["NN", "VB"], ["NN"]], task), numbered([["NN", "NN"], ["NN"]], task), task)
    assert metrics == {"tag_accuracy": pytest.approx(200 / 3)}
    details = details_of(numbered([["NN", "VB"]], task), numbered([["NN", "NN"]], task), task)
    assert [each.label for each in details["classes"]] == ["NN", "VB"]
    assert details["confusions"].matrix == [[1, 1], [0, 0]]


def test_a_draw_scores_sentences_as_often_as_it_has_them():
    labels = ["O", "B-L", "I-L", "B-P", "I-P"]
    task = task_of("IOB2", labels)
    held, said = (drawn(labels, seed=seed) for seed in (0, 1))
    said[:30] = held[:30]
    counts, unread = comparable(numbered(said, task), numbered(held, task), task)
    weights = numpy.random.default_rng(0).multinomial(60, [1 / 60] * 60, size=3)
    for name in ENTITY:
        values = METRICS[name](counts, unread, weights.astype(float))
        for value, drawn_rows in zip(values, weights, strict=True):
            places = numpy.repeat(numpy.arange(60), drawn_rows).tolist()
            expected = of_seqeval([held[place] for place in places], [said[place] for place in places], "IOB2")
            assert value == pytest.approx(expected[name])
    (low, high) = intervals(Sample(counts[None], unread), task)["entity_f1"]
    assert low < of_seqeval(held, said, "IOB2")["entity_f1"] < high


def test_numbers_and_files_hold_what_was_predicted(tmp_path):
    task = task_of("IOB2", ["O", 'B-"x"', "B-é"])
    predicted = padded_tags([[0, 1, 2], [2], [0, 0]])
    assert as_numbers(predicted, task) == [[0, 1, 2], [2], [0, 0]]
    assert (from_numbers(as_numbers(predicted, task), task) == predicted).all()
    write_predictions(tmp_path / "mine.tsv", predicted, task)
    assert (read_predictions(tmp_path / "mine.tsv", task) == predicted).all()
    assert (tmp_path / "mine.tsv").read_text(encoding="utf-8").splitlines()[2] == '1\t["B-é"]'


def test_a_tag_too_few_is_refused():
    task = task_of("IOB2", ["O", "B-x"])
    with pytest.raises(InvalidInput, match="a tag for each word, got 1 for the 2 words of row 0"):
        compute_metrics(padded_tags([[0]]), padded_tags([[0, 1]]), task)


def test_words_have_the_logits_of_their_first_pieces_and_unseen_ones_the_first_tag():
    task = task_of("IOB2", ["O", "B-x"])
    logits_SC = numpy.array([[9.0, 0.0], [0.0, 1.0], [9.0, 0.0], [2.0, 1.0]], dtype=numpy.float32)
    logits = word_logits(logits_SC, [1, UNSEEN, 3])
    assert logits[[0, 2]].tolist() == [[0.0, 1.0], [2.0, 1.0]]
    assert predictions([logits], task).tolist() == [[1, 0, 0]]
    with pytest.raises(InvalidInput, match="logits must be finite"):
        predictions([logits * numpy.nan], task)
