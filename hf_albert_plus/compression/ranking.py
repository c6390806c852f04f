"""How much the layers, heads and columns of one classifier matter, measured once for all that is cut from it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import TrainerCallback

from ..machine import fastest_device
from ..model_inputs import IGNORED
from ..records.files import writing
from ..records.progress import bar
from ..training.loop import train
from .depth import least_missed
from .importance import Gates, Site, movement, taylor
from .settings import PruneSettings

# Examples that layers are looked at by: each look is a pass of the model without one of them.
_LAYER_EXAMPLES = 256
_GONE = "gone"


@dataclass
class Ranking:
    """What is known of one classifier, by the same examples; it grows as more is asked for.

    Attributes:
        gone: the layers that go first, from 0, in their order.
        known: the importances `[G]` of heads and columns; empty until they are asked for.
    """

    gone: list[int] = field(default_factory=list)
    known: dict[Site, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Ranking":
        """What was written, or nothing known where there is no file."""
        if not path.exists():
            return cls()
        with safe_open(path, framework="pt") as file:
            known = {_site(name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return cls(json.loads(file.metadata()[_GONE]), known)

    def write(self, path: Path) -> None:
        """Keeps it for another process."""
        named = {f"{site.kind}.{site.block}.{site.network}": scores for site, scores in self.known.items()}
        with writing(path) as temporary:
            save_file(named, temporary, metadata={_GONE: json.dumps(self.gone)})

    def layers(self, classifier: Any, rows: Any, *, collator: Any, settings: PruneSettings) -> list[int]:
        """The layers that stay, from 0, of which there are `settings.depth`."""
        assert settings.depth is not None
        count = classifier.config.num_hidden_layers
        if len(self.gone) < count - settings.depth:
            classifier.to(fastest_device()).eval()
            sampled = _sampled_batches(classifier, rows, collator=collator, settings=settings, most=_LAYER_EXAMPLES)
            batches = [{name: values for name, values in batch.items() if name != "labels"} for batch in sampled]
            self.gone = least_missed(classifier, batches, keep=settings.depth, gone=self.gone)
            classifier.to("cpu")
        return sorted(set(range(count)) - set(self.gone[: count - settings.depth]))

    def scores(
        self, classifier: Any, rows: Any, *, collator: Any, settings: PruneSettings, checkpoints: Path
    ) -> dict[Site, torch.Tensor]:
        """The importances of the heads and columns of all layers."""
        if not self.known:
            measure = _by_taylor if settings.importance == "taylor" else _by_movement
            self.known = measure(classifier, rows, collator=collator, settings=settings, checkpoints=checkpoints)
        return self.known


def _site(name: str) -> Site:
    kind, block, network = name.split(".")
    return Site("attention" if kind == "attention" else "ffn", int(block), int(network))


def _sampled_batches(
    model: Any, rows: Any, *, collator: Any, settings: PruneSettings, most: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Batches of a sample of the examples, of similar length, where the model is."""
    count = min(settings.examples, len(rows), most)
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(settings.seed))[:count].tolist()
    lengths = rows["length"][:]
    sample = rows.select(sorted(chosen, key=lambda index: lengths[index])).remove_columns("length")
    for start in range(0, count, settings.batch_size):
        examples = [sample[index] for index in range(start, min(start + settings.batch_size, count))]
        yield collator(examples).to(model.device)


def _by_taylor(
    model: Any, rows: Any, *, collator: Any, settings: PruneSettings, checkpoints: Path
) -> dict[Site, torch.Tensor]:
    """Sums of |∂L/∂ξ| over a sample of the examples."""
    count = min(settings.examples, len(rows))
    model.to(fastest_device()).eval()
    batches = _sampled_batches(model, rows, collator=collator, settings=settings, most=count)
    totals: dict[Site, torch.Tensor] = {}
    with Gates().on(model.base_model.encoder) as gates, bar(total=count, description="importance of heads") as progress:
        for batch in batches:
            # A mean over the batch; the gradients wanted are those of each example's own loss, or the sum of its words' own.
            (model(**batch).loss * _labelled(batch["labels"])).backward()
            for site, importance in taylor(gates.take()).items():
                totals[site] = totals.get(site, 0) + importance
            progress.update(len(batch["labels"]))
    model.zero_grad()
    model.to("cpu")
    return {site: total.cpu() for site, total in totals.items()}


def _labelled(labels: torch.Tensor) -> int:
    """How many labels the loss of a batch is a mean over: its rows, or the words of tagged ones."""
    by_token = labels.dim() == 2 and not labels.is_floating_point()
    return int((labels != IGNORED).sum()) if by_token else len(labels)


def _by_movement(
    model: Any, rows: Any, *, collator: Any, settings: PruneSettings, checkpoints: Path
) -> dict[Site, torch.Tensor]:
    """Sums of −∂L/∂ξ over the steps of a training."""
    totals: dict[Site, torch.Tensor] = {}
    with Gates().on(model.base_model.encoder) as gates:

        class Adds(TrainerCallback):
            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                for site, importance in movement(gates.take()).items():
                    totals[site] = totals.get(site, 0) + importance

        train(
            model,
            rows=rows,
            collator=collator,
            settings=settings,
            checkpoints=checkpoints,
            description="movement of weights",
            callbacks=[Adds()],
            checkpoint_seconds=float("inf"),
        )
    return {site: total.cpu() for site, total in totals.items()}
