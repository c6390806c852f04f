"""The verbs. Each parses its options, calls one stage and prints what came out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options as o
from .architectures import convert, variants
from .artefacts import export
from .augmentation import augment
from .batch_scoring import score
from .benches import bench
from .compression import calibrate, prune, qat, sparsify
from .console import print_json, print_table
from .distillation import distill, split_settings
from .failures import run_command
from .pretraining import bench_pretrain, pretrain
from .reports import card, report
from .retrieval import retrieve
from .scoring import evaluate, submit
from .serving import bench_serve, capacity, serve
from .stages import done, settings_of_task, start
from .texts import corpus, tokenizer

app = typer.Typer(
    name="albert-plus",
    help="Small and fast text encoders: distil, export, measure, report.",
    epilog="Start with: albert-plus demo --out demo-output",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def main() -> None:
    """Runs the command line."""
    run_command(app)


@app.command(epilog="Example: albert-plus demo --out demo-output")
def demo(
    out: o.Out = Path("demo-output"),
    seed: o.Seed = 0,
    threads: o.Threads = None,
    stop_after: Annotated[
        str | None, typer.Option(help="Stop after this stage: data, pretrain, finetune, distill, export, eval, bench.")
    ] = None,
    as_json: o.JsonOut = False,
) -> None:
    """The main job on data that it makes itself: teacher, student, exports, scores, latency, report. Offline."""
    start(threads)
    from .demo import run_demo

    _finish(
        run_demo(out, seed=seed, threads=threads, stop_after=stop_after), out, as_json=as_json, title="albert-plus demo"
    )


@app.command(
    epilog="Example: albert-plus run --teacher demo-output/encoder --data demo-output/data --task sst2 --out run-sst2"
)
def run(
    teacher: Annotated[str, typer.Option(help="Model directory or Hub id of a pretrained encoder.")],
    data: o.Data,
    task: o.TaskNames,
    out: o.Out,
    method: Annotated[
        str, typer.Option(help="How the student learns: a name of distill --list-methods.")
    ] = "kd-hidden",
    student: Annotated[str, typer.Option(help="half (all-shared, half the teacher's layers) or a variant.")] = "half",
    set_: o.MethodSet = None,
    teacher_epochs: o.Epochs = None,
    student_epochs: Annotated[
        float | None, typer.Option(help="Default: the method's; twice the teacher's for kd-hidden.")
    ] = None,
    batch_size: o.BatchSize = None,
    learning_rate: o.LearningRate = 5e-5,
    student_learning_rate: Annotated[float | None, typer.Option(help="Default: the method's.")] = None,
    max_length: o.MaxLength = 128,
    shapes: Annotated[str, typer.Option(help="Shapes to time, BATCHxLENGTH.")] = "1x16,8x128",
    seconds: Annotated[float, typer.Option(help="Least measured time for each row and shape.")] = 3.0,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """The main job from a real checkpoint: fine-tune the teacher, distil, export, score, time, report."""
    start(threads)
    from .pipeline import RunSettings, run_pipeline

    values, overrides = split_settings(set_ or [], method=method)
    settings = RunSettings(
        method=method,
        values=values,
        student=student,
        overrides=overrides,
        teacher_epochs=teacher_epochs,
        student_epochs=student_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        student_learning_rate=student_learning_rate,
        max_length=max_length,
        shapes=shapes,
        bench_seconds=seconds,
        precision=precision.value,
        seed=seed,
    )
    table = run_pipeline(
        teacher, data=data, tasks=list(dict.fromkeys(task)), out=out, settings=settings, threads=threads
    )
    _finish(table, out, as_json=as_json, title=f"albert-plus run: {', '.join(task)}")


def _finish(table: Any, out: Path, *, as_json: bool, title: str) -> None:
    if table is None:
        return
    if as_json:
        from hf_albert_plus.eval.presentation import records

        print_json({"out": str(out), "rows": records(table)})
        return
    print_table(table, title=title)
    for name in ("report.md", "report.html", "report.csv", "report.json"):
        typer.echo(str(out / "report" / name))


app.command(epilog="Example: albert-plus variants")(variants)
app.command(epilog="Example: albert-plus convert demo-output/encoder --to bert --out converted")(convert)


@app.command(
    epilog="Example: albert-plus finetune --model demo-output/encoder --data demo-output/data --task sst2 --out teacher"
)
def finetune(
    model: Annotated[str, typer.Option(help="Directory or Hub id of an encoder.")],
    data: o.Data,
    task: o.TaskName,
    out: o.Out,
    epochs: o.Epochs = None,
    batch_size: o.BatchSize = None,
    learning_rate: o.LearningRate = 5e-5,
    max_length: o.MaxLength = 128,
    precision: o.Precision = o.PrecisionChoice.auto,
    seed: o.Seed = 42,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Fine-tune an encoder on a GLUE task."""
    from ..finetune import finetune as stage
    from ..glue import get_task
    from ..training import TrainSettings

    chosen = get_task(task)
    settings = settings_of_task(
        TrainSettings, chosen, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, max_length=max_length,
        precision=precision.value, seed=seed,
    )  # fmt: skip
    start(threads)
    done(stage(model, data=data, task=chosen, output=out, settings=settings), out, as_json=as_json)


