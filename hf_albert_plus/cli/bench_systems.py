"""The members of `bench` that look at more than an engine's pace: the steps of pretraining, a server, and what a batch does to answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_albert_plus.eval.settings import BenchSettings, InvarianceSettings, ServedSettings

from ..training.settings import Precision, trains_in_bf16
from . import options as o
from .console import gives_json, notes, print_rows, start
from .settings_options import with_settings
from .task_options import Scored

if TYPE_CHECKING:
    from hf_albert_plus.eval.load.neighbour_documents import Neighbours


def bench_pretrain(
    corpus: Annotated[Path, typer.Option(help="Directory of albert-plus corpus build.")],
    variant: Annotated[
        str, typer.Option(help="Architecture, one that transformers' ALBERT can compute.")
    ] = "albert-base-v2",
    set_: o.Set = None,
    batch_size: Annotated[int, typer.Option(help="Examples of a padded batch, rows of a packed one.")] = 16,
    precision: Annotated[Precision, typer.Option(help="auto takes bf16 where the hardware multiplies it.")] = "auto",
    seconds: Annotated[float, typer.Option(help="Least measured time of each row.")] = 20.0,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Time steps of pretraining on the CPU against transformers' own AlbertForPreTraining with its padded collator, in turns."""
    BenchSettings(seconds=seconds)
    from hf_albert_plus.eval.latency.pretraining_step import bench_pretraining

    from ..config_building import parse_settings
    from ..variants import get_variant

    start(threads)
    fields = {**get_variant(variant).fields, **parse_settings(set_ or [])}
    document = bench_pretraining(
        corpus,
        fields=fields,
        batch_size=batch_size,
        bf16=trains_in_bf16(precision),
        seconds=seconds,
        threads=threads,
    )
    if gives_json(document, json_file):
        return
    print_rows(
        ["step", "tokens/s", "speedup", "95 %", "of attainable arithmetic"],
        [
            [
                row["label"], f"{row['tokens_per_s']:,}", f"{row['speedup']:.2f}x",
                "{:.2f}-{:.2f}".format(*row["speedup_interval"]), f"{row['share_of_ceiling']:.0f} %",
            ]
            for row in document["rows"]
        ],
        title=f"{document['parameters']:,} parameters, {document['precision']}, ceiling "
        f"{document['ceiling']['gops_per_s']:,.0f} Gop/s ({document['ceiling']['library']})",
    )  # fmt: skip


@with_settings
def bench_serve(
    target: Annotated[str, typer.Argument(metavar="DIR[:ENGINE]", help="A classifier, as DIR:onnx-int8.")],
    on: Scored,
    settings: ServedSettings,
    cluster: Annotated[bool, typer.Option("--cluster", help="Serve on Ray Serve, a replica of the model.")] = False,
    peers: Annotated[
        bool,
        typer.Option("--peers", help="Time LitServe, MLServer, KServe and a plain FastAPI server in turns with it."),
    ] = False,
    peer_environments: Annotated[
        Path,
        typer.Option(file_okay=False, help="Where --peers are installed, each once, in an environment of its own."),
    ] = Path("peer-environments"),
    json_file: o.JsonFile = None,
) -> None:
    """Start a server and time it against the engine alone, in turns, on a task's sentences; then the latency of its requests."""
    from hf_albert_plus.eval.load.served import SERVED, bench_served
    from hf_albert_plus.eval.load.traffic import Traffic
    from hf_albert_plus.eval.targets import parse_target

    start(None)
    traffic = Traffic(data=on.data, task=on.task, max_length=settings.max_length)
    document = bench_served(
        parse_target(target), traffic, settings, cluster=cluster, peers=peer_environments.resolve() if peers else None
    )
    if gives_json(document, json_file):
        return
    throughput = document["throughput"]
    print_rows(
        ["throughput", "sentences/s", "of the engine", "95 %"],
        [
            [
                label, f"{cell['items_per_s']:,.0f}", f"{100 * cell['speedup']:.1f} %",
                "{:.1f}-{:.1f} %".format(*(100 * end for end in cell["speedup_interval"])),
            ]
            for label, cell in throughput.items()
        ],
        title=f"{settings.texts} sentences a request, {settings.clients} clients, {document['streams']} cores",
    )  # fmt: skip
    print_rows(
        ["requests", "p50 ms", "p95 ms", "p99 ms", "max ms"],
        [
            [name, *(f"{cell[column]:.2f}" for column in ("p50_ms", "p95_ms", "p99_ms", "max_ms"))]
            for name, cell in (
                ("engine, one at a time", document["engine_alone"]),
                *(
                    row
                    for label, of in ((SERVED, document), *document["peers"].items())
                    for row in (
                        (f"{label}, one at a time", of["one_at_a_time"]),
                        (f"{label}, {of['half_pace']['requests_per_s']:.1f} a second", of["half_pace"]),
                    )
                ),
            )
        ],
    )
    print_rows(["processor time"], [[part, f"{100 * share:.0f} %"] for part, share in document["cpu_split"].items()])
    memory = document["memory_mb"]
    notes.print(f"ready after {document['ready_s']} s, {memory or 'unknown'} MB", markup=False)
    if document["label_agreement"] is not None:
        what = "tags" if on.task.has_tags else "label"
        notes.print(f"same {what} as the engine: {100 * document['label_agreement']:.2f} % of sentences", markup=False)


