"""Dual training: two cuts of the same words, a teacher of two vocabularies, paired matrices, and the method end to end."""

import math
from itertools import chain

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import hf_albert_plus
from hf_albert_plus.distillation.dual_training.dual_teacher import DualDistiller, DualTeacher
from hf_albert_plus.distillation.dual_training.parameter_pairs import layer_matrices, parameter_pairs
from hf_albert_plus.distillation.dual_training.segmentation import (
    DualCollator,
    Vocabulary,
    cut_words,
    draw_words,
    mask_words,
    mix_words,
    word_rows,
)
from hf_albert_plus.distillation.losses.dual_vocabulary import dual_vocabulary_loss
from hf_albert_plus.distillation.losses.masked_lm import masked_lm_loss
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.record import fingerprint, read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

LINES = ["the film is superb, and the plot is not dull", "a dull film , unfortunately", "superbly acted !"]
QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=32, precision="fp32")
NARROW = {
    "hidden_size": 16,
    "embedding_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
WIDE = {**SMALL, "intermediate_size": 64}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return AutoTokenizer.from_pretrained(tokenizer_dir)


@pytest.fixture(scope="module")
def small_tokenizer(tokenizer, data_dir):
    rows = load_split(str(data_dir), get_task("mrpc"), "train")
    return tokenizer.train_new_from_iterator([*LINES, *rows["sentence1"][:40]], vocab_size=90, show_progress=False)


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory, tokenizer):
    return _save(tmp_path_factory.mktemp("words"), transformers.BertForMaskedLM, tokenizer)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tokenizer):
    labels = get_task("mrpc").labels
    names = {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}
    return _save(tmp_path_factory.mktemp("mrpc"), transformers.BertForSequenceClassification, tokenizer, **names)


@pytest.fixture(scope="module")
def student_dir(tmp_path_factory, small_tokenizer):
    directory = tmp_path_factory.mktemp("own")
    small_config(**NARROW, vocab_size=len(small_tokenizer)).save_pretrained(directory)
    small_tokenizer.save_pretrained(directory)
    return directory