app.command(
    epilog="Example: albert-plus distill --method tinybert --teacher demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --epochs 1 --out student"
)(distill)
app.command(
    epilog="Example: albert-plus augment --data demo-output/data --task sst2 --word-vectors demo-output/encoder --copies 2 --out augmented"
)(augment)


app.command(
    epilog="Example: albert-plus prune --model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --heads 0.5 --columns 0.5 --out pruned"
)(prune)
app.command(
    epilog="Example: albert-plus calibrate --model exits --data demo-output/data --task sst2 --max-drop 0.5 --out calibrated"
)(calibrate)
app.command(
    epilog="Example: albert-plus sparsify --model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --sparsity 0.6 --epochs 1 --out sparse"
)(sparsify)
app.command(
    epilog="Example: albert-plus qat --model demo-output/models/teacher-sst2 --data demo-output/data --task sst2 --bits 2,4 --budget 0.3 --epochs 1 --out few-bits"
)(qat)


app.command(
    epilog="Example: albert-plus export demo-output/trained/student-sst2 --to onnx --to onnx-int8 --out exported"
)(export)


app.command(
    "eval",
    epilog="Example: albert-plus eval demo-output/models/student-sst2:onnx-int8 --task sst2 --data demo-output/data",
)(evaluate)
app.command(epilog="Example: albert-plus retrieve twins --task mrpc --data demo-output/data")(retrieve)
app.command(epilog="Example: albert-plus submit sst2=DIR:onnx-int8 mnli=DIR --data nyu-mll/glue --out submission.zip")(
    submit
)


app.command(
    epilog="Example: albert-plus bench demo-output/models/student-sst2:onnx-int8 --baseline demo-output/models/teacher-sst2 --shapes 1x16,8x64"
)(bench)


app.command(
    epilog="Example: albert-plus report --scores demo-output/scores/sst2/scores.json --bench demo-output/latency/latency.json --out report"
)(report)
app.command(
    epilog="Example: albert-plus card demo-output/models/student-sst2 --scores demo-output/scores/sst2/scores.json --bench demo-output/latency/latency.json"
)(card)

app.command(
    epilog="Example: albert-plus pretrain --corpus demo-output/data/pretraining.txt --tokenizer demo-output/data/tokenizer --max-length 64 --set num_hidden_layers=2 --set hidden_size=128 --set num_attention_heads=4 --set intermediate_size=512 --batch-size 32 --optimizer adamw --learning-rate 1e-3 --out my-encoder"
)(pretrain)
app.command(
    epilog="Example: albert-plus bench-pretrain --corpus my-corpus --set num_hidden_layers=2 --set hidden_size=128 --set num_attention_heads=4 --set intermediate_size=512"
)(bench_pretrain)
app.command(epilog="Example: albert-plus serve demo-output/models/student-sst2:onnx-int8 --port 8000")(serve)
app.command(
    epilog="Example: albert-plus bench-serve demo-output/models/student-sst2:onnx-int8 --data demo-output/data --task sst2"
)(bench_serve)
app.command(
    epilog="Example: albert-plus capacity served-1.json served-16.json served-64.json --rate 1000000 --texts 16"
)(capacity)
app.command(
    epilog="Example: albert-plus score --input demo-output/data/sst2/validation-00000-of-00001.parquet --text-column sentence --keep label=gold --engine demo-output/models/student-sst2:onnx-int8 --output scored"
)(score)
app.add_typer(tokenizer, name="tokenizer")
app.add_typer(corpus, name="corpus")


__all__ = ["app", "main"]
