"""The house's own order: imports go one way, modules are short and have names of their own, and only façades list names."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.import_graph import find_arrows_against, find_cycles, import_graph, read_modules

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "hf_albert_plus": ROOT / "hf_albert_plus",
    "hf_albert_plus.export": ROOT / "export",
    "hf_albert_plus.eval": ROOT / "eval",
}
# A module imports from its own layer and the lower ones.
LAYERS = {
    "hf_albert_plus": 0,
    "hf_albert_plus.export": 1,
    "hf_albert_plus.eval": 2,
    "hf_albert_plus.search": 3,
    "hf_albert_plus.cli": 3,
    "hf_albert_plus.__main__": 3,
}
MOST_LINES = 400
# The same in every room.
COMMON_NAMES = {"__init__", "__main__", "_version", "settings", "stage"}


@pytest.fixture(scope="module")
def modules():
    return read_modules(FOLDERS)


@pytest.fixture(scope="module")
def graph(modules):
    return import_graph(modules)


def test_no_modules_import_each_other_in_a_circle(graph):
    assert find_cycles(graph) == []


def test_imports_go_one_way(graph):
    assert find_arrows_against(graph, LAYERS) == []


def test_the_graph_is_of_this_package(graph):
    """Else the two tests above would pass on nothing."""
    assert {"hf_albert_plus.export.stage", "hf_albert_plus.eval.settings"} <= set(graph)
    assert (
        "hf_albert_plus.layers_albert_plus"
        in graph["hf_albert_plus.base_albert_plus"] | graph["hf_albert_plus.modeling_albert_plus"]
    )
    assert any(module.startswith("hf_albert_plus.eval.") for module in graph["hf_albert_plus.cli.benches"])  # lazily


def test_no_module_is_long(modules):
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules.items()}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def shared_names(modules):
    """File name -> modules of that name, where there is more than one."""
    by_name = defaultdict(list)
    for name, path in modules.items():
        if path.stem not in COMMON_NAMES:
            by_name[path.stem].append(name)
    return {stem: names for stem, names in by_name.items() if len(names) > 1}


def test_no_two_modules_share_a_name(modules):
    assert shared_names(modules) == {}


def lists_names(path):
    """Whether a file assigns `__all__`."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(
        isinstance(node, ast.Name) and node.id == "__all__" and isinstance(node.ctx, ast.Store) for node in nodes
    )


def test_only_facades_list_their_names(modules):
    assert [name for name, path in modules.items() if path.name != "__init__.py" and lists_names(path)] == []


@pytest.fixture
def plant(tmp_path):
    """Writes a package of files and gives its modules."""

    def write(files):
        for file, text in files.items():
            path = tmp_path / "house" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return read_modules({"house": tmp_path / "house"})

    return write


@pytest.mark.parametrize(
    "back",
    [
        "from house.room.first import one",
        "from .first import one",
        "from . import first",
        "from ..room import first",
        "import house.room.first",
        "def later():\n    from .first import one",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .first import one",
    ],
)
def test_a_planted_cycle_is_found(plant, back):
    files = {"__init__.py": "", "room/__init__.py": "", "room/first.py": "from .second import two\none = 1"}
    assert find_cycles(import_graph(plant({**files, "room/second.py": "two = 2"}))) == []
    cycles = find_cycles(import_graph(plant({**files, "room/second.py": back})))
    assert cycles == [["house.room.first", "house.room.second"]]


def test_a_planted_cycle_of_three_is_found(plant):
    files = {f"{name}.py": f"from . import {following}" for name, following in ("ab", "bc", "ca", "da")}
    assert find_cycles(import_graph(plant({"__init__.py": "", **files}))) == [["house.a", "house.b", "house.c"]]


def test_a_planted_arrow_is_found(plant):
    graph = import_graph(plant({
        "__init__.py": "", "low.py": "def later():\n    from house.high.top import top", "high/__init__.py": "from .top import top",
        "high/top.py": "from house.low import later\ntop = 1",
    }))  # fmt: skip
    assert find_arrows_against(graph, {"house": 0, "house.high": 1}) == ["house.low -> house.high.top"]


def test_planted_names_are_found(plant):
    modules = plant(
        {"a/rows.py": "__all__ = []", "b/rows.py": "", "a/stage.py": "", "b/stage.py": "", "a/__init__.py": ""}
    )
    assert shared_names(modules) == {"rows": ["house.a.rows", "house.b.rows"]}
    assert [name for name, path in modules.items() if lists_names(path)] == ["house.a.rows"]
