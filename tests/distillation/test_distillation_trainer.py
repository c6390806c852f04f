"""The trainer for scripts of one's own: its loss is the stage's, and what transformers' Trainer promises holds of the student."""

import copy

import pytest
import torch
from datasets import Dataset, load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    DataCollatorForTokenClassification,
    TrainerCallback,
    TrainingArguments,
)

from hf_albert_plus import AlbertPlusConfig, AlbertPlusForSequenceClassification, DistillationTrainer
from hf_albert_plus.distillation import run
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import SMALL, randomise

QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=32, precision="fp32")
STILL = (("hidden_dropout_prob", 0.0), ("attention_probs_dropout_prob", 0.0), ("classifier_dropout_prob", 0.0))


class Seen(Exception):
    """The stage came to the phase that was waited for."""


@pytest.fixture
def teacher(teachers):
    return AutoModelForSequenceClassification.from_pretrained(teachers / "sst2")


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return AutoTokenizer.from_pretrained(tokenizer_dir)


@pytest.fixture(scope="module")
def rows(data_dir, tokenizer):
    """The training rows of sst2 as a script of one's own reads them."""
    (file,) = (data_dir / "sst2").glob("train-*.parquet")
    raw = load_dataset("parquet", data_files=str(file), split="train", cache_dir=None, keep_in_memory=True)
    return raw.map(lambda batch: tokenizer(batch["sentence"], truncation=True, max_length=32), batched=True)


def student_of(teacher, **fields):
    config = teacher.config
    small = {
        "num_hidden_layers": 2,
        "embedding_size": 32,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    torch.manual_seed(1)
    return randomise(AlbertPlusForSequenceClassification(AlbertPlusConfig(
        **{**small, "vocab_size": config.vocab_size, "max_position_embeddings": 64, "num_labels": config.num_labels,
           "id2label": config.id2label, "label2id": config.label2id, "pad_token_id": config.pad_token_id, **dict(STILL), **fields}
    )))  # fmt: skip


def arguments(out, **given):
    common = {
        "per_device_train_batch_size": 8, "learning_rate": 1e-3, "logging_steps": 1, "save_strategy": "no", "use_cpu": True,
        "disable_tqdm": True, "report_to": "none", "lr_scheduler_type": "constant", "seed": 3,
    }  # fmt: skip
    return TrainingArguments(str(out), **{**common, **given})


def weights_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def losses_of(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "phase", "values"),
    [
        ("labels", None, {}), ("kd", None, {"temperature": 3.0}), ("kd-hidden", None, {}), ("pkd", None, {"layer_map": "last"}),
        ("tinybert", "intermediate", {}), ("tinybert", "prediction", {}), ("minilm-v2", "transfer", {"relation_heads": 8}),
        ("fastbert", "exits", {}), ("pabee", None, {}), ("mobilebert", "layer-2", {}),
    ],
)  # fmt: skip
def test_the_loss_of_a_batch_is_the_stages(
    method, phase, values, teachers, teacher, data_dir, rows, tmp_path, monkeypatch
):
    seen = {}

    def stop(distiller, *, rows, collator, **options):
        batch = collator([rows[i] for i in range(8)])
        with torch.no_grad():
            seen["loss"] = float(distiller(**batch)["loss"])
        seen["terms"], seen["student"] = distiller.take_terms(), copy.deepcopy(distiller.student)
        raise Seen

    monkeypatch.setattr(run, "train", stop)
    exits = (("exit_layers", [1]),) if method in ("fastbert", "pabee") else ()
    how = DistilSettings(
        method, StudentSettings("half", overrides=(*STILL, *exits)), values=tuple(values.items()), phases=phase
    )
    with pytest.raises(Seen):
        distill(
            str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "stage", settings=QUICK, method=how,
        )  # fmt: skip
    trainer = DistillationTrainer(
        seen["student"], arguments(tmp_path / "own", max_steps=1), teacher=teacher, method=method, phase=phase,
        settings=values, train_dataset=rows.select(range(8)), processing_class=AutoTokenizer.from_pretrained(teachers / "sst2"),
    )  # fmt: skip
    trainer.train()
    entry = next(entry for entry in trainer.state.log_history if "loss" in entry)
    assert entry["loss"] == pytest.approx(seen["loss"], rel=1e-4, abs=1e-6)
    assert {name: entry[name] for name in seen["terms"]} == pytest.approx(seen["terms"], rel=1e-4, abs=1e-6)


@pytest.fixture
def trainer_of(teacher, tokenizer, rows, tmp_path):
    def make(student=None, *, out="own", **given):
        student = student_of(teacher) if student is None else student
        options = {
            "train_dataset": rows,
            "eval_dataset": rows.select(range(20)),
            "processing_class": tokenizer,
            "method": "kd",
            "teacher": teacher,
        }
        own = {name: given.pop(name) for name in list(given) if name in TrainingArguments.__dataclass_fields__}
        return DistillationTrainer(student, arguments(tmp_path / out, **own), **{**options, **given})

    return make


