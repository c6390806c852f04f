"""Tags distilled: soft tags of the tokens that have one, against the formula by hand, methods from end to end, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer
from transformers.modeling_outputs import TokenClassifierOutput

from hf_albert_plus.distillation import terms
from hf_albert_plus.distillation.capture import Capture
from hf_albert_plus.distillation.phase_rows import Collator, together
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification, AlbertPlusForTokenClassification
from hf_albert_plus.tasks.own_data import find_task, more_texts
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task_file import read_task
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import small_config
from tests.support.tagged import tagged_sentences, write_tagged
from tests.support.taggers import make_model_of

QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=24, precision="fp32")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_tagged(tmp_path_factory.mktemp("tagged") / "my.jsonl", tagged_sentences(48))


@pytest.fixture(scope="module")
def teacher(data, tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("teacher")
    return make_model_of(find_task(str(data)), directory, tokenizer_dir)


def run(teacher, data, out, method, *, student="half", epochs=0.5, **options):
    settings = DistilSettings(method, StudentSettings(student), epochs=epochs, learning_rate=1e-3, **options)
    return distill(str(teacher), data=str(data), task=find_task(str(data)), output=out, settings=QUICK, method=settings)


def test_soft_tags_are_of_the_tokens_that_have_a_tag():
    torch.manual_seed(0)
    student_BSC, teacher_BSC = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    labels_BS = torch.tensor([[-100, 2, -100, 0], [-100, 1, -100, -100]])
    seen = Capture(TokenClassifierOutput(logits=student_BSC))
    batch = terms.Batch(seen, None, teacher_BSC, torch.ones(2, 4), labels_BS, (), {}, ())
    total = 0.0
    for row, token in ((0, 1), (0, 3), (1, 1)):
        soft = (teacher_BSC[row, token] / 2).softmax(dim=-1)
        total += float((soft * (soft.log() - (student_BSC[row, token] / 2).log_softmax(dim=-1))).sum())
    assert float(terms.SoftTargets(1.0, 2.0).loss(batch)) == pytest.approx(4 * total / 3, rel=1e-5)
    other = replace(batch, student=Capture(TokenClassifierOutput(logits=student_BSC.clone())))
    other.student.output.logits[labels_BS == -100] = 9.0
    assert float(terms.SoftTargets(1.0, 2.0).loss(other)) == float(terms.SoftTargets(1.0, 2.0).loss(batch))


@pytest.mark.parametrize("side", ["right", "left"])
def test_labels_are_padded_where_their_tokens_are(data, tokenizer_dir, side):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir, padding_side=side)
    task = find_task(str(data))
    rows = encode(load_split(str(data), task, "train").select(range(4)), task, tokenizer, max_length=64).to_list()
    batch = Collator(tokenizer)(rows)
    assert len({len(row["labels"]) for row in rows}) > 1
    for row, labels, mask in zip(rows, batch["labels"], batch["attention_mask"].bool(), strict=True):
        assert labels[mask].tolist() == row["labels"]
        assert (labels[~mask] == -100).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kd-hidden", "kd", "labels", "minilm", "tinybert"])
def test_a_method_makes_a_tagger(method, data, teacher, tmp_path):
    record = run(teacher, data, tmp_path / "student", method)
    for phase in record.result["phases"].values():
        assert phase["steps"] > 0
        assert all(value > 0 for value in phase["losses"].values())
    student = AlbertPlusForTokenClassification.from_pretrained(tmp_path / "student")
    assert student.config.num_hidden_layers == 2
    task = find_task(str(data))
    assert tuple(student.config.id2label.values()) == task.labels
    assert read_task(tmp_path / "student") == replace(task, max_length=24)


@pytest.mark.slow
def test_a_student_comes_near_to_what_its_teacher_tags(data, teacher, tokenizer_dir, tmp_path):
    """Of the teacher's own random tags, which no label has, a student that copies half of it learns most."""
    run(teacher, data, tmp_path / "student", "kd", epochs=80, values=(("soft_share", 1.0),))
    models = [AlbertPlusForTokenClassification.from_pretrained(each).eval() for each in (teacher, tmp_path / "student")]
    tokenizer, task = AutoTokenizer.from_pretrained(tokenizer_dir), find_task(str(data))
    batch = Collator(tokenizer)(encode(load_split(str(data), task, "train"), task, tokenizer, max_length=24).to_list())
    labels = batch.pop("labels")
    with torch.no_grad():
        taught, learned = (model(**batch).logits[labels != -100].argmax(dim=-1) for model in models)
    assert float((taught == learned).float().mean()) > 0.9


