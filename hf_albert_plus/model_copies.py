"""A model directory's copy in another one: config, weights and tokenizer, and of code only this package's own."""

import shutil
import sys
from pathlib import Path
from typing import Any

from transformers.dynamic_module_utils import get_relative_import_files

from .config_files import is_our_code
from .files import read_json, write_json
from .records import RECORD

_SUFFIXES = {".json", ".safetensors", ".txt", ".model"}
# The files with an auto_map: names of the code that opens what they describe.
_WITH_AUTO_MAP = ("config.json", "tokenizer_config.json")


def copy_model(source: Path, directory: Path) -> None:
    """Copies what opens a model. Exports, cards, records and whatever training left stay behind, and so does foreign code: a stage
    answers for what it writes."""
    for path in source.iterdir():
        if path.is_file() and path.suffix in _SUFFIXES and path.name != RECORD:
            shutil.copyfile(path, directory / path.name)
    names = {name for file in _WITH_AUTO_MAP for name in _keep_our_names(directory / file, source)}
    for module in sorted({name.partition(".")[0] for name in names}):
        file = Path(__file__).with_name(f"{module}.py")
        for needed in (file, *map(Path, get_relative_import_files(file))):
            shutil.copyfile(needed, directory / needed.name)


def _keep_our_names(path: Path, source: Path) -> list[str]:
    """Takes foreign code's names out of a file's auto_map; those of ours that are left."""
    if not path.is_file():
        return []
    content = read_json(path, what=f"{path.name} of a model", shape=dict[str, Any], repair="save the model again")
    names = content.get("auto_map") or {}
    ours = {key: name for key, name in names.items() if is_our_code(name)} if isinstance(names, dict) else {}
    if ours != names:
        print(f"the code that {source / path.name} names in auto_map is not copied", file=sys.stderr)
        write_json(
            path, {**content, "auto_map": ours} if ours else {k: v for k, v in content.items() if k != "auto_map"}
        )
    return list(ours.values())


__all__ = ["copy_model"]
