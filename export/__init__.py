"""From model directories to ONNX graphs, OpenVINO, TensorRT and Triton."""

from typing import TYPE_CHECKING

import lazy_loader

if __name__ != "hf_albert_plus.export":
    raise ImportError("import this package as hf_albert_plus.export, from an installed hf-albert-plus")

if TYPE_CHECKING:
    from hf_albert_plus.engines.artefacts import ARTEFACTS as ARTEFACTS

    from .settings import ExportSettings as ExportSettings
    from .stage import export as export

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"settings": ["ARTEFACTS", "ExportSettings"], "stage": ["export"]}
)
