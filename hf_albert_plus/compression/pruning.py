"""The stage that removes layers, heads and feed-forward columns: a classifier in, a smaller and faster one out.

It measures how much each matters, selects what stays, and makes a model of that: smaller weights under a smaller config, no
zeros.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed

from ..checkpoints import check_label_order, check_trainable, load_classifier
from ..conversion.models import to_albert_plus
from ..errors import InvalidInput
from ..records.record import CHECKPOINTS, Record, parent
from ..records.stage import run_stage
from ..tasks.splits import data_parent
from ..tasks.task import Task, check_no_spans
from ..tasks.task_file import write_task
from ..training.collators import collator_of
from ..training.finetuning import task_rows
from ..training.label_thresholds import set_label_thresholds
from .depth import with_layers
from .importance import Site, sites
from .ranking import Ranking
from .settings import PruneSettings, Spread


@dataclass(frozen=True)
class Removal:
    """How many heads, or columns, a model had and has.

    Attributes:
        before, after: over all layers as they run.
        of_blocks: of every block as it is stored, after.
    """

    before: int
    after: int
    of_blocks: list[int]


@dataclass(frozen=True)
class PruningResult:
    """What came out of a pruning.

    Attributes:
        parameters_before, parameters: of the classifier and of the smaller one.
        layers: those of the classifier that stayed, from 0, where some went.
    """

    parameters_before: int
    parameters: int
    heads: Removal
    columns: Removal
    layers: list[int] | None = None

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them."""
        facts: dict[str, Any] = {"parameters_before": self.parameters_before, "parameters": self.parameters}
        if self.layers is not None:
            facts["layers"] = self.layers
        for name, removal in (("heads", self.heads), ("columns", self.columns)):
            facts |= {
                f"{name}_before": removal.before,
                name: removal.after,
                f"{name}_of_blocks": removal.of_blocks,
                f"{name}_removed": round(1 - removal.after / removal.before, 4),
            }
        return facts