def _save(directory, kind, tokenizer, **fields):
    config = transformers.BertConfig(**{**WIDE, "vocab_size": len(tokenizer)}, **fields)
    randomise(kind(config)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def _distiller(tokenizer, small_tokenizer, **settings):
    """A student with two layers of one block and a teacher with four of its own, and a batch of theirs."""
    student = randomise(hf_albert_plus.AlbertPlusForMaskedLM(small_config(**NARROW, vocab_size=len(small_tokenizer))))
    teacher = randomise(transformers.BertForMaskedLM(transformers.BertConfig(**{**WIDE, "vocab_size": len(tokenizer)})))
    dual, _ = METHODS["extreme"].phases(Layers(student=2, teacher=4), settings)
    # Equal rows draw alike: each is cut short in another way. Which pieces are drawn depends on the vocabularies, whose training is not
    # the same in every process: so many rows leave none of them without a masked piece.
    words = [line.split() for line in LINES]
    lines = [" ".join(each[start:]) for line in words for each in (line, line[::-1]) for start in range(4)]
    rows = word_rows(lines, teacher=tokenizer, student=small_tokenizer, max_length=64)
    batch = DualCollator(teacher=tokenizer, student=small_tokenizer, share=0.5, seed=0)([*rows])
    return DualDistiller(student, teacher, dual).eval(), batch


# The loss


def test_dual_vocabulary_loss_by_hand():
    """Two own pieces: .9 and .5; one of the other vocabulary: .5 of four. The second text has that one alone."""
    own = torch.tensor([[[math.log(9), 0.0], [0.0, 0.0], [7.0, 0.0]], [[50.0, 0.0]] * 3]).requires_grad_()
    other = torch.tensor([[[9.0, 0.0, 0.0, 9.0]] * 3, [[0.0, math.log(3), 0.0, 0.0]] * 3]).requires_grad_()
    labels = torch.tensor([[0, 1, -100], [-100, 1, -100]])
    loss = dual_vocabulary_loss(own, other, labels, torch.tensor([[0, 0, 1], [0, 1, 0]]))
    expected = (-(math.log(0.9) + math.log(0.5)) / 2 - math.log(0.5)) / 2
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert own.grad[1].eq(0).all()
    assert other.grad[0].eq(0).all()


def test_one_vocabulary_alone_is_the_masked_lm_loss():
    logits, labels = torch.randn(2, 4, 5), torch.tensor([[1, -100, 4, 0], [-100] * 4])
    nothing = torch.full((2, 4, 3), math.nan)
    for pair, other in (((logits, nothing), False), ((nothing, logits), True)):
        ours = dual_vocabulary_loss(*pair, labels, torch.full((2, 4), other))
        torch.testing.assert_close(ours, masked_lm_loss(logits, labels))
    with pytest.raises(InvalidInput, match="S .*, got 3 and 4"):
        dual_vocabulary_loss(logits, torch.zeros(2, 3, 3), labels, torch.zeros(2, 4))


# Words, cut and masked


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_share_of_words_cut_by_the_student_is_the_probability(share):
    drawn = draw_words(20000, share, generator=torch.Generator().manual_seed(0))
    assert sum(drawn) / len(drawn) == pytest.approx(share, abs=0.015)


def test_a_word_is_whole_in_one_vocabulary():
    teacher, student = [[1], [2, 3], [4]], [[11, 12], [13], [14, 15]]
    mixed = mix_words(teacher, student, [True, False, True])
    assert mixed.ids == [11, 12, 2, 3, 14, 15]
    assert mixed.by_student == [True, True, False, False, True, True]
    assert mixed.words == [0, 0, 1, 1, 2, 2]


def test_masking_is_by_words_at_80_10_10_within_the_vocabulary_that_cut_them():
    teacher, student = Vocabulary(size=1000, mask_id=4), Vocabulary(size=50, mask_id=3)
    words = 6000
    mixed = mix_words([[500, 501]] * words, [[20, 21, 22]] * words, [word % 2 == 0 for word in range(words)])
    masked = [word % 3 == 0 for word in range(words)]
    ids, labels = mask_words(
        mixed, masked, teacher=teacher, student=student, generator=torch.Generator().manual_seed(0)
    )
    for by_student, vocabulary, pieces in ((False, teacher, {500, 501}), (True, student, {20, 21, 22})):
        own = [n for n in range(len(ids)) if mixed.by_student[n] is by_student]
        assert all(labels[n] == (mixed.ids[n] if masked[mixed.words[n]] else -100) for n in own)
        assert all(ids[n] == mixed.ids[n] for n in own if labels[n] == -100)
        hidden = [n for n in own if labels[n] != -100]
        shares = [
            sum(ids[n] == vocabulary.mask_id for n in hidden) / len(hidden),
            sum(ids[n] == labels[n] for n in hidden) / len(hidden),
        ]
        # A random piece is the mask or the piece itself once in a vocabulary.
        assert shares == pytest.approx([0.8 + 0.1 / vocabulary.size, 0.1 + 0.1 / vocabulary.size], abs=0.02)
        others = {ids[n] for n in hidden} - pieces - {vocabulary.mask_id}
        assert min(others) >= 0
        assert vocabulary.size * 0.8 < max(others) < vocabulary.size


def test_rows_hold_each_tokenizers_own_cut_of_the_text(tokenizer, small_tokenizer):
    (row,) = word_rows(LINES[:1], teacher=tokenizer, student=small_tokenizer, max_length=64)
    for source, reader in (("teacher", tokenizer), ("student", small_tokenizer)):
        assert [*chain(*row[f"{source}_pieces"])] == reader(LINES[0], add_special_tokens=False)["input_ids"]
    assert len(row["teacher_pieces"]) == len(row["student_pieces"]) == len(LINES[0].split())
    assert row["teacher_pieces"] != row["student_pieces"]


def test_words_are_cut_as_inside_a_sentence_by_a_tokenizer_that_marks_spaces():
    inner = tokenizers.ByteLevelBPETokenizer()
    inner.train_from_iterator(LINES * 5, vocab_size=300, min_frequency=1, show_progress=False)
    reader = transformers.PreTrainedTokenizerFast(tokenizer_object=inner._tokenizer)
    for line in LINES:
        assert [*chain(*cut_words(line.split(), reader))] == reader(f" {line}")["input_ids"]


def test_a_block_fits_however_its_words_are_cut(tokenizer, small_tokenizer):
    long = "superb" * 12
    rows = word_rows([" ".join(LINES) + f" {long} film"], teacher=tokenizer, student=small_tokenizer, max_length=20)
    longest = [
        2 + sum(max(map(len, cuts)) for cuts in zip(row["teacher_pieces"], row["student_pieces"], strict=True))
        for row in rows
    ]
    assert longest == rows["length"][:]
    assert max(longest) <= 20
    pieces = [piece for row in rows for word in row["student_pieces"] for piece in word]
    kept = small_tokenizer(" ".join(LINES) + " film", add_special_tokens=False)["input_ids"]
    assert pieces == kept
    with pytest.raises(InvalidInput, match="must hold words between spaces, shorter than --max-length, got none"):
        word_rows([long, "  "], teacher=tokenizer, student=small_tokenizer, max_length=20)


def test_batches_give_the_student_its_own_cut_and_the_teacher_a_mixture(tokenizer, small_tokenizer):
    """Undoing the masks gives the two cuts again, whatever was drawn."""
    torch.manual_seed(0)
    rows = word_rows(LINES, teacher=tokenizer, student=small_tokenizer, max_length=64)
    collate = DualCollator(teacher=tokenizer, student=small_tokenizer, share=0.5, seed=0)
    seen = set()
    for _ in range(20):
        batch = collate([*rows])
        whole = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
        expected = small_tokenizer(LINES, padding=True, return_tensors="pt")
        assert torch.equal(whole, expected["input_ids"])
        assert torch.equal(batch["attention_mask"], expected["attention_mask"])
        mixed = torch.where(batch["mixed_labels"] == -100, batch["mixed_input_ids"], batch["mixed_labels"])
        for line, ids, by_student, mask in zip(
            LINES, mixed, batch["mixed_by_student"], batch["mixed_attention_mask"], strict=True
        ):
            length = int(mask.sum())
            assert (ids[0], ids[length - 1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
            assert (ids[length:] == tokenizer.pad_token_id).all()
            place = 1
            for word in line.split():
                reader = small_tokenizer if by_student[place] else tokenizer
                pieces = reader(word, add_special_tokens=False)["input_ids"]
                assert ids[place : place + len(pieces)].tolist() == pieces
                assert (by_student[place : place + len(pieces)] == by_student[place]).all()
                seen.add(bool(by_student[place]))
                place += len(pieces)
            assert place == length - 1
    assert seen == {True, False}


# The teacher


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "Albert", "AlbertPlus"])
def test_a_teacher_without_the_other_vocabulary_computes_what_it_did(family):
    module = hf_albert_plus if family == "AlbertPlus" else transformers
    fields = {
        "DistilBert": {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 48},
        "Albert": {"embedding_size": 16},
    }
    config = getattr(module, f"{family}Config")(**SMALL, **fields.get(family, {}), pad_token_id=0)
    model = randomise(getattr(module, f"{family}ForMaskedLM")(config))
    inputs = pair_inputs(SMALL["vocab_size"])
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    dual = randomise(DualTeacher(model, vocab_size=30)).eval()
    own, other = dual(ids, torch.zeros_like(ids).bool(), mask)
    torch.testing.assert_close(own, model(input_ids=ids, attention_mask=mask).logits)
    assert other.shape == (*ids.shape, 30)


def test_the_second_table_is_read_and_predicts(tokenizer):
    """Against a BERT whose one table holds both: its logits beside each other are those of the two output layers."""
    config = transformers.BertConfig(**SMALL)
    dual = randomise(DualTeacher(transformers.BertForMaskedLM(config), vocab_size=30))
    both = transformers.BertForMaskedLM(transformers.BertConfig(**{**SMALL, "vocab_size": 150})).eval()
    state = {name: tensor for name, tensor in dual.model.state_dict().items() if "decoder" not in name}
    words, bias = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
    state[words] = torch.cat([state[words], dual.other_embeddings.weight])
    state[bias] = torch.cat([state[bias], dual.other_bias])
    both.load_state_dict(state, strict=False)
    inputs = pair_inputs(30)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    by_student = ids % 2 == 0
    expected = both(input_ids=ids + 120 * by_student, attention_mask=mask).logits
    torch.testing.assert_close(torch.cat(dual(ids, by_student, mask), dim=-1), expected, atol=1e-5, rtol=1e-4)


def test_a_teacher_that_cannot_be_extended_is_refused():
    config = transformers.MobileBertConfig(**SMALL, intra_bottleneck_size=16, embedding_size=16)
    with pytest.raises(InvalidInput, match="output layer is as wide as its embeddings, got MobileBertForMaskedLM"):
        DualTeacher(transformers.MobileBertForMaskedLM(config), vocab_size=30)


# The pairs


def test_pairs_of_a_shared_student_by_hand():
    """One attention block in both layers beside the teacher's second and fourth; two FFN blocks of two squares each."""
    student = randomise(hf_albert_plus.AlbertPlusModel(small_config(**{**NARROW, "ffn_sharing": "none"})))
    teacher = randomise(transformers.BertModel(transformers.BertConfig(**WIDE)))
    pairs = parameter_pairs(student, teacher, (2, 4))
    ours, theirs = [], []
    for number, layer in enumerate((1, 3)):
        block, ffn, bert = student.encoder.attention[0], student.encoder.ffn[number], teacher.encoder.layer[layer]
        ours += [block.query.weight, block.key.weight, block.value.weight, block.output.weight]
        own = bert.attention.self
        theirs += [own.query.weight, own.key.weight, own.value.weight, bert.attention.output.dense.weight]
        ours += [ffn.intermediate.weight[:16], ffn.intermediate.weight[16:]]
        theirs += [bert.intermediate.dense.weight[:32], bert.intermediate.dense.weight[32:]]
        ours += [ffn.output.weight[:, :16], ffn.output.weight[:, 16:]]
        theirs += [bert.output.dense.weight[:, :32], bert.output.dense.weight[:, 32:]]
    assert pairs.left_out == ()
    for found, expected in ((pairs.student, ours), (pairs.teacher, theirs)):
        assert len(found) == len(expected) == 16
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "Albert"])
def test_every_familys_matrices_are_those_of_its_conversion(family):
    fields = {"DistilBert": {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 48},
              "Albert": {"embedding_size": 16, "num_hidden_layers": 2, "inner_group_num": 2, "num_hidden_groups": 2}}  # fmt: skip
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **fields.get(family, {})}, pad_token_id=0)
    model = randomise(getattr(transformers, f"{family}Model")(config))
    from hf_albert_plus.conversion.models import to_albert_plus

    theirs, ours = layer_matrices(model), layer_matrices(to_albert_plus(model))
    assert len(theirs) == len(ours) == 4
    for one, other in zip(theirs, ours, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in other)


