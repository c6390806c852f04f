"""Whether the answer to a text depends on the texts beside it: whole splits alone, in batches, padded, by the pipeline, and by a server under
load."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy
import torch

from hf_albert_plus.checkpoints import check_label_order
from hf_albert_plus.engines.artefacts import get_runtime
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.invariance import BatchEffect, answers_alone, answers_in_batches, count_changed, padded_to
from hf_albert_plus.engines.runtime_files import weight_files
from hf_albert_plus.engines.text_answers import Text
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import first_metric, rule_for
from hf_albert_plus.eval.load.clients import Clients
from hf_albert_plus.eval.load.served import as_asked, checked
from hf_albert_plus.eval.load.server_process import ServerProcess
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.measured_documents import IF_KNOWN, Environment
from hf_albert_plus.eval.settings import InvarianceSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.machine import physical_cores
from hf_albert_plus.tasks.rows import load_tokenizer
from hf_albert_plus.tasks.task import Task, check_answers_texts

_PIPELINE_BATCH = 32
_LONGEST_REQUEST = 32


@dataclass(frozen=True, kw_only=True)
class NeighboursRow:
    """A target, what it answers to texts alone, and how far other ways to ask lie from that.

    Attributes:
        score: points of the answers to each text alone.
        score_in_batches: points of those in the first size of batches; both are None without labels.
        cosine: of the logits of texts alone to the baseline's.
        other_predictions: texts to which the baseline gives another class, or another set of several labels; None of a regression.
        ways: way to ask -> how far its answers lie from those alone.
    """

    label: str
    file_bytes: int
    score: float | None
    score_in_batches: float | None
    cosine: float
    other_predictions: int | None
    ways: dict[str, BatchEffect]


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Targets on the rows of a task's first evaluation split.

    Attributes:
        rows_of_split: how many texts were asked, of how many there are.
        clients: that ask the server at a time; None without one.
    """

    kind: Literal["invariance"] = "invariance"
    task: str
    data: str
    rows_of_split: tuple[int, int]
    clients: int | None = field(default=None, metadata=IF_KNOWN)
    baseline: str
    rows: Sequence[NeighboursRow]
    environment: Environment


def bench_invariance(
    targets: list[Target],
    *,
    baseline: Target,
    traffic: Traffic,
    settings: InvarianceSettings | None = None,
    threads: int | None = None,
) -> Neighbours:
    """Asks every target for every text of a split alone, and again in each other way.

    Args:
        baseline: the target whose logits others are compared with.

    Raises:
        InvalidInput: a target that is no classifier of the task, or a server that does not start or answer.
    """
    check_answers_texts(
        traffic.task,
        what="bench invariance",
        repair="read changed_predictions of the export's record, which says it of tokens",
    )
    settings = settings or InvarianceSettings()
    task, cores = traffic.task, threads or physical_cores()
    count = min(settings.rows or len(traffic.rows), len(traffic.rows))
    texts = [traffic.text(number) for number in range(count)]
    asked = _Asked(texts, traffic.rows["label"][:count], settings, cores)
    expected = _answer_alone(_open(baseline, asked))
    rows = [_row(target, asked, expected, task=task, is_baseline=target == baseline) for target in targets]
    return Neighbours(
        task=task.name,
        data=traffic.data,
        rows_of_split=(count, len(traffic.rows)),
        clients=settings.clients or None,
        baseline=baseline.label,
        rows=rows,
        environment=Environment.here(threads=cores),
    )


@dataclass(frozen=True)
class _Asked:
    """The texts that all targets are asked for."""

    texts: list[Text]
    labels: list[Any]
    settings: InvarianceSettings
    cores: int


