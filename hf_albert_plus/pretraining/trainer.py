"""transformers' Trainer for pretraining: its optimisers, its held-out scores, the attention that it trains with, and the watch over it.

The watch stops runs that do not learn. Of ALBERT's sizes, large and up are known to stay at the frequencies of words, or to
fall back to them.
"""

import math
from collections import deque
from statistics import fmean
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.utils import is_flash_attn_2_available

from ..errors import AlbertPlusError, InvalidInput
from ..training.loop import AccumulatingTrainer
from ..training.row_order import LengthGrouped, Shuffled, epoch_of
from .held_out import score_held_out
from .lamb import Lamb, decay_groups
from .settings import PretrainSettings

# What the Trainer and TensorBoard call scores of an evaluation.
HELD_OUT = "eval_"


class PretrainTrainer(AccumulatingTrainer):
    """Pretrains an encoder and scores it on held-out rows.

    Args:
        pretraining: the settings; the Trainer's own arguments repeat what it reads of them.
        held_out: rows that the collator makes batches of.
    """

    def __init__(self, *, pretraining: PretrainSettings, held_out: Any, **options: Any):
        super().__init__(**options)
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if plugin is not None and plugin.transformer_cls_names_to_wrap is None:
            # Not the embeddings, of which the head for words is a part too.
            plugin.transformer_cls_names_to_wrap = ["AlbertPlusAttention", "AlbertPlusFeedForwardBlock"]
        self.pretraining = pretraining
        self.held_out = held_out

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        rows: Any = self.train_dataset
        seed = self.pretraining.seed
        if self.pretraining.packed:
            return Shuffled(len(rows), epoch=lambda: epoch_of(self.state), seed=seed)
        return LengthGrouped(
            rows["length"][:], self.pretraining.batch_size, epoch=lambda: epoch_of(self.state), seed=seed
        )

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """LAMB without bias correction, or AdamW; biases and norms are not decayed."""
        if self.optimizer is None:
            settings = self.pretraining
            trained: Any = self.model if model is None else model
            groups = decay_groups(trained, weight_decay=settings.weight_decay)
            betas, epsilon = (settings.beta1, settings.beta2), settings.epsilon
            if settings.optimizer == "lamb":
                self.optimizer = Lamb(groups, lr=settings.learning_rate, betas=betas, eps=epsilon)
            else:
                groups = [{name: value for name, value in group.items() if name != "adapt"} for group in groups]
                self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=betas, eps=epsilon)
        return self.optimizer

    def evaluate(self, *args: Any, **options: Any) -> dict[str, float]:
        """Scores the held-out rows and logs them."""
        model: Any = self.model
        scores = score_held_out(
            model,
            self.held_out,
            self.data_collator,
            batch_size=self.args.per_device_train_batch_size,
            device=self.args.device,
            autocast=self.args.bf16,
        )
        scores = {f"{HELD_OUT}{name}": value for name, value in scores.items()}
        self.log(scores)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores

    def held_out_scores(self) -> list[dict[str, float]]:
        """All scores of this run, each with its step, those from before it was killed too."""
        return [
            {
                "step": entry["step"],
                **{name.removeprefix(HELD_OUT): entry[name] for name in entry if name.startswith(HELD_OUT)},
            }
            for entry in self.state.log_history
            if any(name.startswith(HELD_OUT) for name in entry)
        ]


class Evaluates(TrainerCallback):
    """Scores the held-out text at even distances and at the end."""

    def __init__(self, *, times: int):
        self.times = times

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.times:
            every = max(1, -(-state.max_steps // self.times))
            control.should_evaluate |= state.global_step % every == 0 or state.global_step == state.max_steps


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
        patience: share of the steps after it: by then a run that learns at all is below that loss. 1 asks of none to be.
        is_pruned: whether weights become zero on the way, which raises a loss as well: it must be a number then, and no more.

    Raises:
        Diverged: when patience ends (after 500 steps at least) the loss is still there; it is a nat above the best it was; or
            it is no number.
    """

    def __init__(
        self, *, entropy: float, warmup: float, patience: float = PretrainSettings.patience, is_pruned: bool = False
    ):
        self.entropy, self.is_pruned = entropy, is_pruned
        self.patience = warmup + patience if patience < 1 else math.inf
        self.losses: deque[float] = deque(maxlen=_WINDOW)
        self.best = float("inf")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What a run had logged before it was killed counts."""
        for entry in state.log_history:
            self._mean_with(entry)

    def _mean_with(self, logs: dict[str, Any]) -> float | None:
        """The mean of the last losses with those of one log, None until there are enough."""
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
        if mean is None or self.is_pruned:
            return
        if step >= _LEAST_STEPS and mean > self.best + _RISE:
            raise Diverged(f"a rise of more than a nat above {self.best:.2f}", step=step, loss=mean, advice=advice)
        if step >= max(_LEAST_STEPS, self.patience * state.max_steps) and mean > self.entropy - _MARGIN:
            raise Diverged(
                f"no more than the frequencies of words ({self.entropy:.2f})", step=step, loss=mean, advice=advice
            )


def cpu_attention(*, bf16: bool) -> str:
    """The attention for a CPU: in bf16 products and a softmax, since the fused one's backward pass takes several times as long."""
    return "eager" if bf16 else "sdpa"


def fastest_attention(*, bf16: bool, packed: bool) -> str:
    """The name of the fastest attention here.

    On a GPU it leaves out what the sequences of a row do not see: flash attention where its package is installed, else flex
    attention.
    """
    if not torch.accelerator.is_available():
        return cpu_attention(bf16=bf16)
    if bf16 and is_flash_attn_2_available():
        return "flash_attention_2"
    return "flex_attention" if packed and torch.cuda.is_available() else "sdpa"


def use_attention(model: Any, name: str, *, bf16: bool, packed: bool) -> None:
    """Gives the model the attention of that name, or for `auto` the fastest.

    Raises:
        InvalidInput: one that cannot train here.
    """
    repair = "use --attention auto"
    if name == "flex_attention" and not torch.accelerator.is_available():
        raise InvalidInput("--attention flex_attention needs a GPU to train", got="a CPU", repair=repair)
    if name == "flash_attention_2" and not bf16:
        raise InvalidInput("--attention flash_attention_2 needs --precision bf16", got="fp32", repair=repair)
    try:
        model.set_attn_implementation(fastest_attention(bf16=bf16, packed=packed) if name == "auto" else name)
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"--attention {name} must be installed", got=str(error), repair=repair) from error
