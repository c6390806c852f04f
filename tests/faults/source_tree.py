"""A tree of the project's files: where a text stands in its source, and where a test in its tests."""

import re
from collections import defaultdict
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

PACKAGE = "hf_albert_plus"
# Folders beside the package that import as parts of it.
MAPPED = ("export", "eval")


class SourceTree:
    """Files below a root, each read once."""

    def __init__(self, root: Path):
        self.root = root.resolve()

    @cached_property
    def source(self) -> dict[Path, str]:
        """The modules. The mapped folders are read once, whether or not links in the package lead to them."""
        files = {path.resolve() for folder in (PACKAGE, *MAPPED) for path in (self.root / folder).rglob("*.py")}
        return {path: path.read_text("utf-8") for path in sorted(files)}

    @cached_property
    def test_functions(self) -> dict[str, list[str]]:
        """Name of a test function -> what pytest calls it, in every file that has one."""
        called: dict[str, list[str]] = defaultdict(list)
        for path in sorted((self.root / "tests").rglob("*.py")):
            for name in re.findall(r"^def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE):
                called[name].append(f"{path.relative_to(self.root).as_posix()}::{name}")
        return dict(called)

    def places(self, text: str) -> list[tuple[Path, int, int]]:
        """Where a text stands in the source, however its lines are broken: file, start and end."""
        pattern = re.compile(r"\s+".join(map(re.escape, text.split())))
        return [(path, *hit.span()) for path, whole in self.source.items() for hit in pattern.finditer(whole)]

    def tests(self, names: Collection[str]) -> dict[str, list[str]]:
        """What pytest calls the test functions of these names."""
        return {name: self.test_functions.get(name, []) for name in names}