@pytest.mark.slow
def test_it_learns_and_its_teacher_stays(trainer_of, teacher):
    before = weights_of(teacher)
    trainer = trainer_of(num_train_epochs=3)
    trainer.train()
    losses = losses_of(trainer)
    assert sum(losses[-5:]) < sum(losses[:5])
    assert not teacher.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


def test_evaluate_asks_the_student_alone(trainer_of, teacher, rows, tokenizer):
    """Its loss is the cross-entropy with the labels, and the metrics are of its own logits."""
    student, some = student_of(teacher), rows.select(range(20))
    trainer = trainer_of(
        student, compute_metrics=lambda told: {"right": float((told.predictions.argmax(-1) == told.label_ids).mean())}
    )
    found = trainer.evaluate()
    inputs = tokenizer(some["sentence"][:], truncation=True, max_length=32, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = student.eval()(**inputs).logits
    labels = torch.tensor(some["label"][:])
    assert found["eval_loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), abs=1e-5)
    assert found["eval_right"] == pytest.approx(float((logits.argmax(-1) == labels).float().mean()))
    torch.testing.assert_close(torch.tensor(trainer.predict(some).predictions), logits, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_checkpoints_are_students_and_the_best_one_is_taken(trainer_of, tmp_path, tokenizer):
    trainer = trainer_of(
        max_steps=4,
        save_strategy="steps",
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        load_best_model_at_end=True,
    )
    trainer.train()
    best = AutoModelForSequenceClassification.from_pretrained(trainer.state.best_model_checkpoint)
    ours = trainer.distiller.student.state_dict()
    assert all(torch.equal(tensor, ours[name]) for name, tensor in best.state_dict().items())
    trainer.save_model(str(tmp_path / "last"))
    saved = AutoModelForSequenceClassification.from_pretrained(tmp_path / "last")
    assert all(torch.equal(tensor, ours[name]) for name, tensor in saved.state_dict().items())
    assert AutoTokenizer.from_pretrained(tmp_path / "last").get_vocab() == tokenizer.get_vocab()


@pytest.mark.slow
@pytest.mark.parametrize("width", [32, 16])
def test_a_stopped_run_ends_as_a_whole_one(trainer_of, teacher, width):
    """The learned maps between two widths go on too."""
    shape = {"hidden_size": width, "embedding_size": width}

    class Stops(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            control.should_training_stop = True

    def run_to_the_end(out, **given):
        torch.manual_seed(7)
        options = {"method": "kd-hidden", "max_steps": 6, "save_strategy": "steps", "save_steps": 3}
        return trainer_of(student_of(teacher, **shape), out=out, **{**options, **given})

    whole = run_to_the_end("whole")
    whole.train()
    run_to_the_end("stopped", callbacks=[Stops()]).train()
    resumed = run_to_the_end("stopped")
    for layer in resumed.distiller.projections.values():
        torch.nn.init.zeros_(layer.weight)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 6
    assert bool(len(resumed.distiller.projections)) == (width != 32)
    expected = whole.distiller.state_dict()
    for name, tensor in resumed.distiller.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], msg=name)


@pytest.mark.slow
def test_a_checkpoint_of_another_shape_is_refused(trainer_of, teacher):
    trainer_of(max_steps=2, save_strategy="steps", save_steps=2, method="kd-hidden").train()
    deeper = trainer_of(student_of(teacher, ffn_sharing="none"), max_steps=4, method="kd-hidden")
    with pytest.raises(ValueError, match="a checkpoint must hold what it resumes"):
        deeper.train(resume_from_checkpoint=True)


@pytest.mark.slow
def test_accumulated_batches_are_one_batch(trainer_of, teacher, rows):
    ends = []
    for size, accumulated in ((8, 1), (4, 2)):
        student = student_of(teacher)
        trainer_of(
            student, train_dataset=rows.select(range(8)), max_steps=2, optim="sgd", per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulated, max_grad_norm=0.0,
        ).train()  # fmt: skip
        ends.append(weights_of(student))
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.slow
def test_answers_that_rows_bring_are_the_teachers(trainer_of, teacher, rows, tokenizer):
    """With the column the teacher need not be there, and its vocabulary may be another one."""
    inputs = tokenizer(rows["sentence"][:8], truncation=True, max_length=32, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = teacher.eval()(**inputs).logits
    some = rows.select(range(8))
    answered = some.add_column("teacher_logits", logits.tolist())
    first = [
        losses
        for given in ({"train_dataset": some}, {"train_dataset": answered, "teacher": None})
        for losses in [_first_loss(trainer_of(max_steps=1, **given))]
    ]
    assert first[0] == pytest.approx(first[1], rel=1e-5)


def _first_loss(trainer):
    trainer.train()
    return losses_of(trainer)[0]


@pytest.mark.slow
def test_callbacks_see_the_student_and_reports_its_config(trainer_of, teacher):
    seen = []

    class Looks(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            seen.append(model)

    student = student_of(teacher)
    trainer = trainer_of(student, max_steps=1, callbacks=[Looks()])
    trainer.train()
    assert seen == [student]
    assert trainer.model.config is student.config


@pytest.mark.slow
def test_a_student_of_transformers_own_learns(trainer_of, teacher):
    torch.manual_seed(0)
    student = BertForSequenceClassification(
        BertConfig(**{**SMALL, "vocab_size": teacher.config.vocab_size, "num_hidden_layers": 2, "num_labels": 2})
    )
    trainer = trainer_of(student, method="kd-hidden", max_steps=8)
    trainer.train()
    assert losses_of(trainer)[-1] < losses_of(trainer)[0]
    assert {"loss_soft_targets", "loss_labels", "loss_embeddings", "loss_hidden_states"} <= set(
        trainer.state.log_history[0]
    )


@pytest.mark.slow
def test_taggers_learn_of_taggers(tokenizer, tmp_path):
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer), "num_labels": 3, "hidden_dropout_prob": 0.0})
    torch.manual_seed(0)
    teacher, student = randomise(BertForTokenClassification(config)), BertForTokenClassification(config)
    words = ["the film", "a plot", "no", "the film is superb"]
    encoded = [
        {**tokenizer(text), "labels": [-100, *[1] * (len(tokenizer(text)["input_ids"]) - 2), -100]} for text in words
    ]
    trainer = DistillationTrainer(
        student, arguments(tmp_path, max_steps=5, per_device_train_batch_size=4), teacher=teacher, method="kd",
        train_dataset=Dataset.from_list(encoded), data_collator=DataCollatorForTokenClassification(tokenizer),
    )  # fmt: skip
    trainer.train()
    assert losses_of(trainer)[-1] < losses_of(trainer)[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "twinbert"}, "the phase task of twinbert reads the two texts of a pair apart, for two towers.*use albert-plus distill --method twinbert$"),
        ({"method": "distilbert", "phase": "general"}, "the phase general of distilbert learns the masked words of text.*--method distilbert --phases general"),
        ({"method": "well-read", "phase": "pretrain"}, "learns the masked words of text"),
        ({"method": "extreme", "phase": "dual"}, "reads words in two vocabularies and trains the teacher too"),
        ({"method": "tinybert"}, "phase must be one of tinybert's, which has several: general, intermediate, prediction, got none; use phase='general', then 'intermediate'"),
        ({"method": "tinybert", "phase": "predictoin"}, "phase must be one of tinybert's, got 'predictoin'; did you mean 'prediction'"),
        ({"method": "kd-hiden"}, "did you mean 'kd-hidden'"),
        ({"settings": {"temprature": 2}}, "got 'temprature'; did you mean 'temperature'"),
        ({"settings": {"temperature": -1}}, "temperature must be greater than 0"),
        ({"method": "kd-hidden", "teacher": None}, "teacher must be a model, got none; give teacher=…, or a method that reads predictions alone"),
        ({"method": "pabee"}, "trains exits: the student must have some, got AlbertPlusForSequenceClassification"),
        ({"method": "kd-hidden", "settings": {"layer_map": "1,9"}}, "must name one of the teacher's layers 1 to 4"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor must be left out"),
        ({"compute_loss_func": lambda *args, **options: 0}, "compute_loss_func must be left out"),
    ],
)  # fmt: skip
def test_what_it_cannot_train_is_said_first(trainer_of, given, message):
    with pytest.raises(InvalidInput, match=message):
        trainer_of(**given)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_labels": 3}, r"must have the same labels in the same order, got 3 .* and 2"),
        ({"id2label": {0: "positive", 1: "negative"}, "label2id": {"positive": 0, "negative": 1}}, r"in the same order, got 2 \(positive, negative\) and 2 \(negative, positive\)"),
        ({"vocab_size": 90}, "must have one vocabulary, got 90 and"),
    ],
)  # fmt: skip
def test_a_student_that_does_not_fit_its_teacher_is_refused(trainer_of, teacher, fields, message):
    config = copy.deepcopy(teacher.config)
    for name, value in fields.items():
        setattr(config, name, value)
    with pytest.raises(InvalidInput, match=message):
        trainer_of(BertForSequenceClassification(config))


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_a_model_that_is_no_classifier_is_refused(trainer_of, teacher, kind):
    with pytest.raises(InvalidInput, match=f"model must be a classifier of texts or tokens.*got {kind.__name__}"):
        trainer_of(kind(teacher.config))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gone", "given", "message"),
    [
        ("label", {}, "reads labels of a batch, got .*keep the column of labels"),
        ("attention_mask", {}, "reads attention_mask of a batch"),
        ("", {"teacher": None}, "reads teacher_logits of a batch.*add the column, or give teacher"),
    ],
)
def test_a_batch_without_what_is_read_is_refused(trainer_of, rows, gone, given, message):
    kept = rows.remove_columns([gone] if gone else [])

    def collate(some):
        batch = {name: torch.nn.utils.rnn.pad_sequence([torch.tensor(row[name]) for row in some], batch_first=True)
                 for name in ("input_ids", "attention_mask") if name in some[0]}  # fmt: skip
        return batch | ({"labels": torch.tensor([row["label"] for row in some])} if "label" in some[0] else {})

    trainer = trainer_of(train_dataset=kept, data_collator=collate, max_steps=1, **given)
    with pytest.raises(InvalidInput, match=message):
        trainer.train()
