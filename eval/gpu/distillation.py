"""Steps of distillation a second: a third of a teacher's layers beside the teacher, and alone with its answers."""

from copy import deepcopy
from typing import Any

import torch

from hf_albert_plus.config_building import student_of
from hf_albert_plus.distillation.distiller import Distiller
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phase_rows import TEACHER_LOGITS
from hf_albert_plus.distillation.phases import Layers, Phase
from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.latency.timing import Call, summarise, time_calls
from hf_albert_plus.eval.targets import sample_tensors
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.random_inputs import sample_inputs

BASELINE = "labels, no teacher"
_METHODS = {
    BASELINE: "labels",
    "kd, the teacher's answers kept": "kd",
    "kd-hidden, beside the teacher": "kd-hidden",
    "minilm-v2, beside the teacher": "minilm-v2",
}


def measure_distillation(bench: Bench) -> list[GpuRow]:
    """Steps of AdamW on one batch, in bf16 on a GPU."""
    teacher = bench.random_classifier(bench.sizes.model)
    config = student_of(teacher.config, part="third")
    student: Any = AlbertPlusForSequenceClassification(config)
    student = student.to(bench.device.kind)
    shape, attempts = bench.sizes.taught, Attempts()
    tensors = {
        name: tensor.to(bench.device.kind)
        for name, tensor in sample_tensors(config, list(sample_inputs(student)), shape).items()
    }
    with torch.no_grad():
        answers = teacher(**tensors).logits
    tensors["labels"] = answers.argmax(-1)
    layers = Layers(config.num_hidden_layers, teacher.config.num_hidden_layers)
    precision = "bf16" if bench.device.is_gpu else "fp32"
    steps: dict[str, Call] = {}
    for label, name in _METHODS.items():
        own_heads = {"relation_heads": teacher.config.num_attention_heads} if name == "minilm-v2" else {}
        phase = METHODS[name].phases(layers, own_heads)[0]
        kept = {TEACHER_LOGITS: answers} if phase.caches_answers else {}
        taught = None if phase.caches_answers or not phase.of_teacher else teacher
        with attempts.attempt(f"{label} {precision}", str(shape)):
            step = _step(deepcopy(student), taught, phase, {**tensors, **kept}, bf16=bench.device.is_gpu)
            step()
            steps[label] = step
    timings = time_calls(
        steps,
        baseline=BASELINE,
        seconds=bench.sizes.seconds,
        description="distillation steps",
        stopwatch=bench.device.time,
    )
    return [
        GpuRow(
            label=f"{label} {precision}",
            load=str(shape),
            unit="steps",
            cell=cell,
            peak_device_mb=bench.device.peak_mb(steps[label]),
        )
        for label, cell in summarise(timings, baseline=BASELINE).items()
    ] + attempts.rows


def _step(student: Any, teacher: Any, phase: Phase, columns: dict[str, torch.Tensor], *, bf16: bool) -> Call:
    distiller = Distiller(student, teacher, phase).train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)

    def step() -> None:
        with torch.autocast(student.device.type, dtype=torch.bfloat16, enabled=bf16):
            loss = distiller(**columns)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
