"""ALBERT variants for transformers that are small and fast, with their distillation, exports and measurements.

Importing this package registers `AlbertPlusConfig` and its models with transformers' Auto classes.
"""

from typing import TYPE_CHECKING

import lazy_loader

from ._version import __version__ as __version__
from .auto_classes import register_on_import

if TYPE_CHECKING:
    from .base_albert_plus import AlbertPlusPreTrainedModel as AlbertPlusPreTrainedModel
    from .configuration_albert_plus import AlbertPlusConfig as AlbertPlusConfig
    from .distillation.distillation_trainer import DistillationTrainer as DistillationTrainer
    from .engines.engine import Engine as Engine
    from .modeling_albert_plus import AlbertPlusForMaskedLM as AlbertPlusForMaskedLM
    from .modeling_albert_plus import AlbertPlusForMultipleChoice as AlbertPlusForMultipleChoice
    from .modeling_albert_plus import AlbertPlusForPreTraining as AlbertPlusForPreTraining
    from .modeling_albert_plus import AlbertPlusForQuestionAnswering as AlbertPlusForQuestionAnswering
    from .modeling_albert_plus import AlbertPlusForSequenceClassification as AlbertPlusForSequenceClassification
    from .modeling_albert_plus import AlbertPlusForTokenClassification as AlbertPlusForTokenClassification
    from .modeling_albert_plus import AlbertPlusModel as AlbertPlusModel
    from .twin_albert_plus import AlbertPlusTwinModel as AlbertPlusTwinModel

__getattr__, __dir__, _names = lazy_loader.attach(
    __name__,
    submod_attrs={
        "configuration_albert_plus": ["AlbertPlusConfig"],
        "distillation.distillation_trainer": ["DistillationTrainer"],
        "engines.engine": ["Engine"],
        "modeling_albert_plus": [
            "AlbertPlusForMaskedLM",
            "AlbertPlusForMultipleChoice",
            "AlbertPlusForPreTraining",
            "AlbertPlusForQuestionAnswering",
            "AlbertPlusForSequenceClassification",
            "AlbertPlusForTokenClassification",
            "AlbertPlusModel",
            "AlbertPlusPreTrainedModel",
        ],
        "twin_albert_plus": ["AlbertPlusTwinModel"],
    },
)
__all__ = [*_names, "__version__"]

register_on_import()