def test_matrices_without_a_partner_are_left_out_and_named():
    student = hf_albert_plus.AlbertPlusModel(small_config(**{**NARROW, "intermediate_size": 48}))
    teacher = transformers.BertModel(transformers.BertConfig(**WIDE))
    pairs = parameter_pairs(student, teacher, (1, 2))
    assert pairs.left_out == ("ffn.intermediate", "ffn.output")
    assert len(pairs.student) == 8
    with pytest.raises(InvalidInput, match="know the matrices of .*, got electra; use a teacher of one of those"):
        layer_matrices(transformers.ElectraModel(transformers.ElectraConfig(**SMALL)))


# What is trained


def test_the_loss_is_the_papers_sum(tokenizer, small_tokenizer):
    distiller, batch = _distiller(tokenizer, small_tokenizer, projection_weight=0.25)
    own = distiller.student(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    logits = distiller.dual_teacher(batch["mixed_input_ids"], batch["mixed_by_student"], batch["mixed_attention_mask"])
    words = []
    for row, labels in enumerate(batch["mixed_labels"].tolist()):
        pieces = [
            -logits[int(batch["mixed_by_student"][row, place])][row, place].log_softmax(-1)[label]
            for place, label in enumerate(labels)
            if label != -100
        ]
        words.append(torch.stack(pieces).mean() if pieces else torch.zeros(()))
    pairs = distiller.pairs()
    projected = [
        (theirs - distiller.up @ ours @ distiller.down).square().mean()
        + (distiller.down @ theirs @ distiller.up - ours).square().mean()
        for ours, theirs in zip(pairs.student, pairs.teacher, strict=True)
    ]
    expected = torch.stack(words).mean() + masked_lm_loss(own, batch["labels"]) + 0.25 * torch.stack(projected).mean()
    torch.testing.assert_close(distiller(**batch)["loss"], expected)


def test_a_batchs_loss_is_the_mean_of_its_rows_alone(tokenizer, small_tokenizer):
    distiller, batch = _distiller(tokenizer, small_tokenizer)
    alone = []
    for row in range(len(batch["labels"])):
        lengths = {prefix: int(batch[f"{prefix}attention_mask"][row].sum()) for prefix in ("", "mixed_")}
        alone.append(
            distiller(
                **{
                    name: tensor[row : row + 1, : lengths["mixed_" if name.startswith("mixed_") else ""]]
                    for name, tensor in batch.items()
                }
            )["loss"]
        )
    torch.testing.assert_close(distiller(**batch)["loss"], torch.stack(alone).mean(), atol=1e-5, rtol=1e-4)


def test_gradients_reach_both_models_both_tables_and_the_projections(tokenizer, small_tokenizer):
    distiller, batch = _distiller(tokenizer, small_tokenizer)
    distiller(**batch)["loss"].backward()
    assert not [name for name, parameter in distiller.named_parameters() if parameter.grad is None]
    for parameter in (
        distiller.up,
        distiller.down,
        distiller.dual_teacher.other_embeddings.weight,
        distiller.dual_teacher.other_bias,
        distiller.dual_teacher.model.bert.embeddings.word_embeddings.weight,
        distiller.student.albert_plus.embeddings.word_embeddings.weight,
    ):
        assert parameter.grad.abs().sum() > 0
    assert {"up", "down", "dual_teacher.other_embeddings.weight"} <= set(distiller.state_dict())


@pytest.mark.parametrize("projection", ["up", "down"])
def test_one_direction_alone(projection, tokenizer, small_tokenizer):
    both, batch = _distiller(tokenizer, small_tokenizer)
    one, _ = _distiller(tokenizer, small_tokenizer, projection=projection)
    both(**batch)
    one(**batch)
    one.load_state_dict(both.state_dict())
    assert 0 < one.take_terms()["loss_shared_projections"] < both.take_terms()["loss_shared_projections"]
    none, _ = _distiller(tokenizer, small_tokenizer, projection_weight=0.0)
    assert none.up is None
    assert "shared_projections" not in none.phase.formula


# The stage


def _distill(out, *, teacher, student, general, data, checkpoint_seconds=60, text=None, phases=None, **values):
    method = DistilSettings(
        "extreme",
        StudentSettings(str(student)),
        values=tuple(values.items()),
        epochs=0.5,
        learning_rate=1e-3,
        phases=phases,
        text=text,
        general_teacher=None if general is None else str(general),
    )
    return distill(
        str(teacher),
        data=None if data is None else str(data),
        task=None if data is None else get_task("mrpc"),
        output=out,
        settings=QUICK,
        method=method,
        checkpoint_seconds=checkpoint_seconds,
    )


@pytest.mark.slow
def test_the_method_makes_a_student_of_the_small_vocabulary(
    classifier, masked_lm, student_dir, small_tokenizer, data_dir, tmp_path
):
    before = fingerprint(masked_lm)
    record = _distill(tmp_path / "s", teacher=classifier, student=student_dir, general=masked_lm, data=data_dir)
    assert fingerprint(masked_lm) == before
    dual, task = record.result["phases"]["dual"], record.result["phases"]["task"]
    assert set(dual["losses"]) == {"mixed_words", "masked_words", "shared_projections"}
    assert (dual["paired_matrices"], dual["unpaired"]) == (2 * (4 + 2 + 2), [])
    assert set(task["losses"]) == {"labels"}
    assert min(dual["steps"], task["steps"]) > 0
    assert record.result["initialised"].startswith("random")
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "s")
    assert student.config.vocab_size == len(small_tokenizer)
    assert list(student.config.id2label.values()) == list(get_task("mrpc").labels)
    saved = AutoTokenizer.from_pretrained(tmp_path / "s")
    assert saved.get_vocab() == small_tokenizer.get_vocab()
    assert student(**saved("superb", "dull", return_tensors="pt")).logits.shape == (1, 2)
    assert not [name for name in load_file(tmp_path / "s" / "model.safetensors") if "teacher" in name or name == "up"]
    assert read_record(tmp_path / "s").parents["general_teacher"]["sha256"] == before