@with_settings
def bench_invariance(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TARGET...", help="DIR (torch) or DIR:RUNTIME, as DIR:onnx-int8; NAME=… names its row."),
    ],
    on: Scored,
    settings: InvarianceSettings,
    baseline: Annotated[str, typer.Option(help="The target whose logits or vectors the others are compared with.")],
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Ask targets for every text of a validation split alone, in batches, padded, by pipeline and by server: how far answers differ.

    Sentence encoders are asked for vectors: how near they are to the baseline's, and how far those in batches lie from those alone.
    """
    from hf_albert_plus.eval.load.neighbours import bench_invariance as measure
    from hf_albert_plus.eval.load.traffic import Traffic
    from hf_albert_plus.eval.targets import parse_target, parse_targets

    base, parsed = parse_target(baseline), parse_targets(targets)
    start(threads)
    document = measure(
        parsed, baseline=base, traffic=Traffic(data=on.data, task=on.task), settings=settings, threads=threads
    )
    if gives_json(document, json_file):
        return
    show = _print_answers if document.rows[0].least_cosine is None else _print_vectors
    show(document)


def _print_answers(document: "Neighbours") -> None:
    ways = list(document.rows[0].ways)
    print_rows(
        ["model", "file MB", "score", "in batches", "cosine", "other labels", *ways],
        [
            [
                row.label, f"{row.file_bytes / 1e6:.1f}",
                *("" if score is None else f"{score:.2f}" for score in (row.score, row.score_in_batches)),
                f"{row.cosine:.5f}", "" if row.other_predictions is None else f"{row.other_predictions}",
                *(f"{row.ways[way].difference_over_mean:.2g}, {row.ways[way].changed_predictions} flips" for way in ways),
            ]
            for row in document.rows
        ],
        title="{} of {} texts of {}, each way against each text alone: largest difference over the mean size, labels that change".format(
            *document.rows_of_split, document.task
        ),
    )  # fmt: skip


def _print_vectors(document: "Neighbours") -> None:
    ways = list(document.rows[0].ways)
    print_rows(
        ["model", "file MB", "cosine", "least cosine", *ways],
        [
            [
                row.label, f"{row.file_bytes / 1e6:.1f}", f"{row.cosine:.5f}", f"{row.least_cosine:.5f}",
                *(f"{row.ways[way].difference_over_mean:.2g}" for way in ways),
            ]
            for row in document.rows
        ],
        title="vectors of {} of {} rows of {}, their cosines to {}; each way against each text alone: largest difference over the mean size".format(
            *document.rows_of_split, document.task, document.baseline
        ),
    )  # fmt: skip
