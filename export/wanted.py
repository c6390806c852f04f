"""Which artefacts an export makes, once the settings, the libraries and the model allow them: all is refused before anything is computed."""

from pathlib import Path

from hf_albert_plus.compression.quantisation.scheme import Scheme, read_scheme
from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.artefacts import ARTEFACTS, TYPED_GRAPHS, Artefact
from hf_albert_plus.errors import InvalidInput, check_known, need, suggest
from hf_albert_plus.export.exits.exit_exports import check_exits
from hf_albert_plus.export.sentence_vectors import check_pooling
from hf_albert_plus.export.settings import EXIT_FORMS, ExportSettings
from hf_albert_plus.export.web_folder import check_web
from hf_albert_plus.records.files import check_input_file
from hf_albert_plus.tasks.glue import get_task

_TRAINED_FORMS = [name for name, artefact in ARTEFACTS.items() if artefact.trained_form is not None]


def wanted_artefacts(to: list[str], settings: ExportSettings, source: Path) -> list[Artefact]:
    """The artefacts to make, in their order: those asked for, and the graphs that they are made of.

    Raises:
        InvalidInput: an unknown export, or a setting, library or training that one lacks.
    """
    _check_names(to, settings)
    names, scheme = set(to), read_scheme(source)
    if "tensorrt" in names:
        names.add(settings.tensorrt_from)
    for artefact in _rows(names):
        for library in artefact.libraries:
            need(library, extra=artefact.extra or artefact.name)
    trained = None if scheme is None else "onnx-int8" if scheme.is_int8 else "onnx-nbits"
    if "triton" in names and not any(artefact.triton_backend for artefact in _rows(names)):
        names.add(trained or "onnx")
    if "web" in names and not any(artefact.dtypes for artefact in _rows(names)):
        names.add(trained or "onnx-int8")
    wanted = _rows(names)
    if "web" in names:
        check_web(source)
    check_pooling(settings, source)
    _check_exits(wanted, settings, source)
    _check_training(wanted, settings, scheme)
    _check_examples(wanted, settings, scheme)
    return wanted


def _rows(names: set[str]) -> list[Artefact]:
    return [artefact for artefact in ARTEFACTS.values() if artefact.name in names]


def _check_names(to: list[str], settings: ExportSettings) -> None:
    """Refuses names that no table has."""
    for name in to:
        if name not in ARTEFACTS:
            raise InvalidInput("--to must be a known export", got=repr(name), repair=suggest(name, list(ARTEFACTS)))
    check_known(settings, exit_form=tuple(EXIT_FORMS))
    if settings.tensorrt_from not in TYPED_GRAPHS:
        raise InvalidInput(
            "--tensorrt-from must be a typed graph",
            got=repr(settings.tensorrt_from),
            repair=suggest(settings.tensorrt_from, TYPED_GRAPHS),
        )


def _check_exits(wanted: list[Artefact], settings: ExportSettings, source: Path) -> None:
    """Refuses graphs with exits of a model without, and settings that they have no use for."""
    for artefact in wanted:
        if artefact.has_exits:
            check_exits(load_config(source, option="DIR"), artefact.name)
    rounded = [artefact.name for artefact in wanted if artefact.has_exits and artefact.precision == "int8"]
    if rounded and settings.keep_fp32:
        raise InvalidInput(
            "--keep-fp32 names products of a graph without exits",
            got=f"{rounded[0]} beside it",
            repair="export them by themselves",
        )


def _check_training(wanted: list[Artefact], settings: ExportSettings, scheme: Scheme | None) -> None:
    """Refuses artefacts that a model was not trained for, or that would leave out what it was trained for."""
    if scheme is None:
        for artefact in wanted:
            if artefact.needs_training:
                raise InvalidInput(
                    f"{artefact.name} needs a model that was trained for it",
                    got="no quantisation.json beside its weights",
                    repair="albert-plus qat --model DIR --bits 4 …",
                )
        return
    if ARTEFACTS["tensorrt"] in wanted and ARTEFACTS[settings.tensorrt_from].trained_form is None:
        raise InvalidInput(
            "TensorRT must build what a model was trained for from its own roundings",
            got=f"--tensorrt-from {settings.tensorrt_from}",
            repair="add --tensorrt-from onnx-qdq",
        )
    others = [artefact.name for artefact in wanted if artefact.trained_form is None and not artefact.made_of_others]
    if others:
        raise InvalidInput(
            f"a model that was trained for few bits is exported as it was trained, to {', '.join(_TRAINED_FORMS)}",
            got=f"{min(others)}, which would leave its roundings out",
            repair="export the model that it was trained from",
        )
    if any(artefact.trained_form is not None and artefact.precision == "int8" for artefact in wanted):
        scheme.check_int8()


def _check_examples(wanted: list[Artefact], settings: ExportSettings, scheme: Scheme | None) -> None:
    """Refuses settings that do not say which examples calibrate, or what a score may lose."""
    if (settings.data is None) != (settings.task is None):
        raise InvalidInput(
            "--data and --task go together",
            got=f"--data {settings.data} and --task {settings.task}",
            repair="give both, or --texts FILE",
        )
    # What a model was trained for has its ranges already.
    calibrated = [row.name for row in wanted if row.calibrated and (scheme is None or row.trained_form is None)]
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
    in_points = settings.task is None or not get_task(settings.task).is_scored_by_error
    if settings.max_drop is not None and not 0 <= settings.max_drop <= (100 if in_points else 1e15):
        rule = "between 0 and 100 points" if in_points else "at least 0, in the unit of the error"
        raise InvalidInput(f"--max-drop must be {rule}", got=settings.max_drop, repair="use --max-drop 0.5")
    if settings.examples < 1:
        raise InvalidInput("--examples must be at least 1", got=settings.examples, repair="use --examples 128")
