"""What a run hands to each phase: its teacher, rows, masks, epochs and rate, and the one student and the learned maps that go through all."""

from collections import Counter

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, TrainerState

from hf_albert_plus.distillation import run
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.distillation.settings import DistilSettings, PhaseTraining, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.callbacks import Epochs
from hf_albert_plus.training.loop import TrainingResult

TEACHER_LOGITS = "teacher_logits"
# The teacher of every phase: the task's, asked before (answers) or run beside (task), a pretrained encoder (encoder) or masked language
# model (words), or none.
NONE, ANSWERS, TASK, ENCODER, WORDS = "none", "answers", "task", "encoder", "words"
TEACHERS = {
    "labels": {"task": NONE},
    "kd": {"task": ANSWERS},
    "kd-hidden": {"task": TASK},
    "distilbert": {"general": WORDS, "task": ANSWERS},
    "tinybert": {"general": ENCODER, "intermediate": TASK, "prediction": ANSWERS},
    "pkd": {"task": TASK},
    "minilm": {"transfer": ENCODER, "task": NONE},
    "minilm-v2": {"transfer": ENCODER, "task": NONE},
    "relations-kd": {"relations": TASK, "task": ANSWERS},
    "well-read": {"pretrain": NONE, "distil": ANSWERS, "task": NONE},
    "mobilebert": {"layer-1": ENCODER, "layer-2": ENCODER, "words": WORDS, "task": NONE},
    "twinbert": {"task": ANSWERS},
    "fastbert": {"task": NONE, "exits": NONE},
    "pabee": {"task": NONE},
    "extreme": {"dual": WORDS, "task": NONE},
    "embeddings": {"vectors": ANSWERS},
}
ON_TEXT = {"general", "transfer", "pretrain", "layer-1", "layer-2", "words", "dual"}
MASKED = {("distilbert", "general"), ("well-read", "pretrain"), ("mobilebert", "words")}
# Epochs and learning rates where papers or their code name them.
PUBLISHED = {
    ("distilbert", "general"): (3, 5e-4),
    ("tinybert", "general"): (3, 5e-5),
    ("tinybert", "intermediate"): (20, 5e-5),
    ("tinybert", "prediction"): (3, 3e-5),
    ("pkd", "task"): (4, 1e-5),
    ("fastbert", "task"): (3, 2e-5),
    ("fastbert", "exits"): (5, 2e-5),
}


class Phases:
    """Stands in for the training loop, and keeps what each phase was given, and the names of what it would train."""

    def __init__(self):
        self.given = []

    def __call__(self, distiller, *, rows, collator, settings, **more):
        trained = [name for name, parameter in distiller.named_parameters() if parameter.requires_grad]
        self.given.append((distiller, rows, collator, settings, trained))
        return TrainingResult(1, len(rows), 0.0, 0.0, "fp32", 1, 0)


@pytest.fixture
def phases_of(monkeypatch, teachers, masked_lm, data_dir, text, tmp_path):
    """Runs a method at its defaults, on pairs and on text, and says what each of its phases was given."""

    def given(method, **shape):
        watched = Phases()
        monkeypatch.setattr(run, "train", watched)
        values = (("relation_heads", 8),) if method == "minilm-v2" else ()
        student = StudentSettings("half", tuple(shape.items()))
        distill(
            str(teachers / "mrpc"),
            data=str(data_dir),
            task=get_task("mrpc"),
            output=tmp_path / method,
            settings=PhaseTraining(batch_size=16, max_length=32, precision="fp32"),
            method=DistilSettings(method, student, values, text=text, general_teacher=str(masked_lm)),
        )
        return watched.given

    return given


def test_every_method_stands_here():
    phases = {name: row.phases(Layers(student=2, teacher=4)) for name, row in METHODS.items()}
    assert {name: [phase.name for phase in each] for name, each in phases.items()} == {
        name: list(each) for name, each in TEACHERS.items()
    }


