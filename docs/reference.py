"""Sphinx extension that writes the reference from the code: a line `<!-- generated: NAME -->` of a page becomes what `GENERATORS[NAME]` returns.

The pages under docs/reference/ keep their introductions as files; everything that the code knows better comes from here, at build time.
"""

import dataclasses
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

MARKER = re.compile(r"^<!-- generated: ([a-z-]+) -->$", flags=re.MULTILINE)
_NO_PANEL = "Commands"


def commands() -> str:
    """Every command of `albert-plus` with its options, in the groups that `albert-plus --help` shows."""
    root = _command_tree()
    panels: dict[str, list[tuple[str, Any]]] = {}
    for name, command in root.commands.items():
        if not command.hidden:
            panels.setdefault(_panel(command), []).append((name, command))
    sections = []
    for panel, members in panels.items():
        sections.append(f"## {panel}")
        for name, command in members:
            sections += _command_sections(f"albert-plus {name}", command)
    return "\n\n".join(sections)


def _command_tree() -> Any:
    import typer

    from hf_albert_plus.cli.app import app

    return typer.main.get_command(app)


def _panel(command: Any) -> str:
    """The group in which help shows a command; typer wraps a panel that nobody named."""
    panel = getattr(command, "rich_help_panel", None)
    return str(getattr(panel, "value", panel) or _NO_PANEL)


def _command_sections(path: str, command: Any) -> Iterator[str]:
    yield f"### {path}"
    if command.help:
        yield _plain(command.help)
    words = [option.opts[-1].upper() for option in command.params if option.param_type_name == "argument"]
    usage = " ".join([path, *words, "[OPTIONS]", *(["COMMAND"] if hasattr(command, "commands") else [])])
    yield f"```text\n{usage}\n```"
    rows = [_parameter_row(command, parameter) for parameter in command.params if not parameter.hidden]
    if rows:
        yield _table(("option", "value", "default", "what it says"), rows)
    if command.epilog:
        yield f"{_plain(command.epilog).replace('Example: ', 'Example: `', 1)}`"
    for name, below in getattr(command, "commands", {}).items():
        yield from _command_sections(f"{path} {name}", below)


def _parameter_row(command: Any, parameter: Any) -> tuple[str, str, str, str]:
    if parameter.param_type_name == "argument":
        names = parameter.metavar or parameter.name.upper()
    else:
        names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    flag = getattr(parameter, "is_flag", False)
    value = "" if flag else parameter.metavar or parameter.display_type(_context(command))
    if parameter.required:
        default = "required"
    else:
        unset = parameter.default is None or parameter.default is False
        default = "" if unset else str(getattr(parameter.default, "value", parameter.default))
    return f"`{names}`", f"`{value}`" if value else "", f"`{default}`" if default else "", parameter.help or ""


def _context(command: Any) -> Any:
    return command.make_context(command.name, [], resilient_parsing=True)


def config() -> str:
    """Fields of AlbertPlusConfig with their types, defaults and what the class says of them."""
    from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig

    said = attributes_of(AlbertPlusConfig.__doc__ or "", section="Args")
    rows = []
    for name, kind in AlbertPlusConfig.__annotations__.items():
        default = getattr(AlbertPlusConfig, name, None)
        if not name.startswith("_") and name != "model_type":
            rows.append(
                (f"`{name}`", f"`{_type_name(kind)}`", f"`{default!r}`", said.get(name, "As in BERT's config."))
            )
    return _table(("field", "type", "default", "what it chooses"), rows)


def runtimes() -> list[tuple[str, str, str, str | None, str | None]]:
    """What runs a model directory: name, file, precision, value of `export --to`, extra. The one place that reads the package's table."""
    from hf_albert_plus.engines.artefacts import RUNTIMES

    extras = {row.name: None if row.artefact is None else row.artefact.extra for row in RUNTIMES.values()}
    return [(row.name, row.file, row.precision, row.target, extras[row.name]) for row in RUNTIMES.values()]


