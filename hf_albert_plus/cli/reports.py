"""The verbs that write what was measured: a report over many rows, and a model's card."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import AlbertPlusError, InvalidInput
from . import options as o
from .console import done, notes, print_json, quiet_libraries

_Scores = Annotated[
    list[Path] | None, typer.Option("--scores", help="File of albert-plus eval --json; repeat for several tasks.")
]
_DataName = Annotated[
    str | None,
    typer.Option(
        help="What the data set is called; a Hub id makes the scores the Hub's too. Default: GLUE, or your task's name."
    ),
]
_Allow = Annotated[
    list[str] | None,
    typer.Option(help="machines or data: join what was measured on several of them. The report says so."),
]


def report(
    scores: _Scores,
    bench: Annotated[Path, typer.Option(help="File of albert-plus bench --json.")],
    out: o.Out,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Speedup table",
    data_name: _DataName = None,
    allow_different: _Allow = None,
    as_json: o.JsonOut = False,
) -> None:
    """Join scores and timings by what was measured: Markdown, CSV, JSON, one HTML page, and model cards."""
    quiet_libraries()
    from hf_albert_plus.eval.reporting.stage import report as stage

    record = stage(
        scores or [],
        bench=bench,
        output=out,
        title=title,
        data_name=data_name,
        allow_different=tuple(allow_different or ()),
    )
    done(record, out, as_json=as_json)


def card(
    sources: Annotated[
        list[Path], typer.Argument(metavar="DIR|FILE.json...", help="A scored model directory; or cards' own records.")
    ],
    scores: _Scores = None,
    bench: Annotated[Path | None, typer.Option(help="File of albert-plus bench --json.")] = None,
    data_name: _DataName = None,
    licence: o.Licence = None,
    language: o.Language = None,
    base_model: o.BaseModel = None,
    datasets: o.HubData = None,
    allow_different: _Allow = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a card differs from its record.")
    ] = False,
    as_json: o.JsonOut = False,
) -> None:
    """Write a model's card from its records: README.md, card.json and .eval_results/ into DIR, or FILE.md beside FILE.json.

    A classifier's first card needs --scores and --bench; after that, card.json has all that the card needs. The card of a pretrained
    encoder needs neither; with --scores it names the scores of the classifiers that were fine-tuned from it.
    """
    quiet_libraries()
    from hf_albert_plus.eval.reporting.cards import read_facts, render, write_card
    from hf_albert_plus.eval.reporting.hub_metadata import check_hub_words, hub_facts, with_words

    from ..records.files import write_text
    from ..records.record import CARD

    said = check_hub_words(licence=licence, language=language, base_model=base_model, datasets=datasets)
    written, differing = [], []
    for source in sources:
        if said and not source.is_dir():
            option = f"--{next(iter(said)).replace('_', '-')}"
            raise InvalidInput(f"{option} is for a model directory", got=str(source), repair="write it into the record")
        target = source / "README.md" if source.is_dir() else source.with_suffix(".md")
        if _is_pretrained(source) and (scores or not (source / CARD).is_file()):
            facts = _gather_pretraining(source, scores or [])
        elif scores or bench:
            facts = _gather(source, scores or [], bench, data_name, tuple(allow_different or ()))
        else:
            facts = read_facts(_record_of(source, CARD))
        if said:
            facts["hub"] = with_words(facts.get("hub") or hub_facts(source), said)
        if check:
            if not target.is_file() or target.read_text(encoding="utf-8") != render(facts):
                differing.append(str(target))
            continue
        if source.is_dir():
            write_card(source, facts)
        else:
            write_text(target, render(facts))
        written.append(str(target))
    if differing:
        raise _CardsDiffer(differing)
    if as_json:
        print_json({"written": written, "checked": len(sources) if check else 0})
        return
    for path in written:
        typer.echo(path)
    if check:
        notes.print(f"{len(sources)} cards are as their records say")


class _CardsDiffer(AlbertPlusError):
    def __init__(self, paths: list[str]):
        super().__init__(f"cards differ from their records: {', '.join(paths)}; write them again with albert-plus card")


def _record_of(source: Path, name: str) -> Path:
    target = shlex.quote(str(source))
    if source.is_dir() and not (source / name).is_file():
        raise InvalidInput(
            f"a card needs measurements, or {name} from an earlier time",
            got=f"{source} without it",
            repair=f"make them: albert-plus eval {target} --data DATA --json scores.json; albert-plus bench {target} --baseline TEACHER --json latency.json; "
            "then add --scores scores.json --bench latency.json",
        )
    return source / name if source.is_dir() else source


def _is_pretrained(source: Path) -> bool:
    from hf_albert_plus.eval.reporting.pretraining_card import STAGE

    from ..records.record import training_record

    return source.is_dir() and training_record(source).get("stage") == STAGE


def _gather_pretraining(source: Path, scores: list[Path]) -> dict[str, Any]:
    from hf_albert_plus.eval.measured_documents import read_scores
    from hf_albert_plus.eval.reporting.pretraining_card import pretraining_facts

    return pretraining_facts(source, scores=[read_scores(path) for path in scores])


def _gather(
    source: Path, scores: list[Path], bench: Path | None, data_name: str | None, allow_different: tuple[str, ...]
) -> dict[str, Any]:
    """The facts of the model in a directory, which stands among the scores by its place."""
    from hf_albert_plus.eval.measured_documents import read_latency, read_scores
    from hf_albert_plus.eval.reporting.card import card_facts
    from hf_albert_plus.eval.reporting.stage import scored_models
    from hf_albert_plus.eval.reporting.table import build_table

    target = shlex.quote(str(source))
    if not scores or bench is None:
        raise InvalidInput(
            "a card needs --scores and --bench",
            got=f"{'--scores' if scores else '--bench'} alone",
            repair=f"make the other: albert-plus bench {target} --baseline TEACHER --json latency.json, and add --bench latency.json"
            if scores
            else f"make the other: albert-plus eval {target} --data DATA --json scores.json, and add --scores scores.json",
        )
    documents = [read_scores(path) for path in scores]
    latency = read_latency(bench)
    table = build_table(documents, latency, allow_different=allow_different)
    for name, task in scored_models(table):
        rows = [row for row in table.rows if row.name == name]
        scored = [row.scores[part] for row in rows for part in table.described[task].rows if part in row.scores]
        runs = [run for score in scored for run in score.runs]
        if any(Path(run.directory).resolve() == source.resolve() for run in runs):
            return card_facts(name, task, table=table, scores=documents, latency=latency, data_name=data_name)
    raise InvalidInput(
        "a card needs its model among the scores",
        got=f"none of {source}",
        repair="score it: albert-plus eval DIR --json scores.json",
    )
