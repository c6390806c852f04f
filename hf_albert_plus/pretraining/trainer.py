"""transformers' Trainer with the optimisers and the held-out scores of pretraining."""

from typing import Any

import torch
from transformers import TrainerCallback

from ..accumulation import AccumulatingTrainer
from ..row_order import LengthGrouped, Shuffled, epoch_of
from .evaluation import score_held_out
from .lamb import Lamb, decay_groups
from .settings import PretrainSettings

# What the Trainer and TensorBoard call scores of an evaluation.
HELD_OUT = "eval_"


class PretrainTrainer(AccumulatingTrainer):
    """Args:
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
            if settings.optimizer == "lamb":
                self.optimizer = Lamb(groups, lr=settings.learning_rate)
            else:
                groups = [{name: value for name, value in group.items() if name != "adapt"} for group in groups]
                self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, eps=1e-6)
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
        """All of this run's, those before it was killed too: each with its step."""
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


__all__ = ["HELD_OUT", "Evaluates", "PretrainTrainer"]
