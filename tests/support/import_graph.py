"""The import graph of a package, read from its source: imports inside functions and under TYPE_CHECKING count."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = dict[str, set[str]]


def read_modules(folders: Mapping[str, Path]) -> dict[str, Path]:
    """Dotted name -> file, of packages by the folders that hold them."""
    modules = {}
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            modules[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return modules


def import_graph(modules: Mapping[str, Path]) -> Graph:
    """Module -> modules of ours that it imports, whichever way it writes it."""
    return {name: set(_imported(name, path, modules)) - {name} for name, path in modules.items()}


def _imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                # `from package import module` reads the module; `from package import name` reads the package.
                submodule = f"{source}.{alias.name}"
                yield from (
                    candidate for candidate in [submodule if submodule in modules else source] if candidate in modules
                )


def find_cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import each other in a circle, by Tarjan's strongly connected components."""
    indices: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(module: str) -> None:
        indices[module] = lowest[module] = len(indices)
        stack.append(module)
        for imported in sorted(graph.get(module, ())):
            if imported not in indices:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], indices[imported])
        if lowest[module] == indices[module]:
            start = stack.index(module)
            component = stack[start:]
            del stack[start:]
            if len(component) > 1:
                cycles.append(sorted(component))

    for module in sorted(graph):
        if module not in indices:
            visit(module)
    return cycles


def find_arrows_against(graph: Graph, layers: Mapping[str, int]) -> list[str]:
    """Imports of a higher layer, as `module -> module`.

    Args:
        layers: the beginning of a module's name -> the number of its layer; the longest that fits counts.
    """

    def layer(module: str) -> int:
        fitting = [prefix for prefix in layers if module == prefix or module.startswith(f"{prefix}.")]
        return layers[max(fitting, key=len)]

    return sorted(f"{a} -> {b}" for a in graph for b in graph[a] if layer(b) > layer(a))
