"""Registration with transformers' Auto classes, which happens when they are imported, before or after this package.

Importing them takes seconds. A command line that prints its help does not need them; whoever opens a model through them does, and then
finds ALBERT-plus there.
"""

import importlib.abc
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_AUTO_CONFIG = "transformers.models.auto.configuration_auto"
_AUTO_MODELS = "transformers.models.auto.modeling_auto"


def _register_config() -> None:
    from transformers.models.auto.configuration_auto import AutoConfig

    from .configuration_albert_plus import AlbertPlusConfig

    AutoConfig.register(AlbertPlusConfig.model_type, AlbertPlusConfig, exist_ok=True)


def _register_models() -> None:
    from transformers.models.auto import modeling_auto

    from . import modeling_albert_plus as modeling
    from .configuration_albert_plus import AlbertPlusConfig
    from .twin_albert_plus import AlbertPlusTwinModel

    models: tuple[type[modeling.AlbertPlusPreTrainedModel], ...] = (
        modeling.AlbertPlusModel,
        modeling.AlbertPlusForMaskedLM,
        modeling.AlbertPlusForMultipleChoice,
        modeling.AlbertPlusForPreTraining,
        modeling.AlbertPlusForQuestionAnswering,
        modeling.AlbertPlusForSequenceClassification,
        modeling.AlbertPlusForTokenClassification,
        AlbertPlusTwinModel,
    )
    for model_class in models:
        getattr(modeling_auto, str(model_class._auto_class)).register(AlbertPlusConfig, model_class, exist_ok=True)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Registers at the end of an import that brought transformers' Auto classes.

    Its end is that of the outermost module of transformers or of our models in this thread: modules of transformers import the Auto
    classes in their midst, and our models need what comes after.
    """

    def __init__(self) -> None:
        self.imports = threading.local()
        self.knows_config = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != "transformers" and not (package == __package__ and name.endswith("_albert_plus")):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def begin(self) -> None:
        self.imports.depth = getattr(self.imports, "depth", 0) + 1

    def end(self) -> None:
        self.imports.depth -= 1
        if self.imports.depth == 0:
            self.register()

    def register(self) -> None:
        """Registers what can be by now, each once."""
        if _AUTO_CONFIG in sys.modules and not self.knows_config:
            self.knows_config = True
            _register_config()
        if _AUTO_MODELS in sys.modules and self in sys.meta_path:
            sys.meta_path.remove(self)
            _register_models()


class _Loader(importlib.abc.Loader):
    """A module's own loader, after which is registered."""

    def __init__(self, loader: Any, finder: _AfterImport):
        self.loader, self.finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module is its own loader's again: what reads its source or pickles its classes asks that one.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.finder.begin()
        try:
            self.loader.exec_module(module)
        finally:
            self.finder.end()


def register_on_import() -> None:
    """Registers now where transformers' Auto classes are imported already, else as soon as they are."""
    finder = _AfterImport()
    sys.meta_path.insert(0, finder)
    finder.register()
