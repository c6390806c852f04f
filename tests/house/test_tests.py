"""What tests share stands in tests/support: no test file imports from another, nor from a conftest."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def imported_modules(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module that a file imports, wherever in it, and of every name that may be one."""
    folder = path.relative_to(root).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = folder[: len(folder) - node.level + 1] if node.level else ()
            module = ".".join([*start, *filter(None, [node.module])])
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def imports_of_tests(root: Path) -> list[str]:
    """Imports of a test file or a conftest in tests/, as `file:line imports module`."""
    tests = [
        path for path in (root / "tests").rglob("*.py") if path.stem.startswith("test_") or path.stem == "conftest"
    ]
    modules = {".".join(path.relative_to(root).with_suffix("").parts) for path in tests}
    return sorted(
        f"{path.relative_to(root)}:{line} imports {module}"
        for path in (root / "tests").rglob("*.py")
        for line, module in imported_modules(path, root)
        if module in modules
    )


def test_no_test_file_imports_from_another_or_from_a_conftest():
    assert imports_of_tests(ROOT) == []


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("from tests.room.test_other import helper", "tests.room.test_other"),
        ("def test():\n    import tests.room.test_other", "tests.room.test_other"),
        ("from .test_other import helper", "tests.room.test_other"),
        ("from . import test_other", "tests.room.test_other"),
        ("from ..conftest import helper", "tests.conftest"),
        ("from tests.conftest import SMALL", "tests.conftest"),
    ],
)
def test_a_planted_import_is_found(tmp_path, line, module):
    room = tmp_path / "tests" / "room"
    room.mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text("SMALL = 1")
    (room / "test_other.py").write_text("import json\nfrom tests.support import helper\n")
    assert imports_of_tests(tmp_path) == []
    (room / "test_planted.py").write_text(line)
    assert [each.split()[-1] for each in imports_of_tests(tmp_path)] == [module]
