"""The documentation against the code: commands, options, extras, names, links and anchors exist. `test_documents_run` runs its blocks."""

import importlib
import importlib.util
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest
import typer

from hf_albert_plus.cli.app import app
from tests.support.documents import PAGES, READ, ROOT, RUN, anchors_of, blocks_of, links_of, names_in

try:
    import tomllib
except ModuleNotFoundError:  # python 3.10
    import tomli as tomllib

sys.path.insert(0, str(ROOT / "docs"))
import reference

BASH = [block for page in PAGES for block in blocks_of(page) if block.language == "bash"]
# Programs of others that pages call.
OTHERS = {
    "cat",
    "cp",
    "curl",
    "do",
    "done",
    "echo",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mv",
    "node",
    "openssl",
    "optimum-cli",
    "rm",
    "sleep",
    "until",
}
_ENDS = {"&&", "||", "|", ";", "&"}


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands_of(code: str) -> list[list[str]]:
    """The simple commands of a script, without what it sets for them and without substitutions."""
    commands: list[list[str]] = []
    for line in re.sub(r"\$\([^)]*\)", "it", code.replace("\\\n", " ")).split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in _ENDS:
                commands += [words] if words else []
                words = []
            elif words or not re.fullmatch(r"[A-Z_]+=.*", word):
                words.append(word)
    return commands


def parse(words: list[str]) -> None:
    """Reads a command line of ours as it is read when it runs; what no command knows raises."""
    command = typer.main.get_command(app)
    context = command.make_context("albert-plus", words)
    while hasattr(command, "commands"):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        _, command, rest = command.resolve_command(context, rest)
        context = command.make_context(command.name, rest, parent=context)


def options_of(words: list[str]) -> set[str]:
    """Options of the command that these words begin with, and of those that lead to it."""
    command, known = typer.main.get_command(app), {"--help"}
    for word in [*words, ""]:
        known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return known


@cache
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def check_command(words: list[str]) -> None:
    """Fails for a command that names what is not there."""
    program, *given = words
    if program == "albert-plus" and given == ["--install-completion"]:
        assert "--install-completion" in options_of([])
    elif program == "albert-plus":
        parse(given)
    elif "hf_albert_plus" in given:
        parse(given[given.index("hf_albert_plus") + 1 :])
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
        assert set(given) <= set(targets)
    elif program == "pip":
        for extras in re.findall(r"\.\[([\w,]+)\]", " ".join(given)):
            assert set(extras.split(",")) <= set(project()["optional-dependencies"])
    elif program == "python" and given[0] == "-m":
        assert importlib.util.find_spec(given[1]) is not None
    elif program.startswith("examples/"):
        assert (ROOT / program).is_file()
    else:
        assert program in {*OTHERS, "python", "accelerate"}, f"{program} is no program that pages may call"


def imports(name: str) -> bool:
    """Whether a dotted name is a module, or what a module holds."""
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("block", BASH, ids=[block.place for block in BASH])
def test_commands_and_their_options_exist(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in commands_of(block.code):
        check_command(words)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_names_in_the_text_exist(page):
    """Commands that the text mentions know their options; modules and what they hold import."""
    for name in names_in(page):
        if name.startswith("albert-plus "):
            words = shlex.split(name)[1:]
            assert words[0] in {*typer.main.get_command(app).commands, "VERB"} or words[0].startswith("--"), name
            assert {word for word in words if re.fullmatch(r"--[a-z-]+", word)} <= options_of(words), name
        elif match := re.fullmatch(r"(hf_albert_plus(?:\.\w+)+)", name):
            assert imports(match[1]), name
        elif name.startswith("python -m "):
            assert importlib.util.find_spec(name.split()[2]) is not None, name


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_blocks_name_a_language_that_is_known_and_a_reason_not_to_run(page):
    for block in blocks_of(page):
        assert block.language in RUN | READ, block.place
        assert not block.comment or re.fullmatch(r"not run: .+|runs until stopped|runs where Node is", block.comment), (
            block.place
        )


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for target in links_of(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert there.is_relative_to(ROOT), target
        if page.is_relative_to(ROOT / "docs") and there.suffix == ".md":
            assert there.is_relative_to(ROOT / "docs"), f"{target}: `make docs` knows no page of another folder"
        if anchor:
            assert anchor in anchors_of(reference.expand(there.read_text(encoding="utf-8"))), target


def test_every_page_is_in_the_contents():
    listed = [
        line
        for block in blocks_of(ROOT / "docs" / "index.md")
        for line in block.code.splitlines()
        if line and line[0] != ":"
    ]
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES if ROOT / "docs" in page.parents
    }
    assert sorted([*listed, "index"]) == sorted(pages)


def test_the_readme_has_two_screens():
    assert len((ROOT / "README.md").read_bytes()) <= 8192


@pytest.mark.parametrize("name", reference.GENERATORS)
def test_the_reference_says_something_of_everything(name):
    text = reference.GENERATORS[name]()
    assert len(text.splitlines()) > 5
    assert not re.search(r"<(class|function|object|enum|bound)|object at 0x|DefaultPlaceholder", text)


def test_the_reference_has_every_command():
    headings = set(re.findall(r"^### (.*)$", reference.commands(), flags=re.M))
    commands = typer.main.get_command(app).commands
    assert {f"albert-plus {name}" for name, command in commands.items() if not command.hidden} <= headings


def test_the_quickstart_names_every_runtime():
    assert {row[0] for row in reference.runtimes()} <= {"torch", *names_in(ROOT / "docs" / "quickstart.md")}


def test_the_support_matrix_has_its_reasons():
    known = {row[0] for row in reference.runtimes()}
    for row in reference.EVIDENCE:
        assert set(row.runtimes) <= known
        file, _, test = row.where.partition("::")
        if test:
            (path,) = (ROOT / "tests").rglob(file)
            assert f"def {test}(" in path.read_text(encoding="utf-8"), row.where
        else:
            assert (ROOT / "docs" / file).is_file(), row.where
