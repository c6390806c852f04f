"""The command line as a whole: its verbs in groups, each with an example."""

from collections.abc import Callable, Iterable

import typer

from .architectures import convert, variants
from .bench_systems import bench_invariance, bench_pretrain, bench_serve
from .benches import bench as bench_targets
from .benches import cuda, passes, peers, self_check
from .bulk_scoring import embed, score
from .compress import calibrate, compress, prune, qat, sparsify, trim
from .default_group import DefaultGroup
from .distil import augment, distill
from .evaluation import evaluate, retrieve, submit
from .exports import export
from .failures import run_command
from .floors import floor
from .gpu_checks import gpu
from .inspections import inspect
from .json_argument import OneVerb
from .main_job import demo, run
from .publish import push
from .reports import card, report
from .score_calibration import calibrate_scores
from .servers import capacity, serve
from .texts import corpus, tokenizer
from .train import finetune, pretrain
from .waiting import wait_briefly

app = typer.Typer(
    name="albert-plus",
    help="Small and fast text encoders: distil, export, measure, report.",
    epilog="Start with: albert-plus demo --out demo-output",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
bench = typer.Typer(cls=DefaultGroup, help="Time targets against a baseline; or what the other commands name.")

# A verb: its name, its function, and an example, which follows `albert-plus NAME`.
Verb = tuple[str, Callable[..., None], str]

MAIN_JOB: list[Verb] = [
    ("demo", demo, "--out demo-output"),
    ("run", run, "--teacher demo-output/encoder --data demo-output/data --task sst2 --out run-sst2"),
]
MAKE: list[Verb] = [
    ("variants", variants, ""),
    ("convert", convert, "demo-output/encoder --to bert --out converted"),
]
TRAIN: list[Verb] = [
    (
        "pretrain",
        pretrain,
        "--corpus demo-output/data/pretraining.txt --tokenizer demo-output/data/tokenizer --max-length 64 --set num_hidden_layers=2 --set hidden_size=128 --set num_attention_heads=4 --set intermediate_size=512 --batch-size 32 --optimizer adamw --learning-rate 1e-3 --out my-encoder",
    ),
    ("finetune", finetune, "--model demo-output/encoder --data demo-output/data --task sst2 --out teacher"),
    (
        "distill",
        distill,
        "--method tinybert --teacher demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --epochs 1 --out student",
    ),
    (
        "augment",
        augment,
        "--data demo-output/data --task sst2 --word-vectors demo-output/encoder --copies 2 --out augmented",
    ),
]
COMPRESS: list[Verb] = [
    (
        "compress",
        compress,
        "demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --max-drop 1 --time-budget 10m --out compressed",
    ),
    (
        "prune",
        prune,
        "--model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --heads 0.5 --columns 0.5 --out pruned",
    ),
    (
        "trim",
        trim,
        "--model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --out trimmed",
    ),
    (
        "sparsify",
        sparsify,
        "--model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --sparsity 0.6 --epochs 1 --out sparse",
    ),
    (
        "qat",
        qat,
        "--model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --bits 2,4 --budget 0.3 --epochs 1 --out few-bits",
    ),
    (
        "calibrate",
        calibrate,
        "--model exits --data demo-output/data --task sst2 --max-drop 0.5 --out calibrated",
    ),
    (
        "calibrate-scores",
        calibrate_scores,
        "demo-output/models/student-sst2 --data demo-output/data --task sst2 --out trusted",
    ),
]
EXPORT: list[Verb] = [("export", export, "demo-output/trained/student-sst2 --to onnx --to onnx-int8 --out exported")]
MEASURE: list[Verb] = [
    ("eval", evaluate, "demo-output/models/student-sst2:onnx-int8 --task sst2 --data demo-output/data"),
    ("inspect", inspect, "demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --out layers"),
    ("floor", floor, "--data demo-output/data --task sst2 --teacher demo-output/encoder --out floor"),
    ("submit", submit, "sst2=DIR:onnx-int8 mnli=DIR --data nyu-mll/glue --out submission.zip"),
    ("retrieve", retrieve, "twins --task mrpc --data demo-output/data"),
]
REPORT: list[Verb] = [
    (
        "report",
        report,
        "--scores demo-output/scores/sst2/scores.json --bench demo-output/latency/latency.json --out report",
    ),
    (
        "card",
        card,
        "demo-output/models/student-sst2 --scores demo-output/scores/sst2/scores.json --bench demo-output/latency/latency.json",
    ),
]
PUBLISH: list[Verb] = [("push", push, "demo-output/models/student-sst2 OWNER/student-sst2 --dry-run")]
SERVE: list[Verb] = [
    ("serve", serve, "demo-output/models/student-sst2:onnx-int8 --port 8000"),
    (
        "score",
        score,
        "--input demo-output/data/sst2/validation-00000-of-00001.parquet --text-column sentence --keep label=gold --engine demo-output/models/student-sst2:onnx-int8 --output scored",
    ),
    (
        "embed",
        embed,
        "--input demo-output/data/sst2/validation-00000-of-00001.parquet --text-column sentence --engine vectors:onnx-int8 --output embedded",
    ),
    ("capacity", capacity, "served-1.json served-16.json served-64.json --rate 1000000 --texts 16"),
]
# The first needs no name.
BENCH: list[Verb] = [
    (
        "targets",
        bench_targets,
        "demo-output/models/student-sst2:onnx-int8 --baseline demo-output/models/teacher-sst2 --shapes 1x16,8x64",
    ),
    ("peers", peers, "demo-output/models/student-sst2 --shapes 1x16,8x64"),
    ("passes", passes, "albert-base-v2 --shapes 1x16"),
    ("self-check", self_check, "demo-output/models/student-sst2:onnx-int8 --shapes 8x64"),
    ("cuda", cuda, "demo-output/models/student-sst2 --shapes 1x16,8x64"),
    ("gpu", gpu, "--device cpu --small --out gpu-output"),
    (
        "pretrain",
        bench_pretrain,
        "--corpus my-corpus --set num_hidden_layers=2 --set hidden_size=128 --set num_attention_heads=4 --set intermediate_size=512",
    ),
    ("serve", bench_serve, "demo-output/models/student-sst2:onnx-int8 --data demo-output/data --task sst2"),
    (
        "invariance",
        bench_invariance,
        "demo-output/models/student-sst2:onnx-int8 --baseline demo-output/models/student-sst2 --data demo-output/data --task sst2",
    ),
]


def main() -> None:
    """Runs the command line."""
    wait_briefly()
    run_command(app)


def _add(group: typer.Typer, verbs: Iterable[Verb], *, panel: str | None = None, prefix: str = "") -> None:
    for name, function, example in verbs:
        epilog = f"Example: albert-plus {prefix}{name} {example}".rstrip()
        group.command(name, cls=OneVerb, epilog=epilog, rich_help_panel=panel)(function)


_add(app, MAIN_JOB, panel="Main job")
_add(app, MAKE, panel="Make")
app.add_typer(tokenizer, name="tokenizer", rich_help_panel="Make")
app.add_typer(corpus, name="corpus", rich_help_panel="Make")
_add(app, TRAIN, panel="Make")
_add(app, COMPRESS, panel="Compress")
_add(app, EXPORT, panel="Export")
_add(app, MEASURE, panel="Measure")
_add(bench, BENCH, prefix="bench ")
app.add_typer(bench, name="bench", rich_help_panel="Measure", epilog=f"Example: albert-plus bench {BENCH[0][2]}")
_add(app, REPORT, panel="Measure")
_add(app, PUBLISH, panel="Publish")
_add(app, SERVE, panel="Serve")
# As they were called before they were members of bench.
for _name, _function, _example in BENCH:
    if _function in (bench_pretrain, bench_serve):
        app.command(
            f"bench-{_name}", cls=OneVerb, hidden=True, epilog=f"Example: albert-plus bench-{_name} {_example}"
        )(_function)
