"""Whether the answer to a text depends on the texts beside it: whole splits alone, in batches, padded, by the pipeline, and by a server under
load."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from hf_albert_plus.checkpoints import check_label_order
from hf_albert_plus.engines.artefacts import get_runtime
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.invariance import BatchEffect, answers_alone, answers_in_batches, count_changed, padded_to
from hf_albert_plus.engines.runtime_files import weight_files
from hf_albert_plus.engines.text_answers import Decide, Text
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import first_metric, rule_for
from hf_albert_plus.eval.load.asked_server import checked
from hf_albert_plus.eval.load.clients import Clients
from hf_albert_plus.eval.load.neighbour_documents import Neighbours, NeighboursRow
from hf_albert_plus.eval.load.server_process import ServerProcess
from hf_albert_plus.eval.load.tagged_neighbours import (
    best_alone,
    in_both,
    logits_by_pipeline,
    of_words,
    pieces_of,
    served_tags,
)
from hf_albert_plus.eval.load.traffic import Traffic, as_asked
from hf_albert_plus.eval.load.vector_neighbours import give_vectors, vector_rows
from hf_albert_plus.eval.measured_documents import Environment
from hf_albert_plus.eval.scoring import check_labels
from hf_albert_plus.eval.settings import InvarianceSettings
from hf_albert_plus.eval.tag_scores import word_logits
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.machine import physical_cores
from hf_albert_plus.tasks.rows import load_tokenizer
from hf_albert_plus.tasks.task import Task, check_answers_texts, check_no_spans

_PIPELINE_BATCH = 32
_LONGEST_REQUEST = 32


def bench_invariance(
    targets: list[Target],
    *,
    baseline: Target,
    traffic: Traffic,
    settings: InvarianceSettings | None = None,
    threads: int | None = None,
) -> Neighbours:
    """Asks every target for every text of a split alone, and again in each other way. Sentence encoders are asked for the texts of pairs
    one by one, without a pipeline and a server.

    Args:
        baseline: the target whose logits or vectors others are compared with.

    Raises:
        InvalidInput: a target that is no classifier of the task and no sentence encoder, or a server that does not start or answer.
    """
    check_no_spans(
        traffic.task,
        what="bench invariance",
        repair="read changed_predictions of the export's record, which says it of tokens",
    )
    settings = settings or InvarianceSettings()
    cores = threads or physical_cores()
    count = min(settings.rows or len(traffic.rows), len(traffic.rows))
    texts = [traffic.text(number) for number in range(count)]
    are_encoders = give_vectors([baseline, *targets])
    if are_encoders:
        check_answers_texts(traffic.task, what="the vectors of an encoder", repair="use another --task")
        rows = vector_rows(targets, baseline=baseline, texts=_apart(texts), settings=settings, cores=cores)
    else:
        asked = _Asked(traffic, texts, settings, cores)
        opened = _open(baseline, asked)
        answers = _answer_alone(opened)
        expected = _Expected(answers, opened.compared(answers))
        rows = [_row(target, asked, expected, is_baseline=target == baseline) for target in targets]
    return Neighbours(
        task=traffic.task.name,
        data=traffic.data,
        rows_of_split=(count, len(traffic.rows)),
        clients=None if are_encoders else settings.clients or None,
        baseline=baseline.label,
        rows=rows,
        environment=Environment.here(threads=cores),
    )


def _apart(texts: Sequence[Text]) -> list[str]:
    """Texts one by one, the two of a pair after each other."""
    return [each for text in texts for each in ([text] if isinstance(text, str) else text)]


@dataclass(frozen=True)
class _Asked:
    """The first texts of the traffic, which all targets are asked for."""

    traffic: Traffic
    texts: list[Text]
    settings: InvarianceSettings
    cores: int

    @property
    def task(self) -> Task:
        return self.traffic.task

    @property
    def labels(self) -> list[Any]:
        return list(self.traffic.rows["label"][: len(self.texts)])


@dataclass(frozen=True)
class _Expected:
    """What the baseline says of each text alone: of the text or its tokens, and what of that is compared."""

    answers: list[torch.Tensor]
    compared: list[torch.Tensor]


@dataclass(frozen=True)
class _Opened:
    """A target that is open, and the texts in its tokens.

    Attributes:
        pieces: of a task of tags, where in each text its words begin.
    """

    target: Target
    classifier: TextClassifier
    engine: Engine
    rows: list[Any]
    pieces: list[list[int]] | None

    def pad(self, some: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        padded = self.classifier.tokens.padding.pad(some, self.engine.inputs)
        return {name: torch.from_numpy(array) for name, array in padded.items()}

    def compared(self, answers: list[torch.Tensor]) -> list[torch.Tensor]:
        """What of some answers is compared: all of a text's, `[C]`, or those of a tagger's words, `[W, C]`."""
        if self.pieces is None:
            return answers
        return [of_words(*each) for each in zip(answers, self.pieces, strict=True)]

    def score(self, answers: list[torch.Tensor], asked: _Asked) -> float | None:
        """The score of some answers; None of a split whose labels a benchmark keeps to itself."""
        task, labels = asked.task, asked.labels
        if task.benchmark and min(labels) < 0:
            return None
        logits: Any = _stacked(answers) if self.pieces is None else [
            word_logits(each.numpy(), pieces) for each, pieces in zip(answers, self.pieces, strict=True)
        ]  # fmt: skip
        return first_metric(logits, labels, task, rule=rule_for(task, self.engine.config))


def _open(target: Target, asked: _Asked) -> _Opened:
    classifier = TextClassifier(target.directory, target.runtime, cores=asked.cores, max_length=None)
    if not classifier.facts.long.is_cut:
        raise InvalidInput(
            "texts are compared alone and in company where each is one row, and long ones are cut at the end",
            got=f"{target.directory}, trained with --long {classifier.facts.long.way}",
            repair="compare a model that was trained with --long cut",
        )
    threads = get_runtime(target.runtime).share(asked.cores).threads
    engine = Engine.load(target.directory, target.runtime, threads=threads, verify=False)
    check_labels(engine, asked.task)
    rows: list[Any] = classifier.tokenise(asked.texts).rows
    pieces = None
    if asked.task.has_tags:
        sentences = asked.traffic.rows[asked.task.columns[0]]
        pieces = [pieces_of(sentence, row) for sentence, row in zip(sentences, rows, strict=False)]
    return _Opened(target, classifier, engine, rows, pieces)


def _answer_alone(opened: _Opened) -> list[torch.Tensor]:
    return answers_alone(
        opened.engine, opened.rows, pad=opened.pad, description=f"{opened.target.label}: each text alone"
    )


def _row(target: Target, asked: _Asked, expected: _Expected, *, is_baseline: bool) -> NeighboursRow:
    """What a target says of each text alone, and how far each other way lies from it."""
    opened = _open(target, asked)
    classifier, rows, pad = opened.classifier, opened.rows, opened.pad
    engine = opened.engine
    check_label_order(engine.config, asked.task, option=str(target.directory))
    decide = classifier.facts.rule.decide
    answers = expected.answers if is_baseline else _answer_alone(opened)
    alone = opened.compared(answers)
    found: dict[str, list[torch.Tensor]] = {}
    for size in asked.settings.batches:
        way = f"batches of {size}"
        found[way] = answers_in_batches(engine, rows, pad=pad, size=size, description=f"{target.label}: {way}")
    longest = max(min(asked.settings.padded_to, classifier.facts.max_length), *(len(row["input_ids"]) for row in rows))
    found["padded"] = answers_in_batches(
        engine,
        rows,
        pad=padded_to(longest, pad),
        size=asked.settings.batches[0],
        description=f"{target.label}: padded to {longest}",
    )
    found["pipeline"] = _by_pipeline(opened, asked.texts)
    ways = {way: _effect(alone, opened.compared(said), decide=decide) for way, said in found.items()}
    if asked.settings.clients:
        ways["server"] = _by_server(target, classifier, asked, alone)
    ours, theirs = in_both(alone, expected.compared)
    return NeighboursRow(
        label=target.label,
        file_bytes=sum(path.stat().st_size for path in weight_files(engine.file)),
        score=opened.score(answers, asked),
        score_in_batches=opened.score(next(iter(found.values())), asked),
        cosine=float(torch.nn.functional.cosine_similarity(ours.double().flatten(), theirs.double().flatten(), dim=0)),
        other_predictions=None if decide is None else count_changed(theirs, ours, decide=decide),
        ways=ways,
    )


def _effect(alone: list[torch.Tensor], others: list[torch.Tensor], *, decide: Decide | None) -> BatchEffect:
    """How far answers lie from those alone, where both have some."""
    one, other = in_both(alone, others)
    return BatchEffect.of([one], [other], decide=decide)


def _by_pipeline(opened: _Opened, texts: list[Text]) -> list[torch.Tensor]:
    """The logits that transformers' own pipeline gives of texts in batches."""
    from transformers import pipeline

    classifier, engine = opened.classifier, opened.engine
    tokenizer = load_tokenizer(opened.target.directory, engine.config)
    longest = classifier.facts.max_length
    if opened.pieces is not None:
        sentences = [str(text) for text in texts]
        return logits_by_pipeline(engine, tokenizer, sentences, max_length=longest, batch_size=_PIPELINE_BATCH)
    runs: Any = pipeline("text-classification", model=engine, tokenizer=tokenizer)  # type: ignore[call-overload]
    answers = runs(
        [as_asked(text) for text in texts], batch_size=_PIPELINE_BATCH, top_k=None, function_to_apply="none", truncation=True,
        max_length=longest,
    )  # fmt: skip
    place = {label: number for number, label in enumerate(classifier.facts.rule.labels)}
    logits = []
    for answer in answers:
        row = torch.empty(len(place))
        for each in answer:
            row[place[each["label"]]] = each["score"]
        logits.append(row)
    return logits


