"""Runs that do not learn, noticed early. Of ALBERT's sizes, large and up are known to stay at the frequencies of words, or to fall
back to them."""

from typing import Any

from transformers import TrainerCallback

from ..errors import AlbertPlusError

# Of the run: by then a run that learns at all is below the entropy of single tokens.
_PATIENCE = 0.2
_LEAST_STEPS = 500
# Nats: how far below that entropy counts as learning, and how far above its own best a loss may rise.
_MARGIN = 0.1
_RISE = 1.0
_MEMORY = 0.95


class Diverged(AlbertPlusError):
    """A run that is stopped because it does not learn."""

    def __init__(self, what: str, *, step: int, loss: float, advice: str):
        super().__init__(f"training must lower its loss, got {what} at step {step} (loss {loss:.2f}); {advice}")
        self.step, self.loss = step, loss


class StopsDiverging(TrainerCallback):
    """Watches a running mean of the logged loss.

    Args:
        entropy: loss of a model that knows the frequencies of tokens alone, with that of guessed orders.

    Raises:
        Diverged: after a fifth of the steps (500 at least) the loss is still there; or it is a nat above the best it was.
    """

    def __init__(self, *, entropy: float):
        self.entropy = entropy
        self.mean: float | None = None
        self.best = float("inf")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not logs or "loss" not in logs:
            return
        loss = float(logs["loss"])
        self.mean = loss if self.mean is None else _MEMORY * self.mean + (1 - _MEMORY) * loss
        self.best = min(self.best, self.mean)
        step, rate = state.global_step, args.learning_rate
        advice = f"lower --learning-rate (now {rate:g}) to a third, lengthen --warmup, or train fewer layers first and start from them"
        if step >= _LEAST_STEPS and self.mean > self.best + _RISE:
            raise Diverged(f"a rise of more than a nat above {self.best:.2f}", step=step, loss=self.mean, advice=advice)
        if step >= max(_LEAST_STEPS, _PATIENCE * state.max_steps) and self.mean > self.entropy - _MARGIN:
            raise Diverged(
                f"no more than the frequencies of words ({self.entropy:.2f})", step=step, loss=self.mean, advice=advice
            )


__all__ = ["Diverged", "StopsDiverging"]
