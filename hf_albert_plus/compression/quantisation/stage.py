"""The stage that trains a classifier for the few bits in which it will run (Q8BERT, Q-BERT)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import set_seed

from ...checkpoints import check_trainable, load_classifier
from ...conversion.models import to_albert_plus
from ...records import processes
from ...records.record import CHECKPOINTS, Record, parent
from ...records.stage import run_stage
from ...tasks.splits import data_parent
from ...tasks.task import Task, check_no_spans
from ...tasks.task_file import write_task
from ...training.collators import collator_of
from ...training.finetuning import task_rows
from ...training.label_thresholds import set_label_thresholds
from ...training.loop import TrainingResult, train
from ..settings import QatSettings
from .curvature import measure_curvatures, sensitivity
from .mixed_bits import bits_under_budget, blocks_of, fake_quantise, refuse_impossible
from .packed_weights import PACKED, write_packed


@dataclass(frozen=True)
class QatResult:
    """What came out of training for few bits.

    Attributes:
        training: what came out of the training loop.
        parameters: of the classifier.
        bits: the bits of every block.
        curvatures: the curvatures that were measured of every block; None where one number of bits was given.
        packed_bytes: size of the packed file.
    """

    training: TrainingResult
    parameters: int
    bits: dict[str, int]
    curvatures: dict[str, list[float]] | None
    packed_bytes: int

    def describe(self) -> dict[str, Any]:
        """The facts as a record has them: of curvatures the sensitivity that follows from them too."""
        measured = (
            None
            if self.curvatures is None
            else {name: [*values, sensitivity(values)] for name, values in self.curvatures.items()}
        )
        return {
            **self.training.describe(),
            "parameters": self.parameters,
            "bits": self.bits,
            **({} if measured is None else {"curvature": measured}),
            "packed_bytes": self.packed_bytes,
        }


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
    check_no_spans(task, what="qat", repair="export it in 8 bits without: albert-plus export --to onnx-int8")

    def work(directory: Path) -> dict[str, Any]:
        set_seed(settings.seed)
        classifier: Any = to_albert_plus(load_classifier(model, option="--model", task=task))
        check_trainable(model, classifier.config, option="--model")
        tokenizer, rows = task_rows(model, classifier.config, data=data, task=task, max_length=settings.max_length)
        collator = collator_of(task, tokenizer)
        blocks = blocks_of(classifier)
        curvatures: dict[str, list[float]] | None = None
        if settings.budget is None:
            bits = dict.fromkeys(blocks, settings.bits[0])
        else:
            budget = int(settings.budget * 1e6)
            refuse_impossible(classifier, blocks, settings, budget=budget)
            kept = directory / CHECKPOINTS / "curvature.json"
            curvatures = processes.first_alone(
                lambda: measure_curvatures(classifier, rows, collator, blocks, settings, kept=kept)
            )
            bits = bits_under_budget(classifier, blocks, curvatures, settings, budget=budget)
        fake_quantisation = fake_quantise(classifier, blocks, bits, settings)
        training = train(
            classifier,
            rows=rows,
            collator=collator,
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
            description=f"train {task.name} in {'/'.join(map(str, settings.bits))} bits",
            checkpoint_seconds=checkpoint_seconds,
        )
        if processes.is_first():
            # In the arithmetic that will give the labels.
            set_label_thresholds(classifier, rows, tokenizer=tokenizer, task=task)
        scheme = fake_quantisation.scheme()
        fake_quantisation.remove()
        if processes.is_first():
            classifier.to("cpu").save_pretrained(directory)
            tokenizer.save_pretrained(directory)
            write_task(directory, task, max_length=settings.max_length)
            scheme.write(directory)
            write_packed(classifier, scheme, directory / PACKED)
        processes.wait()
        result = QatResult(
            training=training,
            parameters=classifier.num_parameters(),
            bits=bits,
            curvatures=curvatures,
            packed_bytes=(directory / PACKED).stat().st_size,
        )
        return result.describe()

    return run_stage(
        "qat",
        output,
        settings={**task.settings, **settings.describe()},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
        resumable=True,
    )