@pytest.mark.slow
def test_a_general_student_is_made_of_text_alone(masked_lm, student_dir, small_tokenizer, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(LINES * 4) + "\n")
    _distill(tmp_path / "s", teacher=masked_lm, student=student_dir, general=None, data=None, text=text, phases="dual")
    _, report = hf_albert_plus.AlbertPlusForMaskedLM.from_pretrained(tmp_path / "s", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert AutoTokenizer.from_pretrained(tmp_path / "s").get_vocab() == small_tokenizer.get_vocab()


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_teacher_and_the_projections_as_they_were(
    masked_lm, classifier, student_dir, data_dir, tmp_path, monkeypatch
):
    common = {"teacher": classifier, "student": student_dir, "general": masked_lm, "data": data_dir}
    observe, seen = DualDistiller.observe, []

    def interrupted(self, columns):
        seen.append({name: tensor.clone() for name, tensor in self.state_dict().items()})
        if len(seen) == 4:
            raise KeyboardInterrupt
        return observe(self, columns)

    monkeypatch.setattr(DualDistiller, "observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _distill(tmp_path / "s", **common, checkpoint_seconds=0)
    record = _distill(tmp_path / "s", **common, checkpoint_seconds=0)
    assert record.result["phases"]["dual"]["resumed_at_step"] == 3
    first, last, again = seen[0], seen[3], seen[4]
    assert all(torch.equal(last[name], again[name]) for name in last)
    for name in (
        "up",
        "down",
        "dual_teacher.other_embeddings.weight",
        "dual_teacher.model.bert.embeddings.LayerNorm.bias",
    ):
        assert not torch.equal(first[name], last[name])


# What users do wrong


def test_students_of_the_teachers_vocabulary_are_refused(classifier, masked_lm, tokenizer, data_dir, tmp_path):
    common = {"teacher": classifier, "general": masked_lm, "data": data_dir}
    rule = "--student of extreme must be a directory with a config.json and a tokenizer of its own, got "
    for student in ("half", "albert-base-v2"):
        with pytest.raises(
            InvalidInput, match=f"{rule}{student}; make one first: .*train_new_from_iterator.*--student"
        ):
            _distill(tmp_path / "s", student=student, **common)
    same = tmp_path / "same"
    small_config(**NARROW, vocab_size=len(tokenizer)).save_pretrained(same)
    with pytest.raises(InvalidInput, match=f"{rule}{same}; make one first"):
        _distill(tmp_path / "s", student=same, **common)
    tokenizer.save_pretrained(same)
    with pytest.raises(InvalidInput, match=f"{rule}{same} with the vocabulary of {masked_lm}; make one first: .*"):
        _distill(tmp_path / "s", student=same, **common)


def test_what_dual_training_cannot_use_is_refused(classifier, masked_lm, student_dir, data_dir, tmp_path):
    common = {"teacher": classifier, "student": student_dir, "data": data_dir}
    with pytest.raises(InvalidInput, match="phase dual needs a teacher with a masked language modelling head"):
        _distill(tmp_path / "a", general=None, **common)
    for value, words in (
        ({"projection": "upp"}, "--set projection must be up, down or both, got 'upp'; did you mean 'up'"),
        ({"dual_share": 1.5}, "--set dual_share must lie between 0 and 1, got 1.5"),
        ({"layer_map": "1"}, "one of the teacher's layers 1 to 4 for each of the student's 2, got 1"),
    ):
        with pytest.raises(InvalidInput, match=words):
            _distill(tmp_path / "b", general=masked_lm, **common, **value)


def test_a_tokenizer_that_cannot_mask_is_refused(classifier, masked_lm, small_tokenizer, data_dir, tmp_path):
    directory = tmp_path / "own"
    small_config(**NARROW, vocab_size=len(small_tokenizer)).save_pretrained(directory)
    small_tokenizer.save_pretrained(directory)
    settings = directory / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace('"mask_token": "[MASK]"', '"mask_token": null'))
    with pytest.raises(
        InvalidInput, match="needs cls_token, .* of student and teacher, got no mask_token of the student"
    ):
        _distill(tmp_path / "s", teacher=classifier, student=directory, general=masked_lm, data=data_dir)
