"""Runs that do not learn, noticed early. Of ALBERT's sizes, large and up are known to stay at the frequencies of words, or to fall
back to them."""

import math
from collections import deque
from statistics import fmean
from typing import Any

from transformers import TrainerCallback

from ..errors import AlbertPlusError

# Of the run, after warm-up: by then one that learns at all is below the entropy of single tokens.
_PATIENCE = 0.2
_LEAST_STEPS = 500
# Nats: how far below that entropy counts as learning, and how far above its own best a loss may rise.
_MARGIN = 0.1
_RISE = 1.0
# Logged losses that are averaged.
_WINDOW = 20


class Diverged(AlbertPlusError):
    """A run that is stopped because it does not learn."""

    def __init__(self, what: str, *, step: int, loss: float, advice: str):
        super().__init__(f"training must lower its loss, got {what} at step {step} (loss {loss:.2f}); {advice}")
        self.step, self.loss = step, loss


class StopsDiverging(TrainerCallback):
    """Watches the mean of the last logged losses.

    Args:
        entropy: loss of a model that knows the frequencies of tokens alone, with that of guessed orders.
        warmup: share of the steps with a rising learning rate.

    Raises:
        Diverged: a fifth of the steps (500 at least) after warm-up the loss is still there; it is a nat above the best it was; or
            it is no number.
    """

    def __init__(self, *, entropy: float, warmup: float):
        self.entropy, self.patience = entropy, warmup + _PATIENCE
        self.losses: deque[float] = deque(maxlen=_WINDOW)
        self.best = float("inf")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What a run had logged before it was killed counts."""
        for entry in state.log_history:
            self._mean_with(entry)

    def _mean_with(self, logs: dict[str, Any]) -> float | None:
        """Of the last losses, once there are enough."""
        if "loss" not in logs:
            return None
        self.losses.append(float(logs["loss"]))
        if len(self.losses) < _WINDOW:
            return None
        mean = fmean(self.losses)
        self.best = min(self.best, mean)
        return mean

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        step, rate = state.global_step, args.learning_rate
        advice = f"lower --learning-rate (now {rate:g}) to a third, lengthen --warmup, or train fewer layers first and start from them"
        mean = self._mean_with(logs or {})
        if self.losses and not math.isfinite(self.losses[-1]):
            raise Diverged("a loss that is no number", step=step, loss=self.losses[-1], advice=advice)
        if mean is None:
            return
        if step >= _LEAST_STEPS and mean > self.best + _RISE:
            raise Diverged(f"a rise of more than a nat above {self.best:.2f}", step=step, loss=mean, advice=advice)
        if step >= max(_LEAST_STEPS, self.patience * state.max_steps) and mean > self.entropy - _MARGIN:
            raise Diverged(
                f"no more than the frequencies of words ({self.entropy:.2f})", step=step, loss=mean, advice=advice
            )


__all__ = ["Diverged", "StopsDiverging"]
