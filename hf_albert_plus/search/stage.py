"""The whole of `albert-plus compress`: a teacher, data and a budget in; a search; the pick, exported, and a report out."""

import hashlib
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hf_albert_plus.eval.floor.stage import floor
from hf_albert_plus.eval.latency.bench import LATENCY, bench
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.reporting.cards import write_cards
from hf_albert_plus.eval.reporting.stage import read_table, report
from hf_albert_plus.eval.reporting.table import Table
from hf_albert_plus.eval.scoring import SCORES, score
from hf_albert_plus.eval.settings import BenchSettings, EvalSettings
from hf_albert_plus.eval.targets import Target

from ..checkpoints import check_label_names
from ..compression.settings import CalibrateSettings
from ..compression.trimming import trim
from ..config_files import load_config
from ..configuration_albert_plus import AlbertPlusConfig
from ..conversion.families import CONVERTIBLE
from ..conversion.stage import convert
from ..data_names import name_of_data
from ..errors import InvalidInput
from ..records.progress import say
from ..records.stage import discard
from ..tasks.own_data import more_texts
from ..tasks.task import Task, check_no_spans
from ..training.adoption import adopt, is_trained_for
from ..training.finetuning import finetune
from ..training.settings import TrainSettings
from .clock import Clock
from .finalists import finalists_of, nearest
from .frontier import PAGE, verdict, write_frontier, write_progress
from .hunt import Hunt
from .made_up_texts import ENOUGH, make_up_texts
from .narrow_embeddings import fits
from .paces import texts_of_a_pass
from .passes import Passes, fit_passes, seconds_of_a_pass, with_exits
from .pick import Pick, answers_of, doubt_of, score_of
from .set_aside import set_aside
from .settings import Budget, CompressSettings
from .shapes import Slimmed
from .tried import TEACHER, TRIMMED, Tried
from .workshop import Workshop

PICK, SMALL = "pick", "small"
# Of the task's own passes, those over its rows together with made-up ones, which are twice the steps.
_PASSES_OF_MADE_UP = 0.5
_SHARE_OF_AN_ERROR = 0.05
# Each fold that a threshold of exits is found on has two.
_FEWEST_ROWS = 2 * CalibrateSettings.folds
# Of the rows that judge, those on which a thin candidate and its teacher differ.
_DIFFERING = 0.05
# Texts that the finalists are timed on, at most; fewer, but not too few, where the teacher would take longer than that for one pass over them.
_TIMED, _FEWEST_TIMED, _PASS_S = 2000, 64, 20.0


@dataclass(frozen=True)
class Compressed:
    """What came out of a search.

    Attributes:
        pick: what was chosen.
        directory: of the pick, exported; None without one.
        runtime: that runs it.
        table: the finalists beside the teacher and the floor; None where the search was stopped by Ctrl-C.
        hunt: the search with all that was tried.
    """

    pick: Pick
    directory: Path | None
    runtime: str | None
    table: Table | None
    hunt: Hunt


def compress(
    teacher: str,
    *,
    data: str,
    task: Task,
    out: Path,
    settings: CompressSettings,
    threads: int | None = None,
) -> Compressed:
    """Finds the smallest and fastest form of a classifier that keeps within a budget (`search`), measures the finalists in turns, and
    writes the report.

    Args:
        out: gets what `search` makes, and `finals`, `pick`, `compress.html`, `compress.md` and `compress.json`.
    """
    return _conclude(search(teacher, data=data, task=task, out=out, settings=settings, threads=threads), out=out)


