"""The stage that trains a classifier for the few bits in which it will run (Q8BERT, Q-BERT)."""

from pathlib import Path
from typing import Any

from ... import processes
from ...finetune import task_rows
from ...glue import Task, data_parent
from ...records import CHECKPOINTS, Record, parent, run_stage
from .curvature import blocks_of, sensitivity
from .mixed import bits_under_budget, fake_quantise, measure, refuse_impossible
from .packing import PACKED, write_packed
from .settings import QatSettings


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

        from ...checkpoints import check_trainable, load_classifier
        from ...conversion import to_albert_plus
        from ...training import train

        set_seed(settings.seed)
        classifier: Any = to_albert_plus(load_classifier(model, option="--model", task=task))
        check_trainable(model, classifier.config, option="--model")
        tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
        collator = DataCollatorWithPadding(tokenizer)
        blocks = blocks_of(classifier)
        facts: dict[str, Any] = {}
        if settings.budget is None:
            bits = dict.fromkeys(blocks, settings.bits[0])
        else:
            budget = int(settings.budget * 1e6)
            refuse_impossible(classifier, blocks, settings, budget=budget)
            kept = directory / CHECKPOINTS / "curvature.json"
            measured = processes.first_alone(lambda: measure(classifier, rows, collator, blocks, settings, kept=kept))
            bits = bits_under_budget(classifier, blocks, measured, settings, budget=budget)
            facts["curvature"] = {name: [*values, sensitivity(values)] for name, values in measured.items()}
        fake_quantisation = fake_quantise(classifier, blocks, bits, settings)
        result = train(
            classifier,
            rows=rows,
            collator=collator,
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
            description=f"train {task.name} in {'/'.join(map(str, settings.bits))} bits",
            checkpoint_seconds=checkpoint_seconds,
        )
        scheme = fake_quantisation.scheme()
        fake_quantisation.remove()
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


__all__ = ["qat"]
