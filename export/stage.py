"""The export stage: a model directory in, the same directory with its exports out."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hf_albert_plus.compression.quantisation import Scheme, read_scheme
from hf_albert_plus.errors import InvalidInput, suggest
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.export.tensorrt_plan import Profile, check_tensorrt
from hf_albert_plus.files import file_sha256
from hf_albert_plus.glue import data_parent, get_task
from hf_albert_plus.input_files import check_input_file
from hf_albert_plus.model_copies import copy_model
from hf_albert_plus.optional import need
from hf_albert_plus.progress import steps
from hf_albert_plus.records import Parent, Record, carried_record, parent, run_stage

# In the order in which they are made.
EXPORTS = (
    "onnx", "onnx-fp16", "onnx-bf16", "onnx-int8", "onnx-qdq", "onnx-nbits", "onnx-exits", "onnx-int8-exits", "openvino", "openvino-int8", "tensorrt", "triton",
)  # fmt: skip
CALIBRATED = ("onnx-qdq", "openvino-int8")
# What a model that was trained for few bits is exported to.
AS_TRAINED = ("onnx-int8", "onnx-qdq", "onnx-nbits")
EXIT_FORMS = ("auto", "loop", "segments")
TENSORRT_SOURCES = ("onnx-fp16", "onnx-bf16", "onnx-qdq")
# What an export imports last of all, and is looked for first.
_LIBRARIES = {
    "openvino": ["openvino"],
    "openvino-int8": ["openvino", "nncf"],
    "triton": ["tritonclient.grpc.model_config_pb2"],
}


@dataclass(frozen=True)
class ExportSettings:
    """What decides the files besides the model.

    Attributes:
        data, task: a GLUE folder and task, whose training examples calibrate and whose score judges int8.
        texts: a file of examples to calibrate with instead, one a line, a tab between the texts of a pair.
        examples: how many of them.
        keep_fp32: patterns of weight products that int8 graphs leave as they are.
        max_drop: points of the task's score that an int8 export may lose.
        exit_form: `loop` or `segments`, or `auto` for the faster one of both where there are both.
        tensorrt_from: the graph that TensorRT builds from.
        profile: shapes that TensorRT optimises for.
        timing_cache: where TensorRT keeps what it timed.
        threads: of the engines that check and score, the physical cores by default.
    """

    data: str | None = None
    task: str | None = None
    texts: Path | None = None
    examples: int = 128
    keep_fp32: tuple[str, ...] = ()
    max_drop: float | None = None
    exit_form: str = "auto"
    tensorrt_from: str = "onnx-fp16"
    profile: Profile = field(default_factory=Profile)
    timing_cache: Path | None = None
    threads: int | None = None

    def deciding(self, wanted: list[str]) -> dict[str, Any]:
        """The settings that decide the files of these exports, for the record."""
        found: dict[str, Any] = {}
        if self.task is not None or self.texts is not None:
            found["examples"] = self.examples
        if self.task is not None:
            found["task"] = self.task
        if self.keep_fp32:
            found["keep_fp32"] = list(self.keep_fp32)
        if self.max_drop is not None:
            found["max_drop"] = self.max_drop
        if any(name.endswith("-exits") for name in wanted):
            found["exit_form"] = self.exit_form
        if "tensorrt" in wanted:
            found |= {"tensorrt_from": self.tensorrt_from, "profile": asdict(self.profile)}
        return found

    def parents(self) -> dict[str, Parent]:
        """The examples that are read, by their content."""
        if self.data is not None and self.task is not None:
            return {"data": data_parent(self.data, get_task(self.task))}
        if self.texts is not None and self.texts.is_file():
            return {"texts": {"path": str(self.texts), "sha256": file_sha256(self.texts)}}
        return {}


# The points that an engine scores on the settings' task.
Scorer = Callable[[Engine], float]


def export(
    source: Path,
    *,
    to: list[str],
    output: Path,
    settings: ExportSettings | None = None,
    scorer: Scorer | None = None,
) -> Record:
    """Exports a model directory of any head, each artefact verified before the directory gets its name.

    Args:
        to: any of `EXPORTS`.
        output: the directory to make: config, weights and tokenizer of `source`, the artefacts, record.json.
        scorer: scores an engine on the settings' task; needed where they name one.

    Raises:
        InvalidInput: an unknown export, a setting or library that one lacks, or a source that is no model directory.
        ParityError: outputs differ from the model's by more than the precision's tolerance.
        QuantisationError: an int8 graph has a weight product in fp32 that is not to be kept.
        ScoreError: an int8 export loses more than `max_drop` points.
    """
    settings = settings or ExportSettings()
    wanted = _wanted(to, settings, source)
    if not (source / "config.json").is_file():
        raise InvalidInput(
            "export needs a model directory",
            got=f"{source} without config.json",
            repair="give a directory that finetune or distill made",
        )
    if "tensorrt" in wanted:
        check_tensorrt(source, graph=settings.tensorrt_from, profile=settings.profile)
    if settings.task is not None and scorer is None:
        raise InvalidInput("a task needs a scorer", got="none", repair="pass scorer=, as albert-plus export does")
    return run_stage(
        "export",
        output,
        settings={"to": wanted, **settings.deciding(wanted)},
        parents={"model": parent(source), **settings.parents()},
        work=lambda directory: _export(source, wanted, directory, settings, scorer),
    )


def _wanted(to: list[str], settings: ExportSettings, source: Path) -> list[str]:
    """The exports to make, in their order, once the settings allow them."""
    for name in to:
        if name not in EXPORTS:
            raise InvalidInput("--to must be a known export", got=repr(name), repair=suggest(name, list(EXPORTS)))
    if settings.exit_form not in EXIT_FORMS:
        raise InvalidInput(
            "--exit-form must be known",
            got=repr(settings.exit_form),
            repair=suggest(settings.exit_form, list(EXIT_FORMS)),
        )
    if settings.tensorrt_from not in TENSORRT_SOURCES:
        raise InvalidInput(
            "--tensorrt-from must be a typed graph",
            got=repr(settings.tensorrt_from),
            repair=suggest(settings.tensorrt_from, list(TENSORRT_SOURCES)),
        )
    wanted, scheme = set(to), read_scheme(source)
    if "tensorrt" in wanted:
        wanted.add(settings.tensorrt_from)
    for name, libraries in _LIBRARIES.items():
        for library in libraries if name in wanted else ():
            need(library, extra=name.partition("-")[0])
    if "triton" in wanted and not any(name.startswith(("onnx", "tensorrt")) for name in wanted):
        wanted.add("onnx" if scheme is None else "onnx-int8" if scheme.is_int8 else "onnx-nbits")
    _check_source(source, wanted, settings, scheme)
    if (settings.data is None) != (settings.task is None):
        raise InvalidInput(
            "--data and --task go together",
            got=f"--data {settings.data} and --task {settings.task}",
            repair="give both, or --texts FILE",
        )
    calibrated = [name for name in CALIBRATED if name in wanted and (scheme is None or name != "onnx-qdq")]
    if calibrated and settings.texts is None and settings.task is None:
        raise InvalidInput(
            f"{calibrated[0]} is calibrated on real examples",
            got="none",
            repair="add --data FOLDER --task NAME, or --texts FILE with one example a line",
        )
    if settings.texts is not None:
        check_input_file(settings.texts, what="--texts", form="a text file, one example a line")
    if settings.max_drop is not None and settings.task is None:
        raise InvalidInput(
            "--max-drop is judged by a task's score", got="no task", repair="add --data FOLDER --task NAME"
        )
    if settings.max_drop is not None and not 0 <= settings.max_drop <= 100:
        raise InvalidInput(
            "--max-drop must be between 0 and 100 points", got=settings.max_drop, repair="use --max-drop 0.5"
        )
    if settings.examples < 1:
        raise InvalidInput("--examples must be at least 1", got=settings.examples, repair="use --examples 128")
    return [name for name in EXPORTS if name in wanted]


def _check_source(source: Path, wanted: set[str], settings: ExportSettings, scheme: Scheme | None) -> None:
    """Refuses what a model was not trained for, before anything is computed."""
    from hf_albert_plus.checkpoints import load_config
    from hf_albert_plus.export.exit_exports import check_exits

    exits = sorted(name for name in wanted if name.endswith("-exits"))
    for name in exits:
        check_exits(load_config(source, option="DIR"), name)
    if "onnx-int8-exits" in exits and settings.keep_fp32:
        raise InvalidInput(
            "--keep-fp32 names products of a graph without exits",
            got="onnx-int8-exits beside it",
            repair="export them by themselves",
        )
    if scheme is None:
        if "onnx-nbits" in wanted:
            raise InvalidInput(
                "onnx-nbits needs a model that was trained for it",
                got="no quantisation.json beside its weights",
                repair="albert-plus qat --model DIR --bits 4 …",
            )
        return
    if "tensorrt" in wanted and settings.tensorrt_from != "onnx-qdq":
        raise InvalidInput(
            "TensorRT must build what a model was trained for from its own roundings",
            got=f"--tensorrt-from {settings.tensorrt_from}",
            repair="add --tensorrt-from onnx-qdq",
        )
    other = sorted(wanted - {"triton", "tensorrt", *AS_TRAINED})
    if other:
        raise InvalidInput(
            f"a model that was trained for few bits is exported as it was trained, to {', '.join(AS_TRAINED)}",
            got=f"{other[0]}, which would leave its roundings out",
            repair="export the model that it was trained from",
        )
    if wanted & {"onnx-int8", "onnx-qdq"}:
        scheme.check_int8()


def _export(
    source: Path, wanted: list[str], directory: Path, settings: ExportSettings, scorer: Scorer | None
) -> dict[str, Any]:
    from hf_albert_plus.checkpoints import open_as_trained
    from hf_albert_plus.export.exporters import EXPORTERS
    from hf_albert_plus.export.graph import applied_passes
    from hf_albert_plus.export.work import Work

    with (
        tempfile.TemporaryDirectory() as scratch,
        steps(f"export {source.name}", total=2 + len(wanted)) as begin,
    ):
        begin("open")
        copy_model(source, directory)
        model = open_as_trained(source, option="DIR")
        begin("trace")
        work = Work.begin(model, source, directory, settings, scorer, scratch=Path(scratch))
        exports = {}
        for name in wanted:
            begin(name)
            exports[name] = EXPORTERS[name](work)
            if name in RUNTIMES:
                exports[name] = work.described(name, exports[name])
        work.close(keep_fp32_graph="onnx" in wanted)
    return {
        "parameters": model.num_parameters(),
        "unique_parameter_bytes": sum(parameter.nbytes for parameter in model.parameters()),
        "passes": applied_passes(work.proto),
        "parity_inputs": [case.what for case in work.cases],
        "torch_score": work.torch_score,
        "trained": carried_record(source),
        "exports": exports,
    }


__all__ = ["CALIBRATED", "EXPORTS", "TENSORRT_SOURCES", "ExportSettings", "Scorer", "export"]