def artefacts() -> str:
    """What an export makes, and the runtimes with the files that they run."""
    from hf_albert_plus.engines.artefacts import ARTEFACTS

    made = [
        (
            f"`{row.name}`",
            f"`{row.file}`" if row.file else "a folder",
            row.precision,
            _needs(row),
            f"`{row.extra}`" if row.extra else "",
        )
        for row in ARTEFACTS.values()
    ]
    rows = [
        (
            f"`{name}`",
            f"`{file}`",
            precision,
            f"`--to {target}`" if target else "the model itself",
            f"`{extra}`" if extra else "",
        )
        for name, file, precision, target, extra in runtimes()
    ]
    return "\n\n".join(
        (
            "## What an export makes",
            _table(("`--to`", "file below the model directory", "precision", "what it needs", "extra"), made),
            "## What runs a model directory",
            _table(("runtime", "file below the model directory", "precision", "made by `export`", "extra"), rows),
        )
    )


def _needs(artefact: Any) -> str:
    """What an artefact asks for besides the model, in words."""
    needs = [
        ("real examples", artefact.calibrated),
        ("a model that was trained for few bits", artefact.needs_training),
        ("exits and their threshold", artefact.has_exits),
        ("a GPU to run well", artefact.for_gpu),
        ("other artefacts", artefact.made_of_others),
    ]
    return ", ".join(words for words, applies in needs if applies)


# What the class leaves to its names.
_OF_THE_RUN = {
    "versions": "Version of Python and of each library that decides a result, and the commit of this package's code where that is known.",
    "platform": "System and processor that it ran on.",
    "finished": "Date and time of its end, in UTC.",
}


