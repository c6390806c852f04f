"""The stage that trains a classifier for the few bits in which it will run (Q8BERT, Q-BERT)."""

from pathlib import Path
from typing import Any

from ... import processes
from ...errors import InvalidInput
from ...finetune import task_rows
from ...glue import Task, data_parent
from ...records import CHECKPOINTS, Record, parent, read_json, run_stage, write_json
from .assignment import assign_bits
from .curvature import blocks_of, curvatures, sensitivity
from .packing import PACKED, packed_bytes, write_packed
from .rounding import Grid, round_weight
from .settings import QatSettings
from .simulation import Simulation


def qat(
    model: str, *, data: str, task: Task, output: Path, settings: QatSettings, checkpoint_seconds: float = 60
) -> Record:
    """Fine-tunes with weights, embeddings and the inputs of every product on their grids.

    What comes out is an ordinary model directory with `quantisation.json`, which says where the grids lie: exports read it, so that what
    was trained is what runs; and the packed weights, to see how small they are.

    Args:
        model: directory or Hub id of a classifier, or of an encoder, that has an exact conversion (`albert-plus convert`) or is one of ours.
        data: folder or Hub id in the layout of nyu-mll/glue.
    """

    def work(directory: Path) -> dict[str, Any]:
        from transformers import DataCollatorWithPadding, set_seed

        from ...checkpoints import load_classifier
        from ...conversion import to_albert_plus
        from ...training import train

        set_seed(settings.seed)
        classifier: Any = to_albert_plus(load_classifier(model, option="--model", task=task))
        tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
        collator = DataCollatorWithPadding(tokenizer)
        blocks = blocks_of(classifier)
        facts: dict[str, Any] = {}
        if settings.budget is None:
            bits = dict.fromkeys(blocks, settings.bits[0])
        else:
            measured = _measured(
                classifier, rows, collator, blocks, settings, kept=directory / CHECKPOINTS / "curvature.json"
            )
            bits = _under_budget(classifier, blocks, measured, settings, budget=settings.budget)
            facts["curvature"] = {name: [*values, sensitivity(values)] for name, values in measured.items()}
        grids = {path: Grid(bits[name], settings.groups) for name, paths in blocks.items() for path in paths}
        simulation = Simulation(classifier, weights=grids, others=Grid(groups=settings.groups), decay=settings.decay)
        result = train(
            classifier,
            rows=rows,
            collator=collator,
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
            description=f"train {task.name} in {'/'.join(map(str, settings.bits))} bits",
            checkpoint_seconds=checkpoint_seconds,
        )
        scheme = simulation.scheme()
        simulation.remove()
        if processes.is_first():
            classifier.to("cpu").save_pretrained(directory)
            tokenizer.save_pretrained(directory)
            scheme.write(directory)
            write_packed(classifier, scheme, directory / PACKED)
            facts["packed_bytes"] = (directory / PACKED).stat().st_size
        return {**result, "parameters": classifier.num_parameters(), "bits": bits, **facts}

    return run_stage(
        "qat",
        output,
        settings={"task": task.name, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )


def _measured(
    model: Any, rows: Any, collator: Any, blocks: dict[str, list[str]], settings: QatSettings, *, kept: Path
) -> dict[str, list[float]]:
    """Curvatures of the blocks on draws of the training data; a run that goes on reads those that it measured before."""
    import torch

    from ...progress import bar

    if kept.is_file():
        found: dict[str, list[float]] = read_json(kept, what="curvatures")
        return found
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(settings.seed)).tolist()
    sample = rows.remove_columns("length")
    size = min(settings.examples, len(rows) // settings.draws)
    if not size:
        raise InvalidInput(
            f"--draws {settings.draws} need as many examples", got=len(rows), repair=f"use --draws {len(rows)} or fewer"
        )
    with bar(total=settings.draws, description="curvature of blocks") as progress:

        def batches() -> Any:
            for draw in range(settings.draws):
                yield collator([sample[index] for index in order[draw * size : (draw + 1) * size]])
                progress.update(1)

        found = curvatures(model, batches(), blocks, seed=settings.seed)
    if processes.is_first():
        write_json(kept, found)
    return found


def _under_budget(
    model: Any, blocks: dict[str, list[str]], measured: dict[str, list[float]], settings: QatSettings, *, budget: float
) -> dict[str, int]:
    """The bits of every block, once everything else has its 8 bits."""
    weights = {name: [model.get_submodule(path).weight.detach() for path in paths] for name, paths in blocks.items()}
    choices = {bits: Grid(bits, settings.groups) for bits in settings.bits}
    sizes = {
        name: {bits: sum(packed_bytes(weight, grid) for weight in members) for bits, grid in choices.items()}
        for name, members in weights.items()
    }
    errors = {
        name: {
            bits: sum(float((round_weight(weight, grid) - weight).square().sum()) for weight in members)
            for bits, grid in choices.items()
        }
        for name, members in weights.items()
    }
    others = _bytes_of_others(model, {path for paths in blocks.values() for path in paths}, settings.groups)
    return assign_bits(
        {name: sensitivity(values) for name, values in measured.items()},
        sizes=sizes,
        errors=errors,
        budget=int(budget * 1e6) - others,
    )


def _bytes_of_others(model: Any, in_blocks: set[str], groups: int | None) -> int:
    """What is packed beside the weights of the blocks."""
    simulation = Simulation(model, others=Grid(groups=groups))
    scheme = simulation.scheme()
    simulation.remove()
    grids = {**scheme.weights, **scheme.tables}
    modules = {name: name.removesuffix(".weight") for name in model.state_dict()}
    return sum(
        packed_bytes(tensor, grids[modules[name]]) if modules[name] in grids else tensor.nbytes
        for name, tensor in model.state_dict().items()
        if modules[name] not in in_blocks
    )


__all__ = ["qat"]
