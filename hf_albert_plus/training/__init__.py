"""Training: the settings, the loop and the callbacks that all trainings share, and fine-tuning."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .finetuning import finetune as finetune
    from .settings import TrainSettings as TrainSettings

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"finetuning": ["finetune"], "settings": ["TrainSettings"]}
)
