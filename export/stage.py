"""The export stage: a model directory in, the same directory with its exports out."""

import tempfile
from pathlib import Path
from typing import Any

from hf_albert_plus.checkpoints import copy_model, open_as_trained
from hf_albert_plus.compression.exits.cross_fitting import Score
from hf_albert_plus.conversion.sentence_modules import form_of, write_modules
from hf_albert_plus.engines.artefacts import Artefact
from hf_albert_plus.engines.pooled_encoder import SentenceEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.exits.int8_thresholds import Recalibration
from hf_albert_plus.export.exporters import EXPORTERS
from hf_albert_plus.export.facts import facts_of
from hf_albert_plus.export.graph.tracing import applied_passes
from hf_albert_plus.export.settings import ExportSettings, Scorer
from hf_albert_plus.export.tensorrt_plan import check_tensorrt
from hf_albert_plus.export.wanted import wanted_artefacts
from hf_albert_plus.export.work import Work
from hf_albert_plus.records.files import file_sha256
from hf_albert_plus.records.progress import steps
from hf_albert_plus.records.record import Parent, Record, carried_calibrations, carried_record, parent
from hf_albert_plus.records.stage import run_stage
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import data_parent


def export(
    source: Path,
    *,
    to: list[str],
    output: Path,
    settings: ExportSettings | None = None,
    scorer: Scorer | None = None,
    logits_scorer: Score | None = None,
) -> Record:
    """Exports a model directory of any head, each artefact verified before the directory gets its name.

    Args:
        to: any of `ARTEFACTS`.
        output: the directory to make: config, weights and tokenizer of `source`, the artefacts, record.json.
        scorer: scores an engine on the settings' task; needed where they name one.
        logits_scorer: points of logits and labels of that task, by which a graph with exits in int8 finds its own threshold; it has the
            config's without.

    Raises:
        InvalidInput: an unknown export, a setting or library that one lacks, or a source that is no model directory.
        ParityError: outputs differ from the model's by more than the precision's tolerance.
        QuantisationError: an int8 graph has a weight product in fp32 that is not to be kept.
        ScoreError: an int8 export loses more than `max_drop` points.
    """
    settings = settings or ExportSettings()
    wanted = wanted_artefacts(to, settings, source)
    names = [artefact.name for artefact in wanted]
    if not (source / "config.json").is_file():
        raise InvalidInput(
            "export needs a model directory",
            got=f"{source} without config.json",
            repair="give a directory that finetune or distill made",
        )
    if "tensorrt" in names:
        check_tensorrt(source, graph=settings.tensorrt_from, profile=settings.profile)
    if settings.task is not None and scorer is None:
        raise InvalidInput("a task needs a scorer", got="none", repair="pass scorer=, as albert-plus export does")
    return run_stage(
        "export",
        output,
        settings={"to": names, **settings.deciding(names)},
        parents={"model": parent(source), **_examples_read(settings)},
        work=lambda directory: _export(source, wanted, directory, settings, scorer, logits_scorer),
    )


def _examples_read(settings: ExportSettings) -> dict[str, Parent]:
    """The examples that are read, by their content."""
    if settings.data is not None and settings.task is not None:
        return {"data": data_parent(settings.data, get_task(settings.task))}
    if settings.texts is not None and settings.texts.is_file():
        return {"texts": {"path": str(settings.texts), "sha256": file_sha256(settings.texts)}}
    return {}


def _export(
    source: Path,
    wanted: list[Artefact],
    directory: Path,
    settings: ExportSettings,
    scorer: Scorer | None,
    logits_scorer: Score | None,
) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as scratch,
        steps(f"export {source.name}", total=2 + len(wanted)) as begin,
    ):
        begin("open")
        copy_model(source, directory)
        model = open_as_trained(source, option="DIR")
        if settings.pooling is not None:
            model = SentenceEncoder(model, pooling=settings.pooling, normalize=settings.normalize).eval()
            write_modules(directory, model.config, form_of(settings.pooling, settings.normalize))
        begin("trace")
        work = Work.begin(model, source, directory, settings, scorer, scratch=Path(scratch))
        if any(artefact.has_exits for artefact in wanted):
            work.recalibration = Recalibration.of(source, settings, logits_scorer)
        exports = {}
        for artefact in wanted:
            begin(artefact.name)
            results = EXPORTERS[artefact.name](work, artefact)
            exports[artefact.name] = facts_of(*work.files(artefact), *results)
            work.made.append(artefact)
        work.close(keep_fp32_graph="onnx" in exports)
    return {
        "parameters": model.num_parameters(),
        "unique_parameter_bytes": sum(parameter.nbytes for parameter in model.parameters()),
        "passes": applied_passes(work.proto),
        "parity_inputs": [case.what for case in work.cases],
        "torch_score": work.torch_score,
        "trained": carried_record(source),
        "calibrated": carried_calibrations(source),
        "exports": exports,
    }