def search(
    teacher: str,
    *,
    data: str,
    task: Task,
    out: Path,
    settings: CompressSettings,
    threads: int | None = None,
) -> Hunt:
    """Tries candidates. The same call goes on where one was stopped; with a larger time budget it goes on searching.

    Args:
        teacher: directory or Hub id of a classifier of the task, or of an encoder, which is fine-tuned first.
        data: as of every verb; its validation split judges, and no candidate learns from it.
        out: gets `teacher`, `whole`, `rows`, `trials` and `optuna.db`, and `texts` where there are few rows. Where the file must be smaller
            than the whole model is in int8, `trials` and `optuna.db` are in `small`, with the model whose vocabulary candidates have.

    Raises:
        InvalidInput: a teacher or data that cannot be compressed, found before anything is trained.
    """
    check_no_spans(
        task, what="compress", repair="choose a student yourself: albert-plus distill --student …, then export"
    )
    settings.check_drop(task)
    if task.has_tags:
        settings = replace(settings, exits=False)  # exits read one answer to a text
    texts = 0 if settings.unlabelled is None else len(more_texts(settings.unlabelled, task))
    is_classifier = _is_classifier(teacher, task)
    rows, divided = set_aside(data, task=task, output=out / "rows", seed=settings.seed)
    aside = divided.result["set_aside"]
    if settings.exits and aside < _FEWEST_ROWS:
        say(f"too few training rows to find thresholds of exits on: {aside} are set aside, {_FEWEST_ROWS} are needed")
        settings = replace(settings, exits=False)
    trained = _teacher(teacher, is_classifier=is_classifier, data=data, task=task, out=out, settings=settings)
    whole, guide = _whole(trained, out / "whole"), trained
    home = out
    if settings.max_size is not None and not _fits(whole, settings.max_size):
        if settings.student:
            raise InvalidInput(
                "--student must have a --max-size beside it that has room for all of its vocabulary",
                got=f"{settings.max_size / 1e6:g} MB",
                repair="leave one of them out, or allow a larger file",
            )
        home = out / SMALL
        trim(str(whole), data=data, task=task, output=home / TRIMMED)
        whole = guide = home / TRIMMED
    records, unlabelled, passes = [divided], settings.unlabelled, task.epochs
    if unlabelled is None and settings.made_up_texts and rows.count < ENOUGH:
        made_up, made = make_up_texts(rows, output=out / "texts", seed=settings.seed)
        records, unlabelled, passes = [divided, made], str(made_up), _PASSES_OF_MADE_UP * task.epochs
        texts = made.result["texts"]
    config = load_config(whole, option="TEACHER")
    shop = Workshop(
        teacher=trained,
        whole=whole,
        guide=guide,
        data=data,
        task=task,
        rows=rows,
        depth=config.num_hidden_layers,
        width=config.hidden_size,
        passes=Passes(passes, passes) if settings.epochs is None else Passes(settings.epochs, settings.epochs),
        out=home / "trials",
        settings=settings,
        threads=threads,
        unlabelled=unlabelled,
        records=records,
    )
    for student in settings.student:
        shop.check_student(student)
    try:
        with shop.ctrl_c:
            clock = Clock.of(shop, config)
    except KeyboardInterrupt:
        raise _stopped_too_soon() from None
    shop = replace(shop, passes=_fitted(shop, clock, texts=texts, home=home))
    teacher_scores = shop.score(Target(TEACHER, trained, "torch"), out / "teacher-scores")
    budget = _budget(settings, score_of(teacher_scores, task.metrics[0]), task)
    _tell_of_few_rows(len(answers_of(teacher_scores, task).labels), task=task, budget=budget)
    hunt = Hunt(shop, budget, settings.time_budget, teacher_scores, show=partial(write_progress, out=out))
    say(f"the frontier so far is in {out / PAGE}")
    hunt.run()
    if not hunt.finished:
        raise _stopped_too_soon()
    return hunt


def _stopped_too_soon() -> InvalidInput:
    return InvalidInput(
        "a search must not be stopped before its first candidate, the teacher in int8",
        got="Ctrl-C",
        repair="give the same command again: it goes on",
    )


