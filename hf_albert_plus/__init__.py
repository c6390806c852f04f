"""ALBERT variants for transformers that are small and fast, with their distillation, exports and measurements.

Importing this package registers `AlbertPlusConfig` and its models with transformers' Auto classes.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)

from ._version import __version__
from .configuration_albert_plus import AlbertPlusConfig
from .modeling_albert_plus import (
    AlbertPlusForMaskedLM,
    AlbertPlusForSequenceClassification,
    AlbertPlusModel,
    AlbertPlusPreTrainedModel,
)

AutoConfig.register(AlbertPlusConfig.model_type, AlbertPlusConfig, exist_ok=True)
AutoModel.register(AlbertPlusConfig, AlbertPlusModel, exist_ok=True)
AutoModelForMaskedLM.register(AlbertPlusConfig, AlbertPlusForMaskedLM, exist_ok=True)
AutoModelForSequenceClassification.register(AlbertPlusConfig, AlbertPlusForSequenceClassification, exist_ok=True)

__all__ = [
    "AlbertPlusConfig",
    "AlbertPlusForMaskedLM",
    "AlbertPlusForSequenceClassification",
    "AlbertPlusModel",
    "AlbertPlusPreTrainedModel",
    "__version__",
]