# What `embeddings` is handed stands in `test_embeddings`.
@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if not (row.own_vocabulary or row.vectors)])
def test_every_phase_has_its_teacher_its_rows_and_the_one_student(method, phases_of, teachers, masked_lm):
    given = phases_of(method)
    encoder = given[0][0].student.albert_plus
    heads = {TASK: "BertForSequenceClassification", ENCODER: "BertModel", WORDS: "BertForMaskedLM"}
    for (distiller, rows, collator, settings, trained), (name, kind) in zip(
        given, TEACHERS[method].items(), strict=True
    ):
        assert distiller.phase.name == name
        assert (TEACHER_LOGITS in rows.column_names) is (kind == ANSWERS)
        assert (distiller.teacher is None) is (kind in (NONE, ANSWERS))
        if distiller.teacher is not None:
            assert type(distiller.teacher).__name__ == heads[kind]
            assert distiller.teacher.name_or_path == str(teachers / "mrpc" if kind == TASK else masked_lm)
        assert distiller.student.albert_plus is encoder
        assert ("labels" in rows.column_names) is (name not in ON_TEXT)
        assert (collator.masking is not None) is ((method, name) in MASKED)
        assert ("student.albert_plus.encoder.attention.0.query.weight" in trained) is (name != "exits")
        if (method, name) in PUBLISHED:
            assert (settings.epochs, settings.learning_rate) == PUBLISHED[method, name]


def test_answers_are_those_of_the_tasks_teacher(phases_of, teachers):
    """TwinBERT's rows are two texts apart, and its teacher reads them together."""
    teacher = AutoModelForSequenceClassification.from_pretrained(teachers / "mrpc").eval()
    ((_, rows, _, _, _),) = phases_of("twinbert")
    (_, pairs, _, _, _), _ = phases_of("tinybert")[1:]
    for row in (0, 5):
        inputs = {name: torch.tensor([pairs[row][name]]) for name in ("input_ids", "attention_mask", "token_type_ids")}
        with torch.no_grad():
            expected = teacher(**inputs).logits[0]
        torch.testing.assert_close(torch.tensor(rows[row][TEACHER_LOGITS]), expected, atol=1e-5, rtol=1e-4)


def test_distilberts_rare_words_are_masked_more(phases_of):
    """count^-0.7 over the text's own pieces; other methods mask all alike."""
    _, rows, collator, _, _ = phases_of("distilbert")[0]
    counts = Counter(piece for ids in rows["input_ids"] for piece in ids)
    weights = collator.masking.chooser.weights
    for piece, count in counts.items():
        assert weights[piece] == pytest.approx(count**-0.7)
    assert phases_of("well-read")[0][2].masking.chooser.weights is None


def test_masks_are_drawn_anew_in_every_epoch(phases_of):
    """As the training loop tells a collator which epoch it is in."""
    _, rows, collator, _, _ = phases_of("well-read")[0]
    batches = []
    for epoch in (0.0, 1.0, 0.0):
        Epochs(collator).on_epoch_begin(None, TrainerState(epoch=epoch), None)
        batches.append(collator([rows[row] for row in range(8)])["labels"])
    assert not torch.equal(batches[0], batches[1])
    assert torch.equal(batches[0], batches[2])


def test_a_start_is_taken_from_the_pretrained_teacher(phases_of, masked_lm):
    """DistilBERT's two layers of four are the first and the last, whose mean a shared block is."""
    general = AutoModelForMaskedLM.from_pretrained(masked_lm)
    student = phases_of("distilbert")[0][0].student
    own = [general.bert.encoder.layer[layer].attention.self.query.weight for layer in (0, 3)]
    torch.testing.assert_close(student.albert_plus.encoder.attention[0].query.weight, (own[0] + own[1]) / 2)
    transform = general.cls.predictions.transform.dense.weight
    torch.testing.assert_close(student.predictions.dense.weight, transform)


def test_tinyberts_maps_go_on_from_text_to_the_task(phases_of):
    """One for the embeddings and one for all layers, trained with the student."""
    given = phases_of("tinybert", hidden_size=16, intermediate_size=24)
    general, intermediate, prediction = (each[0].projections for each in given)
    assert dict(general.items()) == dict(intermediate.items())
    assert general["embedding"] is not general["hidden"]
    assert {name: (each.in_features, each.out_features) for name, each in general.items()} == {
        "embedding": (16, 32),
        "hidden": (16, 32),
    }
    assert {f"projections.{name}.{part}" for name in general for part in ("weight", "bias")} <= set(given[0][4])
    assert len(prediction) == 0