def _by_server(target: Target, classifier: TextClassifier, asked: _Asked, alone: Sequence[torch.Tensor]) -> BatchEffect:
    """How far the scores lie that a server gives to many clients at a time, in requests of one text to many; of tags those of each word's
    best."""
    draw, order = random.Random(0), list(range(len(asked.texts)))
    draw.shuffle(order)
    groups = []
    while order:
        size = draw.choice((1, 1, 2, 5, _LONGEST_REQUEST))
        groups.append(order[:size])
        del order[:size]
    bodies = [asked.traffic.request(group) for group in groups]
    options = ("--cores", str(classifier.streams), "--deadline", "60")
    with ServerProcess(f"{target.directory}:{target.runtime}", *options) as server:
        asking = Clients("127.0.0.1", server.port, count=asked.settings.clients, path=asked.traffic.path)
        replies = checked(asking.closed_loop(bodies))
        asking.close()
    rule = classifier.facts.rule
    served: list[Any] = [None] * len(asked.texts)
    for group, reply in zip(groups, replies, strict=True):
        for number, answer in zip(group, reply.json()["predictions"], strict=True):
            served[number] = (
                served_tags(answer, rule.labels)
                if rule.is_by_token
                else torch.tensor([answer["scores"][label] for label in rule.labels], dtype=torch.float64)
            )
    scores = [torch.from_numpy(rule.scores(each.numpy())) for each in alone]
    if rule.is_by_token:
        scores = [best_alone(each) for each in scores]
    return _effect(scores, served, decide=rule.given if rule.decides else None)


def _stacked(answers: Sequence[torch.Tensor]) -> numpy.ndarray:
    return torch.stack(list(answers)).numpy()
