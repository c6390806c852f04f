"""Gradient accumulation that gives the gradients of one big batch, for the heads whose labels the Trainer does not count."""

from typing import Any

from transformers import Trainer


class AccumulatingTrainer(Trainer):
    """transformers' Trainer counts `labels` over the batches of a step. Two heads have others: this one counts sentence
    orders for pretraining and answers for question answering too. A model of another family trains as with the Trainer.
    """

    def get_batch_samples(self, *args: Any, **options: Any) -> tuple[list[dict[str, Any]], Any]:
        batches, num_items = super().get_batch_samples(*args, **options)
        counts = getattr(self.model, "counts_every_label", False)
        self.num_sentences: Any = None
        if counts and batches and "sentence_order_label" in batches[0]:
            told = sum(int((batch["sentence_order_label"] != -100).sum()) for batch in batches)
            self.num_sentences = self._over_devices(told).clamp(min=1)  # never none to divide by
        if counts and batches and num_items is None and "start_positions" in batches[0]:
            inside = sum((batch["start_positions"] < batch["input_ids"].shape[1]).sum() for batch in batches)
            num_items = self._over_devices(int(inside))
        return batches, num_items

    def _over_devices(self, count: int) -> Any:
        import torch

        total = torch.tensor(count, device=self.args.device)
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            total = self.accelerator.gather(total).sum()
        return total

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        if getattr(self, "num_sentences", None) is not None and model.training:
            inputs = {**inputs, "num_sentences_in_batch": self.num_sentences}
        return super().compute_loss(model, inputs, *args, **options)


__all__ = ["AccumulatingTrainer"]