def _fitted(shop: Workshop, clock: Clock, *, texts: int, home: Path) -> Passes:
    """How long candidates and their exits learn; candidates as long as they are told to, where they are.

    Args:
        texts: that candidates learn from beside the rows.
    """
    settings, count = shop.settings, shop.rows.count
    room: dict[str, Any] = {"answer_ms": clock.torch_ms, "budget_s": settings.time_budget, "home": home}
    if settings.epochs is None:
        fitted = fit_passes(shop.passes.whole, rows=count + texts, **room)
    else:
        fitted = replace(shop.passes, seconds=seconds_of_a_pass(rows=count + texts, answer_ms=clock.torch_ms))
    return with_exits(fitted, epochs=shop.task.epochs, rows=count, **room) if settings.exits else fitted


def _budget(settings: CompressSettings, score: float | None, task: Task) -> Budget:
    """What is asked for. Where nothing is and the teacher's score is an error, which has a unit of its own, it may grow by a twentieth."""
    if not task.is_scored_by_error:
        return settings.budget
    budget = replace(settings.budget, error=task.metrics[0])
    if not settings.asks_nothing or score is None:
        return budget
    return replace(budget, max_drop=float(f"{_SHARE_OF_AN_ERROR * score:.2g}"))


def _tell_of_few_rows(rows: int, *, task: Task, budget: Budget) -> None:
    """Says beforehand where so few rows judge that hardly a candidate can be known to hold the budget."""
    doubt = doubt_of(rows, differing=_DIFFERING)
    if budget.max_drop is not None and task.metrics[0] == "accuracy" and doubt > budget.max_drop:
        say(
            f"{rows:,} rows judge: a candidate that answers one in {round(1 / _DIFFERING)} otherwise than its teacher may lose {doubt:.1f} points by all that they "
            f"tell, however good it is, so that few can hold {budget.max_drop:g}; more rows (--validation FILE) or a larger --max-drop leave more to find"
        )


@dataclass(frozen=True)
class PickedStudent:
    """What a search found, before it is exported.

    Attributes:
        tried: the pick, or what comes nearest where nothing holds the budget.
        directory: of its weights.
        holds: whether it holds the budget.
        page: of the search.
    """

    tried: Tried
    directory: Path
    holds: bool
    page: Path


def picked_student(hunt: Hunt, *, out: Path) -> PickedStudent:
    """The pick, or what comes nearest. The search's own report is written to `out`, without a run in which finalists take turns."""
    pick = hunt.judge.choose(hunt.finished, hunt.budget)
    name = pick.name or nearest(hunt, pick)[0].name
    (tried,) = (each for each in hunt.tried if each.name == name)
    shop = hunt.workshop
    if name in shop.students:
        directory = shop.students[name]
    elif name in shop.taught:
        directory = shop.taught[name][1]
    else:
        directory = shop.guide if name == TRIMMED else shop.teacher
    return PickedStudent(tried, directory, holds=pick.name is not None, page=write_frontier(hunt, pick, out=out))


def _is_classifier(source: str, task: Task) -> bool:
    """Whether a model is fine-tuned for the task already.

    Raises:
        InvalidInput: one whose parts cannot be removed, or a classifier of other labels.
    """
    config = load_config(source, option="TEACHER")
    if config.model_type not in CONVERTIBLE:
        raise InvalidInput(
            f"TEACHER must be of one of the architectures {', '.join(CONVERTIBLE)}, whose parts can be removed",
            got=f"{config.model_type} in {source}",
            repair="distil it into a student instead: albert-plus distill, or albert-plus run",
        )
    is_classifier = is_trained_for(config, task, alone=True)
    if is_classifier:
        check_label_names(config, task, option="TEACHER", source=source)
    return is_classifier


def _teacher(source: str, *, is_classifier: bool, data: str, task: Task, out: Path, settings: CompressSettings) -> Path:
    """The classifier that is to be compressed: as it is, or fine-tuned from an encoder."""
    output = out / TEACHER
    if is_classifier:
        adopt(source, data=data, task=task, output=output, max_length=settings.max_length)
        return output
    training = TrainSettings(
        epochs=task.epochs,
        batch_size=task.batch_size,
        max_length=settings.max_length,
        seed=settings.seed,
        precision=settings.precision,
        report_to=settings.report_to,
    )
    say(f"{source} is no classifier of {task.name} yet: it is fine-tuned first")
    finetune(source, data=data, task=task, output=output, settings=training, pooling=settings.pooling)
    return output