@dataclass(frozen=True)
class _Opened:
    """A target that is open, and the texts in its tokens."""

    target: Target
    classifier: TextClassifier
    engine: Engine
    rows: list[Any]

    def pad(self, some: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        padded = self.classifier.tokens.padding.pad(some, self.engine.inputs)
        return {name: torch.from_numpy(array) for name, array in padded.items()}


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
    rows: list[Any] = classifier.encode(asked.texts).rows
    return _Opened(target, classifier, engine, rows)


def _answer_alone(opened: _Opened) -> list[torch.Tensor]:
    return answers_alone(
        opened.engine, opened.rows, pad=opened.pad, description=f"{opened.target.label}: each text alone"
    )


def _row(
    target: Target, asked: _Asked, expected: list[torch.Tensor], *, task: Task, is_baseline: bool
) -> NeighboursRow:
    """What a target says of each text alone, and how far each other way lies from it.

    Args:
        expected: what the baseline says of each text alone.
    """
    opened = _open(target, asked)
    classifier, rows, pad = opened.classifier, opened.rows, opened.pad
    engine = opened.engine
    check_label_order(engine.config, task, option=str(target.directory))
    decide = classifier.facts.rule.decide
    alone = expected if is_baseline else _answer_alone(opened)
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
    ways = {way: BatchEffect.of(alone, answers, decide=decide) for way, answers in found.items()}
    if asked.settings.clients:
        ways["server"] = _by_server(target, classifier, asked, alone)
    # A benchmark keeps the labels of some splits to itself.
    is_labelled = not task.benchmark or min(asked.labels) >= 0
    in_batches = next(iter(found.values()))
    return NeighboursRow(
        label=target.label,
        file_bytes=sum(path.stat().st_size for path in weight_files(engine.file)),
        score=first_metric(_stacked(alone), asked.labels, task, rule=rule_for(task, engine.config))
        if is_labelled
        else None,
        score_in_batches=first_metric(_stacked(in_batches), asked.labels, task, rule=rule_for(task, engine.config))
        if is_labelled
        else None,
        cosine=_cosine(_stacked(alone), _stacked(expected)),
        other_predictions=count_changed(torch.stack(expected), torch.stack(alone), decide=decide)
        if decide is not None
        else None,
        ways=ways,
    )


def _by_pipeline(opened: _Opened, texts: list[Text]) -> list[torch.Tensor]:
    """The logits that transformers' own pipeline gives of texts in batches."""
    from transformers import pipeline

    classifier, engine = opened.classifier, opened.engine
    tokenizer = load_tokenizer(opened.target.directory, engine.config)
    runs: Any = pipeline("text-classification", model=engine, tokenizer=tokenizer)  # type: ignore[call-overload]
    answers = runs(
        [as_asked(text) for text in texts], batch_size=_PIPELINE_BATCH, top_k=None, function_to_apply="none", truncation=True,
        max_length=classifier.facts.max_length,
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
    """How far the scores lie that a server gives to many clients at a time, in requests of one text to many."""
    draw, order = random.Random(0), list(range(len(asked.texts)))
    draw.shuffle(order)
    groups = []
    while order:
        size = draw.choice((1, 1, 2, 5, _LONGEST_REQUEST))
        groups.append(order[:size])
        del order[:size]
    bodies = [
        json.dumps({"inputs": [as_asked(asked.texts[number]) for number in group], "truncate": True}).encode()
        for group in groups
    ]
    options = ("--cores", str(classifier.streams), "--deadline", "60")
    with ServerProcess(f"{target.directory}:{target.runtime}", *options) as server:
        asking = Clients("127.0.0.1", server.port, count=asked.settings.clients)
        replies = checked(asking.closed_loop(bodies))
        asking.close()
    rule = classifier.facts.rule
    served: list[Any] = [None] * len(asked.texts)
    for group, reply in zip(groups, replies, strict=True):
        for number, answer in zip(group, reply.json()["predictions"], strict=True):
            served[number] = torch.tensor([answer["scores"][label] for label in rule.labels], dtype=torch.float64)
    scores = torch.from_numpy(rule.scores(_stacked(alone)))
    return BatchEffect.of(list(scores), served, decide=rule.given if rule.decides else None)


def _stacked(answers: Sequence[torch.Tensor]) -> numpy.ndarray:
    return torch.stack(list(answers)).numpy()


def _cosine(one: numpy.ndarray, other: numpy.ndarray) -> float:
    first, second = (torch.from_numpy(logits).double().flatten() for logits in (one, other))
    return float(torch.nn.functional.cosine_similarity(first, second, dim=0))
