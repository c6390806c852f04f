"""Losses against numbers worked by hand; the stage end to end."""

import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from hf_albert_plus.distillation import DistilSettings, distill, hidden_state_loss, soft_target_loss, uniform_layer_map
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.finetune import finetune
from hf_albert_plus.glue import get_task
from hf_albert_plus.records import fingerprint
from hf_albert_plus.training import TrainSettings

QUICK = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")


def test_soft_targets_by_hand():
    """Two classes at T = 2: teacher (ln 9)·2 apart gives p = (.9, .1), an even student (.5, .5):
    KL = .9 ln 1.8 + .1 ln .2, times 4."""
    teacher = torch.tensor([[2 * math.log(9), 0.0]])
    student = torch.tensor([[0.3, 0.3]])
    expected = 4 * (0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert soft_target_loss(student, teacher, temperature=2).item() == pytest.approx(expected, rel=1e-6)


def test_soft_targets_are_a_mean_over_the_batch_and_zero_at_the_teacher():
    torch.manual_seed(0)
    teacher, student = torch.randn(6, 3), torch.randn(6, 3)
    one_by_one = [soft_target_loss(student[i : i + 1], teacher[i : i + 1], temperature=3) for i in range(6)]
    assert soft_target_loss(student, teacher, temperature=3).item() == pytest.approx(
        torch.stack(one_by_one).mean().item()
    )
    assert soft_target_loss(teacher, teacher, temperature=3).item() == pytest.approx(0, abs=1e-6)


def test_soft_target_gradient_at_high_temperature():
    """Hinton et al., eq. 4: for zero-mean logits the gradient of T²·KL tends to (z - v) / classes."""
    teacher = torch.tensor([[1.0, -1.0, 0.0]])
    student = torch.tensor([[0.5, 0.5, -1.0]], requires_grad=True)
    soft_target_loss(student, teacher, temperature=1000).backward()
    torch.testing.assert_close(student.grad, (student.detach() - teacher) / 3, atol=1e-2, rtol=0)


def test_one_logit_is_regression():
    assert soft_target_loss(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.0]]), temperature=5).item() == 2.0


def test_hidden_states_by_hand_and_padding_left_out():
    student = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[1.0, 1.0], [50.0, -50.0]]])
    teacher = torch.zeros(2, 2, 2)
    mask = torch.tensor([[1, 1], [1, 0]])
    assert hidden_state_loss(student, teacher, mask).item() == pytest.approx((2.5 + 0 + 1) / 3)


@pytest.mark.parametrize(
    ("student", "teacher", "expected"), [(3, 6, (0, 2, 4, 6)), (4, 12, (0, 3, 6, 9, 12)), (2, 3, (0, 1, 3)), (4, 4, (0, 1, 2, 3, 4))]
)  # fmt: skip
def test_layer_maps_worked_by_hand(student, teacher, expected):
    assert uniform_layer_map(student, teacher) == expected


@pytest.mark.parametrize("task_name", ["sst2", "mrpc", "stsb"])
def test_stage_makes_a_shared_student_and_leaves_the_teacher_alone(tmp_path, encoder_dir, data_dir, task_name):
    task = get_task(task_name)
    teacher = tmp_path / "teacher"
    finetune(str(encoder_dir), data=str(data_dir), task=task, output=teacher, settings=QUICK)
    before = fingerprint(teacher)
    record = distill(
        str(teacher),
        data=str(data_dir),
        task=task,
        output=tmp_path / "student",
        settings=QUICK,
        method=DistilSettings(),
    )
    assert fingerprint(teacher) == before
    assert record.result["initialised"].startswith("average of the source's layers")
    assert record.result["hidden_states"] == "matched"
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
    assert student.config.model_type == "albert_plus"
    assert student.config.attention_map == (0, 0)
    assert student.config.num_labels == task.num_labels
    assert list(student.config.id2label.values()) == (list(task.labels) or ["score"])


def test_training_moves_the_student_towards_the_teacher(tmp_path, encoder_dir, data_dir):
    """The loss of the stage falls: more epochs end nearer to the teacher."""
    from dataclasses import replace

    task = get_task("sst2")
    finetune(str(encoder_dir), data=str(data_dir), task=task, output=tmp_path / "teacher", settings=QUICK)
    losses = []
    for epochs in (1.0, 12.0):
        record = distill(
            str(tmp_path / "teacher"), data=str(data_dir), task=task, output=tmp_path / f"student{epochs}",
            settings=replace(QUICK, epochs=epochs), method=DistilSettings(initialise="random"),
        )  # fmt: skip
        losses.append(record.result["train_loss"])
    assert losses[1] < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DistilSettings(temperature=0), "--temperature must be greater than 0, got 0"),
        (lambda: DistilSettings(soft_weight=1.5), "--soft-weight .* got 1.5"),
        (lambda: DistilSettings(hidden_weight=-1), "--hidden-weight .* got -1"),
        (lambda: TrainSettings(epochs=0, batch_size=1), "--epochs .* got 0"),
        (lambda: TrainSettings(epochs=1, batch_size=1, learning_rate=3), "--learning-rate .* got 3"),
    ],
)
def test_settings_are_checked(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_a_teacher_of_another_task_is_refused(tmp_path, classifier_dir, data_dir):
    with pytest.raises(InvalidInput, match="1 labels of stsb, got .* with 2 labels; fine-tune it first"):
        distill(
            str(classifier_dir), data=str(data_dir), task=get_task("stsb"), output=tmp_path / "s", settings=QUICK, method=DistilSettings()
        )  # fmt: skip


def test_unknown_students_and_fields_suggest(tmp_path, classifier_dir, data_dir):
    for method, words in (
        (DistilSettings(student="albert-base-v3"), "'albert-base-v2'"),
        (DistilSettings(overrides=(("num_layers", 2),)), "'num_hidden_layers'"),
        (DistilSettings(overrides=(("ffn_sharing", 7),)), "between 1 and num_hidden_layers"),
    ):
        with pytest.raises(InvalidInput, match=words):
            distill(
                str(classifier_dir), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "s", settings=QUICK, method=method
            )  # fmt: skip