def prune(
    model: str, *, data: str, task: Task, output: Path, settings: PruneSettings, ranking: Ranking | None = None
) -> Record:
    """Removes the least important layers, heads and columns of a classifier. What is left is an ordinary model directory with
    fewer weights, of which every export is smaller and faster; distilling into it recovers what was lost (`albert-plus distill
    --student DIR`).

    Layers go first: those without which the logits change least. Heads and columns are ranked in the whole model, among those of
    the layers that stay.

    Args:
        model: directory or Hub id of a classifier that has an exact conversion (`albert-plus convert`), or is one of ours.
        data: folder or Hub id in the layout of nyu-mll/glue.
        ranking: what is known of this model from other prunings of it that differ in what they remove alone; it learns what this one looks for.
    """
    check_no_spans(task, what="prune", repair="distil a smaller student: albert-plus distill --student half")

    def work(directory: Path) -> dict[str, Any]:
        set_seed(settings.seed)
        classifier: Any = to_albert_plus(load_classifier(model, option="--model"))
        labels, kind = classifier.config.num_labels, type(classifier).__name__
        if labels != task.num_labels or not kind.endswith(task.head):
            raise InvalidInput(
                f"--model must be a classifier with the {task.num_labels} labels of {task.name}",
                got=f"{model}, of {kind}, with {labels}",
                repair="fine-tune one: albert-plus finetune",
            )
        check_label_order(classifier.config, task, option="--model")
        check_trainable(model, classifier.config, option="--model")
        classifier.config.problem_type = task.problem_type
        if classifier.config.layer_rank is not None and (settings.heads or settings.columns):
            raise InvalidInput(
                "heads and columns are removed from blocks that are the same in all of their layers",
                got=f"layer_rank {classifier.config.layer_rank} in {model}",
                repair="prune first, then let layers share: albert-plus convert --set layer_rank=…; or remove layers alone: --depth N --heads 0 --columns 0",
            )
        widest = max(classifier.config.intermediate_sizes)
        if settings.columns and settings.multiple_of > widest:
            raise InvalidInput(
                f"--multiple-of must not exceed the {widest} columns that there are",
                got=settings.multiple_of,
                repair="use --multiple-of 16",
            )
        depth = classifier.config.num_hidden_layers
        if settings.depth is not None and settings.depth >= depth:
            raise InvalidInput(
                f"--depth must be below the {depth} layers that there are",
                got=settings.depth,
                repair=f"use --depth {max(1, depth // 2)}, or leave it out to keep all",
            )
        tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
        collator = collator_of(task, tokenizer)
        smaller, layers, scores = classifier, None, {}
        looked = ranking if ranking is not None else Ranking()
        if settings.depth is not None:
            layers = looked.layers(classifier, rows, collator=collator, settings=settings)
        if settings.heads or settings.columns:
            scores = looked.scores(
                classifier, rows, collator=collator, settings=settings, checkpoints=directory / CHECKPOINTS
            )
        if layers is not None:
            smaller, scores = with_layers(classifier, layers), _of_layers(scores, classifier.config, layers)
        if scores:
            smaller = without(smaller, _kept(scores, settings))
        set_label_thresholds(smaller, rows, tokenizer=tokenizer, task=task)
        smaller.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        write_task(directory, task, max_length=settings.max_length)
        result = PruningResult(
            parameters_before=classifier.num_parameters(),
            parameters=smaller.num_parameters(),
            heads=_removal(classifier.config, smaller.config, sizes="attention_heads", blocks="attention_map"),
            columns=_removal(classifier.config, smaller.config, sizes="intermediate_sizes", blocks="ffn_map"),
            layers=layers,
        )
        return result.describe()

    return run_stage(
        "prune",
        output,
        settings={**task.settings, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
    )


def _of_layers(scores: dict[Site, torch.Tensor], config: Any, layers: list[int]) -> dict[Site, torch.Tensor]:
    """The importances of the blocks that these layers run, by the numbers that the blocks have without the other layers."""
    kept = {}
    for kind, layer_map in (("attention", config.attention_map), ("ffn", config.ffn_map)):
        blocks = sorted({layer_map[layer] for layer in layers})
        for site, score in scores.items():
            if site.kind == kind and site.block in blocks:
                kept[replace(site, block=blocks.index(site.block))] = score
    return kept


def _kept(scores: dict[Site, torch.Tensor], settings: PruneSettings) -> dict[Site, torch.Tensor]:
    """The numbers of the heads and columns that stay at the sites that something is removed from."""
    kept: dict[Site, torch.Tensor] = {}
    for kind, share, multiple_of in (
        ("attention", settings.heads, 1),
        ("ffn", settings.columns, settings.multiple_of),
    ):
        of_kind = {site: score for site, score in scores.items() if site.kind == kind}
        if share:
            kept |= select(of_kind, remove=share, spread=settings.spread, multiple_of=multiple_of)
    return kept


def select(
    scores: dict[Site, torch.Tensor], *, remove: float, spread: Spread, multiple_of: int = 1
) -> dict[Site, torch.Tensor]:
    """The numbers of what stays at every site, rising.

    Args:
        scores: importances `[G]` of sites of one kind.
        remove: share of them all.
        spread: `block` removes that share of each site. `model` ranks all together, each site's scores divided by their L2 norm
            (Are Sixteen Heads Really Better than One?, section 4.1). At least one stays everywhere.
        multiple_of: of a site this many stay or a multiple of it, the nearest one, but never more than there are. The networks of
            a block keep as many as the one that keeps most.
    """
    if spread == "block":
        counts = {site: len(score) - round(remove * len(score)) for site, score in scores.items()}
    else:
        relative = {site: torch.nn.functional.normalize(score, dim=0) for site, score in scores.items()}
        together = torch.cat(list(relative.values()))
        removed = round(remove * len(together))
        order = torch.empty_like(together, dtype=torch.long)
        order[together.argsort(stable=True)] = torch.arange(len(together), device=together.device)
        places = order.split([len(score) for score in scores.values()])
        counts = {site: int((place >= removed).sum()) for site, place in zip(scores, places, strict=True)}
    kept = {}
    for site, score in scores.items():
        wanted = max(counts[other] for other in scores if (other.kind, other.block) == (site.kind, site.block))
        count = min(len(score), max(1, multiple_of, round(wanted / multiple_of) * multiple_of))
        kept[site] = score.argsort(descending=True, stable=True)[:count].sort().values
    return kept


def _removal(old: Any, new: Any, *, sizes: str, blocks: str) -> Removal:
    """What two configs say of heads or columns.

    Args:
        sizes: the field with the number of each block.
        blocks: the field with the block of each layer.
    """
    before, after = (sum(getattr(config, sizes)[block] for block in getattr(config, blocks)) for config in (old, new))
    return Removal(before=before, after=after, of_blocks=list(getattr(new, sizes)))


def without(model: Any, kept: dict[Site, torch.Tensor]) -> Any:
    """The model with the heads and columns that `kept` names, of the sites that it names; all others stay.

    It computes what `model` computes with the outputs of the removed ones at zero.
    """
    encoder = model.base_model.encoder
    whole = {site: torch.arange(product.in_features // size) for site, (product, size) in sites(encoder).items()}
    kept = {**whole, **{site: places.cpu() for site, places in kept.items()}}
    config = deepcopy(model.config)
    heads = [len(kept[Site("attention", block)]) for block in range(len(encoder.attention))]
    columns = [len(kept[Site("ffn", block)]) for block in range(len(encoder.ffn))]
    config.block_attention_heads = None if set(heads) == {config.num_attention_heads} else heads
    config.block_intermediate_sizes = None if len(set(columns)) == 1 else columns
    if len(set(columns)) == 1:
        config.intermediate_size = columns[0]
    smaller = type(model)(config)
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    for site, (_, size) in sites(encoder).items():
        places = (kept[site][:, None] * size + torch.arange(size)).flatten()
        bias = f"{prefix}encoder.attention.{site.block}.relative_bias.weight"
        if site.kind == "attention" and bias in state:
            state[bias] = state[bias][:, kept[site]]
        made, read = _names(site, networks=model.config.num_feedforward_networks)
        for name in made:
            for part in ("weight", "bias"):
                state[f"{prefix}{name}.{part}"] = state[f"{prefix}{name}.{part}"][places]
        state[f"{prefix}{read}.weight"] = state[f"{prefix}{read}.weight"][:, places]
    smaller.load_state_dict(state)
    return smaller.to(next(model.parameters()).dtype).eval()


def _names(site: Site, *, networks: int) -> tuple[list[str], str]:
    """The products whose rows make a site's heads or columns, and the one whose columns read them."""
    if site.kind == "attention":
        block = f"encoder.attention.{site.block}"
        return [f"{block}.{name}" for name in ("query", "key", "value")], f"{block}.output"
    block = f"encoder.ffn.{site.block}"
    if site.network < networks - 1:
        block = f"{block}.stacked.{site.network}"
    return [f"{block}.intermediate"], f"{block}.output"