def record() -> str:
    """The shape of record.json, from the types that read and write it."""
    from hf_albert_plus.records.files import FileFacts
    from hf_albert_plus.records.record import Parent, Record

    said = {**_OF_THE_RUN, **attributes_of(Record.__doc__ or "", section="Attributes")}
    fields = [field for field in dataclasses.fields(Record) if field.name != "reused"]
    rows = [(f"`{field.name}`", f"`{_type_name(field.type)}`", said.get(field.name, "")) for field in fields]
    parts = [_table(("field", "type", "what it says"), rows)]
    for kind in (Parent, FileFacts):
        parts.append(f"## {kind.__name__}\n\n{_plain((kind.__doc__ or '').partition(chr(10) * 2)[0])}")
        hints = typing.get_type_hints(kind)
        parts.append(_table(("key", "type"), [(f"`{name}`", f"`{_type_name(hint)}`") for name, hint in hints.items()]))
    return "\n\n".join(parts)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Why a cell of the support matrix says what it says.

    Attributes:
        status: one of `_STRENGTH`: figures stand on a results page; a test runs it and compares it with the model; a test computes the
            graph with every result rounded to its type; a test looks at the graph and nothing ran it.
        heads: suffixes of the heads it holds for; empty for all.
        runtimes: runtimes it holds for.
        where: `FILE::TEST` somewhere below tests/, or a page below docs/.
    """

    status: str
    heads: tuple[str, ...]
    runtimes: tuple[str, ...]
    where: str


_CLASSIFIER = ("ForSequenceClassification",)
EVIDENCE = (
    Evidence("measured", _CLASSIFIER, ("torch", "onnx", "onnx-int8"), "results/one-run.md"),
    Evidence("measured", _CLASSIFIER, ("onnx-qdq", "onnx-nbits", "onnx-exits", "onnx-int8-exits"), "results/compression.md"),
    Evidence("measured", _CLASSIFIER, ("openvino", "openvino-int8"), "results/peers.md"),
    Evidence("tested", (), ("torch", "onnx", "onnx-int8"), "test_export.py::test_every_head_through_the_stage_and_the_engines"),
    Evidence("emulated", (), ("onnx-fp16", "onnx-bf16"), "test_half.py::test_every_head_within_its_tolerance"),
    Evidence(
        "tested",
        _CLASSIFIER,
        ("torch-bf16", "torch-compile", "onnx-fp16", "onnx-qdq", "openvino", "openvino-bf16", "openvino-int8"),
        "test_engines.py::test_every_runtime_in_a_pipeline",
    ),
    Evidence("tested", ("ForMultipleChoice",), ("onnx-qdq",), "test_engines.py::test_multiple_choice_has_three_axes"),
    Evidence("tested", _CLASSIFIER, ("torch-qat",), "test_qat.py::test_a_model_trained_for_int8_runs_in_int8"),
    Evidence("checked", (), ("tensorrt",), "test_tensorrt.py::test_graphs_for_tensorrt_hold_only_what_its_parser_lists"),
)  # fmt: skip
# Trained by verbs that make classifiers, or exits of a classifier: other heads have none.
_CLASSIFIERS_ALONE = ("torch-qat", "onnx-nbits", "onnx-exits", "onnx-int8-exits")
_COMPARED_AT_EXPORT = ("onnx-qdq", "openvino", "openvino-int8")
_STRENGTH = ("measured", "tested", "emulated", "checked")


def support() -> str:
    """Heads against runtimes: the strongest evidence of each pair."""
    from hf_albert_plus.heads import HEADS

    names = [row[0] for row in runtimes()]
    rows = [(f"`{name}`", *(_support_of(head, name) for head in HEADS)) for name in names]
    return _table(("runtime", *(f"`{head}`" for head in HEADS)), rows)


def _support_of(head: str, runtime: str) -> str:
    said = [row.status for row in EVIDENCE if runtime in row.runtimes and (not row.heads or head in row.heads)]
    if said:
        return min(said, key=_STRENGTH.index)
    if runtime in _CLASSIFIERS_ALONE:
        return "none"
    return "at export" if runtime in _COMPARED_AT_EXPORT else "not tested"


def evidence() -> str:
    """What stands behind the support matrix."""
    rows = [
        (
            row.status,
            ", ".join(f"`{head}`" for head in row.heads) or "every head",
            ", ".join(f"`{name}`" for name in row.runtimes),
            f"`{row.where}`" if "::" in row.where else f"[{row.where.removesuffix('.md')}]({row.where})",
        )
        for row in EVIDENCE
    ]
    return _table(("cell", "heads", "runtimes", "why"), rows)


GENERATORS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "config": config,
    "artefacts": artefacts,
    "record": record,
    "support": support,
    "evidence": evidence,
}


def expand(text: str) -> str:
    """A page with what its markers ask for."""
    return MARKER.sub(lambda match: GENERATORS[match[1]](), text)


def attributes_of(docstring: str, *, section: str) -> dict[str, str]:
    """What a docstring's section of names says, name -> text in one line."""
    _, _, body = docstring.partition(f"{section}:\n")
    said: dict[str, str] = {}
    name, indent = "", None
    for line in body.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if stripped and indent is None:
            indent = depth
        if stripped and depth < (indent or 0):
            break
        match = re.match(r"(\w+): (.*)", stripped) if depth == indent else None
        if match:
            name, said[match[1]] = match[1], match[2]
        elif name and stripped:
            said[name] += f" {stripped}"
    return {name: text[:1].upper() + text[1:] for name, text in said.items()}


def _type_name(kind: Any) -> str:
    name = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return re.sub(r"\b(typing|hf_albert_plus\.[\w.]+)\.(?=\w)", "", name)


def _plain(text: str) -> str:
    """Docstrings break lines where their source does."""
    return "\n\n".join(re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n"))


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def setup(app: Any) -> dict[str, Any]:
    """Registers the extension with Sphinx."""

    def expand_source(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = expand(source[0])

    app.connect("source-read", expand_source)
    return {"version": "1", "parallel_read_safe": True}
