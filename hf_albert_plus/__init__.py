"""ALBERT variants for transformers that are small and fast, with their distillation, exports and measurements.

Importing this package registers `AlbertPlusConfig` and its models with transformers' Auto classes.
"""

from . import interrupts as interrupts  # Ctrl-C may come while the others open

# isort: split
import transformers

from ._version import __version__
from .configuration_albert_plus import AlbertPlusConfig
from .modeling_albert_plus import (
    AlbertPlusForMaskedLM,
    AlbertPlusForMultipleChoice,
    AlbertPlusForPreTraining,
    AlbertPlusForQuestionAnswering,
    AlbertPlusForSequenceClassification,
    AlbertPlusForTokenClassification,
    AlbertPlusModel,
    AlbertPlusPreTrainedModel,
)
from .twin_albert_plus import AlbertPlusTwinModel

transformers.AutoConfig.register(AlbertPlusConfig.model_type, AlbertPlusConfig, exist_ok=True)
AlbertPlusConfig.register_for_auto_class()
_models: dict[str, type[AlbertPlusPreTrainedModel]] = {
    "AutoModel": AlbertPlusModel,
    "AutoModelForMaskedLM": AlbertPlusForMaskedLM,
    "AutoModelForMultipleChoice": AlbertPlusForMultipleChoice,
    "AutoModelForPreTraining": AlbertPlusForPreTraining,
    "AutoModelForQuestionAnswering": AlbertPlusForQuestionAnswering,
    "AutoModelForSequenceClassification": AlbertPlusForSequenceClassification,
    "AutoModelForTextEncoding": AlbertPlusTwinModel,
    "AutoModelForTokenClassification": AlbertPlusForTokenClassification,
}
for _auto_class, _model_class in _models.items():
    getattr(transformers, _auto_class).register(AlbertPlusConfig, _model_class, exist_ok=True)
    # A saved model takes the code that defines it along, so that it opens where this package is not installed.
    _model_class.register_for_auto_class(_auto_class)

__all__ = [
    "AlbertPlusConfig",
    "AlbertPlusForMaskedLM",
    "AlbertPlusForMultipleChoice",
    "AlbertPlusForPreTraining",
    "AlbertPlusForQuestionAnswering",
    "AlbertPlusForSequenceClassification",
    "AlbertPlusForTokenClassification",
    "AlbertPlusModel",
    "AlbertPlusPreTrainedModel",
    "AlbertPlusTwinModel",
    "__version__",
]
