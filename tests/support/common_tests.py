"""Finds and imports the common tests of transformers. Its wheel has none: `make upstream` unpacks them from its source
distribution."""

import importlib.util
import os
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import transformers

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("TRANSFORMERS_TESTS") or ROOT / ".venv" / "transformers-tests" / "tests")
PACKAGE = "transformers_tests"  # `tests` is our own

# What the common tests import and the source distribution lacks: the tests of exporters and of generation, and values
# other than the defaults for the fields of every config.
STAND_INS: dict[str, dict[str, Any]] = {
    "exporters.test_export": {"ExportTesterMixin": type("ExportTesterMixin", (), {})},
    "generation.test_utils": {"GenerationTesterMixin": type("GenerationTesterMixin", (), {})},
    "utils.test_configuration_utils": {
        "config_common_kwargs": {
            "architectures": ["AlbertPlusModel"],
            "chunk_size_feed_forward": 2,
            "dtype": "float16",
            "id2label": {0: "only"},
            "label2id": {"only": "0"},
            "output_attentions": True,
            "output_hidden_states": True,
            "problem_type": "regression",
            "return_dict": False,
        }
    },
}


def why_unavailable() -> str | None:
    """What the common tests lack to run, with the command that brings it."""
    if not (FOLDER / "test_modeling_common.py").is_file():
        return f"no tests of transformers in {FOLDER}; type `make upstream`"
    info = FOLDER.parent / "PKG-INFO"
    version = re.search(r"^Version: (.+)$", info.read_text(encoding="utf-8"), re.MULTILINE) if info.is_file() else None
    if version is not None and version[1] != transformers.__version__:
        return f"{FOLDER} is of transformers {version[1]}, not {transformers.__version__}; type `make upstream`"
    if importlib.util.find_spec("parameterized") is None:
        return "the tests of transformers need parameterized; type `make upstream`"
    return None


def load(name: str) -> ModuleType:
    """Imports a module of transformers' `tests` folder under another package name."""
    if PACKAGE not in sys.modules:
        package = sys.modules[PACKAGE] = ModuleType(PACKAGE)
        package.__path__ = [str(FOLDER)]
        for path, content in STAND_INS.items():
            module = sys.modules[f"{PACKAGE}.{path}"] = ModuleType(f"{PACKAGE}.{path}")
            vars(module).update(content)
    # The configuration tests run an __init__.py beside them that the source distribution lacks too.
    with warnings.catch_warnings(), mock.patch("transformers.utils.direct_transformers_import"):
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{PACKAGE}.{name}")
