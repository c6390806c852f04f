"""Spans distilled: soft starts and ends against the formula by hand, methods from end to end, and what is refused."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoTokenizer
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from hf_albert_plus.distillation import terms
from hf_albert_plus.distillation.capture import Capture
from hf_albert_plus.distillation.phase_rows import Collator
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForQuestionAnswering, AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task_file import read_task
from hf_albert_plus.training.settings import TrainSettings
from tests.support.questions import asked_questions, make_answerer, write_rows
from tests.support.small_models import small_config

QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=40, precision="fp32")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("asked") / "my.jsonl", asked_questions(48, events=3, without=0.2))


@pytest.fixture(scope="module")
def teacher(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("teacher")
    make_answerer(directory, tokenizer_dir, no_answer_threshold=0.5)
    return directory


def run(teacher, data, out, method, *, student="half", epochs=0.5, **options):
    settings = DistilSettings(method, StudentSettings(student), epochs=epochs, learning_rate=1e-3, **options)
    return distill(str(teacher), data=str(data), task=find_task(str(data)), output=out, settings=QUICK, method=settings)


def test_soft_starts_and_ends_are_of_the_real_tokens():
    torch.manual_seed(0)
    student, teacher_BS2 = torch.randn(2, 2, 4), torch.randn(2, 4, 2)
    mask_BS = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    seen = Capture(QuestionAnsweringModelOutput(start_logits=student[0], end_logits=student[1]))
    batch = terms.Batch(seen, None, teacher_BS2, mask_BS, None, (), {}, (), has_spans=True)
    total = entropy = 0.0
    for row, tokens in ((0, 4), (1, 2)):
        for side in range(2):
            soft = (teacher_BS2[row, :tokens, side] / 2).softmax(dim=-1)
            logs = (student[side, row, :tokens] / 2).log_softmax(dim=-1)
            total += float((soft * (soft.log() - logs)).sum())
            entropy += float(-(soft * logs).sum())
    assert float(terms.SoftTargets(1.0, 2.0).loss(batch)) == pytest.approx(4 * total / 4, rel=1e-5)
    assert float(terms.SoftCrossEntropy(1.0, 2.0).loss(batch)) == pytest.approx(4 * entropy / 4, rel=1e-5)
    student[:, 1, 2:] = 9.0
    assert float(terms.SoftTargets(1.0, 2.0).loss(batch)) == pytest.approx(total, rel=1e-5)


def test_a_batch_has_the_positions_of_its_rows(data, tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    task = find_task(str(data))
    rows = encode(load_split(str(data), task, "train").select(range(4)), task, tokenizer, max_length=40).to_list()
    batch = Collator(tokenizer)(rows)
    for name in ("start_positions", "end_positions"):
        assert batch[name].tolist() == [row[name] for row in rows]
    assert set(batch) == {"input_ids", "attention_mask", *(["token_type_ids"] if "token_type_ids" in rows[0] else []), "start_positions", "end_positions"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kd-hidden", "kd", "labels", "minilm", "tinybert"])
def test_a_method_makes_a_model_of_spans(method, data, teacher, tmp_path):
    record = run(teacher, data, tmp_path / "student", method)
    for phase in record.result["phases"].values():
        assert phase["steps"] > 0
        assert all(value > 0 for value in phase["losses"].values())
    student = AlbertPlusForQuestionAnswering.from_pretrained(tmp_path / "student")
    assert student.config.num_hidden_layers == 1
    assert student.config.longest_answer == 30
    assert isinstance(student.config.no_answer_threshold, float)
    assert read_task(tmp_path / "student") == replace(find_task(str(data)), max_length=40)


@pytest.mark.slow
def test_the_loss_of_labels_is_transformers_own(data, teacher, tokenizer_dir, tmp_path):
    """Of one epoch of one batch at a rate of nothing, the student being its teacher."""
    record = distill(
        str(teacher), data=str(data), task=find_task(str(data)), output=tmp_path / "student",
        settings=replace(QUICK, batch_size=1024, epochs=1),
        method=DistilSettings("labels", StudentSettings(str(teacher)), epochs=1, learning_rate=1e-12),
    )  # fmt: skip
    (phase,) = record.result["phases"].values()
    tokenizer, task = AutoTokenizer.from_pretrained(tokenizer_dir), find_task(str(data))
    batch = Collator(tokenizer)(encode(load_split(str(data), task, "train"), task, tokenizer, max_length=40).to_list())
    with torch.no_grad():
        expected = AlbertPlusForQuestionAnswering.from_pretrained(teacher).eval()(**batch)
    cross_entropy = torch.nn.functional.cross_entropy
    by_hand = (cross_entropy(expected.start_logits, batch["start_positions"]) + cross_entropy(expected.end_logits, batch["end_positions"])) / 2  # fmt: skip
    assert float(expected.loss) == pytest.approx(float(by_hand), rel=1e-5)
    # Dropout moves it a little.
    assert phase["train_loss"] == pytest.approx(float(by_hand), rel=0.3)


@pytest.mark.slow
def test_a_student_comes_near_to_what_its_teacher_says(teacher, tokenizer_dir, tmp_path):
    """Of the teacher's own random answers, which no label has."""
    data = write_rows(tmp_path / "few.jsonl", asked_questions(10, without=0.2))
    run(teacher, data, tmp_path / "student", "kd", epochs=60, values=(("soft_share", 1.0),))
    models = [AlbertPlusForQuestionAnswering.from_pretrained(each).eval() for each in (teacher, tmp_path / "student")]
    tokenizer, task = AutoTokenizer.from_pretrained(tokenizer_dir), find_task(str(data))
    batch = Collator(tokenizer)(encode(load_split(str(data), task, "train"), task, tokenizer, max_length=40).to_list())
    mask_BS = batch["attention_mask"].bool()
    with torch.no_grad():
        taught, learned = (
            [output[name].masked_fill(~mask_BS, -1e9).argmax(dim=-1) for name in ("start_logits", "end_logits")]
            for output in (model(**batch) for model in models)
        )
    agreed = torch.stack([one == other for one, other in zip(taught, learned, strict=True)])
    assert float(agreed.float().mean()) > 0.4  # by chance it is a twentieth


@pytest.mark.parametrize("method", ["pkd", "fastbert", "pabee"])
def test_methods_that_read_one_answer_a_text_are_refused(method, data, teacher, tmp_path):
    with pytest.raises(InvalidInput, match="which has a span of its context for each question; use --method kd-hidden"):
        run(teacher, data, tmp_path / "student", method)
    assert not list(tmp_path.iterdir())


def test_answers_of_others_and_other_teachers_are_refused(data, teacher, tokenizer_dir, tmp_path):
    with pytest.raises(InvalidInput, match="--unlabelled is for tasks of labels, numbers or tags"):
        run(teacher, data, tmp_path / "student", "kd", unlabelled=str(data))
    with pytest.raises(
        InvalidInput, match="--soft-labels is for tasks with an answer to each text, .* answer the rows of --data"
    ):
        run(teacher, data, tmp_path / "student", "kd", soft_labels="logits")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer), num_labels=2)).save_pretrained(tmp_path / "texts")  # fmt: skip
    tokenizer.save_pretrained(tmp_path / "texts")
    with pytest.raises(
        InvalidInput, match="must be a classifier of spans with the 2 labels .*, AlbertPlusForSequenceC"
    ):
        run(tmp_path / "texts", data, tmp_path / "student", "kd")