@pytest.mark.parametrize("method", ["pkd", "fastbert", "pabee"])
def test_methods_that_read_one_answer_a_text_are_refused(method, data, teacher, tmp_path):
    with pytest.raises(InvalidInput, match="which has a tag for each word; use --method kd-hidden"):
        run(teacher, data, tmp_path / "student", method)
    assert not list(tmp_path.iterdir())


def test_words_without_tags_are_answered_by_the_teacher_alone(tokenizer_dir, data):
    """Their soft tags count as those of all other words do, and the labels' own loss passes over them."""
    task, tokenizer = find_task(str(data)), AutoTokenizer.from_pretrained(tokenizer_dir)
    labelled = encode(load_split(str(data), task, "train").select(range(2)), task, tokenizer, max_length=24)
    bare = Path(data).with_name("bare.jsonl")
    bare.write_text("".join(json.dumps({"tokens": words}) + "\n" for words, _ in tagged_sentences(3, seed=5)))
    more = encode(more_texts(str(bare), task), task, tokenizer, max_length=24)
    columns = Collator(tokenizer)(together(labelled, more).to_list())
    words = sum(piece >= 0 for rows in (labelled, more) for row in rows for piece in row["first_pieces"])
    torch.manual_seed(0)
    student_BSC, teacher_BSC = torch.randn(2, *columns["labels"].shape, task.num_labels)
    seen = Capture(TokenClassifierOutput(logits=student_BSC))
    batch = terms.Batch(
        seen,
        None,
        teacher_BSC,
        columns["attention_mask"],
        columns["labels"],
        (),
        {},
        (),
        labelled_B=columns["labelled"],
    )
    assert len(batch.classes(student_BSC)) == words
    expected = []
    for number, row in enumerate(labelled):
        tags = [tag for tag in row["labels"] if tag != -100]
        places = [piece for piece in row["first_pieces"] if piece >= 0]
        chosen = student_BSC[number, places].log_softmax(dim=-1)
        expected += [-float(chosen[place, tag]) for place, tag in enumerate(tags)]
    assert float(terms.Labels(1.0).loss(batch)) == pytest.approx(sum(expected) / len(expected), rel=1e-5)


@pytest.mark.slow
def test_a_student_learns_more_words_than_have_tags(data, teacher, tmp_path):
    more = tmp_path / "more.jsonl"
    more.write_text("".join(json.dumps({"text": words}) + "\n" for words, _ in tagged_sentences(30, seed=5)))
    steps = [
        run(teacher, data, tmp_path / name, "kd-hidden", epochs=1, **given).result["phases"]["task"]["steps"]
        for name, given in (("few", {}), ("many", {"unlabelled": str(more)}))
    ]
    assert steps[1] > steps[0]


def test_answers_of_others_are_refused(data, teacher, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("the sailor sold the lamp\n")
    with pytest.raises(InvalidInput, match="column 'tokens' must hold a list of words in every row"):
        run(teacher, data, tmp_path / "student", "kd", unlabelled=str(texts))
    with pytest.raises(InvalidInput, match="--soft-labels is for tasks with an answer to each text"):
        run(teacher, data, tmp_path / "student", "kd", soft_labels="logits")


def test_a_teacher_of_texts_is_refused(data, tokenizer_dir, tmp_path):
    task = find_task(str(data))
    texts = make_model_of(task, tmp_path / "texts", tokenizer_dir, kind=AlbertPlusForSequenceClassification)
    with pytest.raises(
        InvalidInput, match="must be a classifier of words with the 6 labels .*, AlbertPlusForSequenceC"
    ):
        run(texts, data, tmp_path / "student", "kd")


def test_a_student_of_other_words_is_refused(data, teacher, tokenizer_dir, tmp_path):
    """Soft tags are compared token by token, whatever the method."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    other = tokenizer.train_new_from_iterator([" ".join(words) for words, _ in tagged_sentences(40)], vocab_size=120)
    AlbertPlusForTokenClassification(small_config(vocab_size=len(other), num_labels=6)).save_pretrained(
        tmp_path / "own"
    )
    other.save_pretrained(tmp_path / "own")
    with pytest.raises(InvalidInput, match="compares token by token"):
        run(teacher, data, tmp_path / "student", "kd", student=str(tmp_path / "own"))


@pytest.mark.slow
def test_the_record_names_what_was_learned(data, teacher, tmp_path):
    run(teacher, data, tmp_path / "student", "kd", epochs=0.2)
    settings = json.loads((tmp_path / "student" / "record.json").read_text())["settings"]
    assert settings["task_rows"]["kind"] == "tags"