def _whole(teacher: Path, output: Path) -> Path:
    """The teacher as an ALBERT-plus model, whose parts can be removed."""
    if load_config(teacher, option="TEACHER").model_type == AlbertPlusConfig.model_type:
        return teacher
    convert(str(teacher), output=output)
    return output


def _fits(whole: Path, max_bytes: float) -> bool:
    """Whether a model with all of its vocabulary is small enough in int8."""
    config = load_config(whole, option="TEACHER")
    shape = Slimmed(config.num_hidden_layers, 1.0)
    return fits(shape, config, max_bytes=max_bytes, width=None)


def _conclude(hunt: Hunt, *, out: Path) -> Compressed:
    """Chooses and exports the pick and writes the report, then measures the finalists in turns, unless somebody waits for an end, and writes
    both again with what came of that. A measuring that is stopped leaves the first."""
    pick = hunt.judge.choose(hunt.finished, hunt.budget)
    finalists = finalists_of(hunt, pick)
    chosen = next((each for each in finalists if each.name == pick.name), None)
    table, folder = None, out / "finals" / _digest([f"{each.name} {each.runtime}" for each in finalists])
    directory = _place(chosen, out / PICK)
    write_frontier(hunt, pick, out=out)
    if not hunt.is_stopped:
        say(f"{verdict(hunt, pick)} The finalists are measured now; Ctrl-C keeps what is there")
        table = _measure(hunt, finalists, folder)
        directory = _place(chosen, out / PICK)  # with its card
        write_frontier(hunt, pick, out=out, report=folder / "report")
    return Compressed(pick, directory, None if chosen is None else chosen.runtime, table, hunt)


def _measure(hunt: Hunt, finalists: list[Tried], folder: Path) -> Table:
    """Scores the finalists and the floor on every split, times them beside the teacher in turns, and writes their report and cards."""
    shop = hunt.workshop
    length = shop.settings.max_length
    targets = [Target(TEACHER, shop.teacher, "torch")]
    targets += [
        Target(each.name, each.directory, each.runtime) for each in finalists if each.directory and each.runtime
    ]
    on: dict[str, Any] = {"data": shop.data, "task": shop.task}
    score(targets, **on, output=folder / "scores", settings=EvalSettings(max_length=length), threads=shop.threads)
    floor(**on, teacher=str(shop.teacher), output=folder / "floor", threads=shop.threads)
    texts = texts_of_a_pass(hunt.clock.torch_ms, seconds=_PASS_S, fewest=_FEWEST_TIMED, most=_TIMED)
    bench(
        targets,
        output=folder / "latency",
        baseline=targets[0],
        traffic=Traffic(shop.data, shop.task, max_length=length, at_most=texts),
        scenarios=("single-stream", "offline"),
        settings=BenchSettings(max_length=length),
        threads=shop.threads,
    )
    scores, latency = [folder / name / SCORES for name in ("scores", "floor")], folder / "latency" / LATENCY
    title = f"{shop.task.name}, compressed"
    report(scores, bench=latency, output=folder / "report", title=title, data_name=name_of_data(shop.data))
    models = {f"{each.name}-{shop.task.name}": each.directory for each in finalists if each.directory is not None}
    write_cards(folder / "report", models)
    return read_table(scores, bench=latency)


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]


def _place(chosen: Tried | None, output: Path) -> Path | None:
    """The pick under a name that stays; what stood there of an earlier run makes room, also where there is no pick."""
    if chosen is None or chosen.directory is None:
        discard(output)
        return None
    temporary = output.with_name(f".{output.name}.new")
    discard(temporary)
    shutil.copytree(chosen.directory, temporary)
    discard(output)
    temporary.rename(output)
    return output
