"""MobileBERT's progressive transfer, pre-training distillation and start, each against the paper's formula worked by hand."""

from random import Random

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

import hf_albert_plus
from hf_albert_plus.conversion.initialise import initialise
from hf_albert_plus.distillation import losses
from hf_albert_plus.distillation.distiller import Distiller, DistillerTrainer
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phase_rows import Collator
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.distillation.segment_rows import segment_rows
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.distillation.turns import rates_of_turn
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.pretraining.masking import EachToken, Masking
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.loop import training_arguments
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=32, precision="fp32")
UNSHARED = {"attention_sharing": "none", "ffn_sharing": "none"}
TEACHER = {
    **UNSHARED, "num_hidden_layers": 3, "trigram_embeddings": True, "bottleneck_size": 48, "query_key_bottleneck": False,
    "hidden_act": "gelu",
}  # fmt: skip
STUDENT = {
    **UNSHARED, "num_hidden_layers": 3, "trigram_embeddings": True, "bottleneck_size": 16, "intermediate_size": 24, "norm_type": "no_norm",
    "num_feedforward_networks": 2, "pooler": "none", "hidden_act": "relu",
}  # fmt: skip


def _phases(*, shared=False, layers=3, **settings):
    phases = METHODS["mobilebert"].phases(Layers(student=layers, teacher=layers, shared=shared), settings)
    return {phase.name: phase for phase in phases}


def _models(kind="AlbertPlusModel"):
    """A narrow student and its inverted-bottleneck teacher."""
    make = getattr(hf_albert_plus, kind)
    return randomise(make(small_config(**STUDENT))), randomise(make(small_config(**TEACHER)))


def _in_eager(model, inputs):
    """Hidden states and attentions as the model itself gives them."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True, output_attentions=True)
    model.set_attn_implementation("sdpa")
    return output


@pytest.mark.parametrize("lower", ["off", "on"])
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_a_turn_is_the_releases_loss_of_its_layer(layer, lower):
    """100·MSE(LN, LN) + 5000·(mean - mean)² + 5·|variance - variance| + cross-entropy of attention, each divided by the layers."""
    student, teacher = _models()
    inputs = pair_inputs(SMALL["vocab_size"])
    phase = _phases(lower_losses=lower)[f"layer-{layer}"]
    loss = Distiller(student, teacher, phase).eval()(**inputs)["loss"]
    ours, theirs = _in_eager(student, inputs), _in_eager(teacher, inputs)
    real = inputs["attention_mask"].bool()

    def mean(values_BS):
        return torch.stack([values[mask].mean() for values, mask in zip(values_BS, real, strict=True)]).mean()

    expected = 0.0
    for number in range(1, layer + 1) if lower == "on" else [layer]:
        student_BSH, teacher_BSH = ours.hidden_states[number], theirs.hidden_states[number]
        normalised = [
            (states - states.mean(-1, keepdim=True)) / states.var(-1, correction=0, keepdim=True).sqrt()
            for states in (student_BSH, teacher_BSH)
        ]
        maps = (normalised[0] - normalised[1]).square().mean(-1)
        means = (student_BSH.mean(-1) - teacher_BSH.mean(-1)).square()
        variances = (student_BSH.var(-1, correction=0) - teacher_BSH.var(-1, correction=0)).abs()
        student_BNSS, teacher_BNSS = ours.attentions[number - 1], theirs.attentions[number - 1]
        attention = -(teacher_BNSS * student_BNSS.clamp(min=1e-30).log()).sum(-1).mean(1)
        expected = expected + (100 * mean(maps) + 5000 * mean(means) + 5 * mean(variances) + mean(attention)) / 3
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-4, atol=1e-4)


def test_losses_below_stay_on_where_layers_share_a_block():
    for shared, lower, expected in (
        (False, "auto", (3,)),
        (True, "auto", (1, 2, 3)),
        (True, "off", (3,)),
        (False, "on", (1, 2, 3)),
    ):
        phase = _phases(shared=shared, lower_losses=lower)["layer-3"]
        assert {term.of_layers for term in phase.terms} == {expected}
    with pytest.raises(InvalidInput, match="--set lower_losses must be one of auto, on, off, got 'of'"):
        _phases(lower_losses="of")
    with pytest.raises(InvalidInput, match="--set order must be one of sentence-order, next-sentence, none, got 'nsp'"):
        _phases(order="nsp")


def _rates(student, **turn):
    rates = rates_of_turn(student, **turn)
    return {name: rates[id(parameter)] for name, parameter in student.named_parameters()}


def test_in_its_turn_a_layer_learns_those_below_slowly_and_nothing_above():
    student, _ = _models()
    for name, rate in _rates(student, layer=2, lower=0.1).items():
        block = name.split(".")[2] if name.startswith("encoder.") else None
        expected = {"0": 0.1, "1": 1.0, "2": 0.0}[block] if block else 0.1
        assert rate == expected, name
    shared = hf_albert_plus.AlbertPlusForSequenceClassification(
        small_config(attention_sharing="cycle:2", ffn_sharing="all")
    )
    for name, rate in _rates(shared, layer=3, lower=0.1).items():
        of_turn = ".ffn." in name or ".attention.0." in name  # of the layers 1 and 3
        below = ".attention.1." in name or ".embeddings." in name
        assert rate == (1.0 if of_turn else 0.1 if below else 0.0), name


def test_the_optimizer_has_the_rates(tmp_path):
    student, teacher = _models()
    distiller = Distiller(student, teacher, _phases()["layer-2"])
    trainer = DistillerTrainer(
        distiller, args=training_arguments(QUICK, output=tmp_path, max_steps=1), train_dataset=[]
    )
    groups = trainer.create_optimizer().param_groups
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    decays = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    encoder = student.encoder
    assert rates[id(encoder.attention[1].query.weight)] == QUICK.learning_rate
    assert rates[id(encoder.attention[0].query.weight)] == pytest.approx(0.1 * QUICK.learning_rate)
    assert id(encoder.attention[2].query.weight) not in rates
    assert decays[id(encoder.attention[0].query.weight)] == QUICK.weight_decay
    assert decays[id(encoder.attention[0].query.bias)] == 0


def _save(model, directory, tokenizer_dir):
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(directory)
    return str(directory)


@pytest.fixture(scope="module")
def inverted(tmp_path_factory, tokenizer_dir):
    """A teacher as pretraining leaves it."""
    vocab_size = len(AutoTokenizer.from_pretrained(tokenizer_dir))
    model = randomise(hf_albert_plus.AlbertPlusForPreTraining(small_config(**TEACHER, vocab_size=vocab_size)))
    return _save(model, tmp_path_factory.mktemp("ib-bert"), tokenizer_dir)


def _distill(teacher, out, *, student, data=None, task=None, settings=QUICK, **options):
    how = DistilSettings(
        "mobilebert",
        StudentSettings(student, tuple(options.pop("overrides", ()))),
        **{"epochs": 0.5, "learning_rate": 1e-3, **options},
    )
    return distill(teacher, data=data, task=task, output=out, settings=settings, method=how)


@pytest.mark.slow
def test_a_layers_turn_leaves_what_is_above_as_it_was(inverted, text, tokenizer_dir, tmp_path):
    vocab_size = len(AutoTokenizer.from_pretrained(tokenizer_dir))
    start = randomise(hf_albert_plus.AlbertPlusModel(small_config(**STUDENT, vocab_size=vocab_size)))
    student = _save(start, tmp_path / "start", tokenizer_dir)
    _distill(
        inverted, tmp_path / "out", student=student, text=text, phases="layer-2", values=(("transfer_epochs", 9.0),)
    )
    before, after = start.state_dict(), load_file(tmp_path / "out" / "model.safetensors")
    moved = {name: (after[name] - before[name]).abs().max().item() for name in after}
    assert all(moved[name] == 0 for name in moved if name.startswith(("encoder.attention.2.", "encoder.ffn.2.")))
    weights = [name for name in moved if name.endswith("query.weight")]
    one, two = (moved[name] for name in sorted(weights)[:2])
    assert 0 < one < 0.3 * two


def test_words_are_the_papers_pretraining_distillation():
    """L_PD = α·MLM + (1 - α)·KD + NSP, with α = 0.3 here."""
    student, teacher = _models("AlbertPlusForPreTraining")
    inputs = pair_inputs(SMALL["vocab_size"])
    labels = torch.where(inputs["input_ids"] % 3 == 0, inputs["input_ids"], -100)
    labels[inputs["attention_mask"] == 0] = -100
    orders = torch.tensor([1, -100, 0])
    phase = _phases(soft_words_share=0.7)["words"]
    loss = Distiller(student, teacher, phase).eval()(**inputs, labels=labels, sentence_order_label=orders)["loss"]
    with torch.no_grad():
        ours, theirs = student(**inputs), teacher(**inputs)
    hard, soft = [], []
    for row, wanted in enumerate(labels):
        masked = wanted != -100
        log_p = ours.prediction_logits[row, masked].log_softmax(-1)
        q = theirs.prediction_logits[row, masked].softmax(-1)
        hard.append(-log_p.gather(1, wanted[masked][:, None]).mean())
        soft.append((q * (q.log() - log_p)).sum(-1).mean())
    order = -(ours.sop_logits.log_softmax(-1)[0, 1] + ours.sop_logits.log_softmax(-1)[2, 0]) / 3
    expected = 0.3 * torch.stack(hard).mean() + 0.7 * torch.stack(soft).mean() + order
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-4, atol=1e-5)
    assert losses.sentence_order_loss(torch.zeros(2, 2), torch.tensor([-100, -100])) == 0


@pytest.mark.parametrize("order", ["next-sentence", "sentence-order"])
def test_segments_and_their_labels_are_those_of_the_text(order, tokenizer_dir, tmp_path):
    """Every pair is looked up in the text: neighbours in order, the other way around, or of two documents."""
    tokenizer, random = AutoTokenizer.from_pretrained(tokenizer_dir), Random(0)
    words = ["film", "plot", "superb", "dull", "the", "is", "a", "actor", "scene", "music"]
    texts = [[" ".join(random.choices(words, k=7)) for _ in range(9)] for _ in range(12)]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(lines) for lines in texts))
    rows = segment_rows(path, tokenizer, max_length=40, order=order, seed=3)
    spelled = [
        " ".join(str(i) for line in lines for i in tokenizer(line, add_special_tokens=False)["input_ids"])
        for lines in texts
    ]
    seen = set()
    for row in rows:
        assert len(row["input_ids"]) == row["length"] == sum(row["attention_mask"]) <= 40
        second = row["token_type_ids"].index(1) if 1 in row["token_type_ids"] else row["length"]
        assert row["input_ids"][0] == tokenizer.cls_token_id
        assert row["input_ids"][second - 1] == row["input_ids"][-1] == tokenizer.sep_token_id
        parts = [" ".join(map(str, part)) for part in (row["input_ids"][1 : second - 1], row["input_ids"][second:-1])]
        label = row["sentence_order_label"]
        assert (label == -100) == (not parts[1])
        seen.add(label)
        if row["length"] < 40 and label == 0:
            assert any(" ".join(parts) in document for document in spelled)
        elif row["length"] < 40 and label == 1 and order == "sentence-order":
            assert any(" ".join(parts[::-1]) in document for document in spelled)
        elif label == 1 and order == "next-sentence":
            homes = [{number for number, document in enumerate(spelled) if part in document} for part in parts]
            assert all(homes)
            assert homes[0] != homes[1]
    assert {0, 1} <= seen


def test_a_batch_of_segments_has_masks_types_and_orders(tokenizer_dir, text):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    rows = segment_rows(text, tokenizer, max_length=32, order="next-sentence", seed=0)
    batch = Collator(tokenizer, masking=Masking(tokenizer, chooser=EachToken(tokenizer), seed=0))(
        [rows[i] for i in range(4)]
    )
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids", "labels", "sentence_order_label"}
    assert batch["sentence_order_label"].tolist() == rows["sentence_order_label"][:4]
    assert batch["labels"].shape == batch["token_type_ids"].shape == batch["input_ids"].shape


def test_embeddings_and_heads_come_from_the_teacher():
    """Where shapes agree, as in the release; a LayerNorm is no start for a scale and shift."""
    config = small_config(**STUDENT)
    teacher = randomise(hf_albert_plus.AlbertPlusForPreTraining(small_config(**TEACHER)))
    student, done = initialise(teacher, config, method="embeddings")
    state, theirs = student.state_dict(), teacher.state_dict()
    outside = {name for name in state if "encoder." not in name and "embeddings.layer_norm" not in name}
    assert {"sentence_order.weight", "predictions.dense.weight", "predictions.decoder.bias"} <= outside
    assert all(torch.equal(state[name], theirs[name]) for name in outside)
    assert torch.equal(state["albert_plus.embeddings.layer_norm.weight"], torch.ones(32))
    shapes = {
        name for name in state if name in theirs and theirs[name].shape == state[name].shape and ".weight" in name
    }
    assert not any(torch.equal(state[name], theirs[name]) for name in shapes - outside if "norm" not in name)
    assert done.startswith("embeddings.word_embeddings, ")
    assert done.endswith(
        "of the source, the rest random: intermediate_size differs (48 in the source, 24 in the new model)"
    )
    narrower, done = initialise(teacher, small_config(**{**STUDENT, "embedding_size": 8}), method="embeddings")
    assert narrower.albert_plus.embeddings.word_embeddings.weight.shape == (120, 8)
    assert "word_embeddings" not in done
    assert torch.equal(
        narrower.albert_plus.embeddings.position_embeddings.weight,
        theirs["albert_plus.embeddings.position_embeddings.weight"],
    )


@pytest.mark.slow
def test_a_general_student_keeps_its_heads_and_serves_a_task(
    inverted, teachers, text, data_dir, tokenizer_dir, tmp_path
):
    vocab_size = len(AutoTokenizer.from_pretrained(tokenizer_dir))
    shape = tmp_path / "shape"
    small_config(**STUDENT, vocab_size=vocab_size).save_pretrained(shape)
    record = _distill(
        inverted, tmp_path / "general", student=str(shape), text=text, phases="layer-*,words", general_teacher=inverted
    )
    assert list(record.result["phases"]) == ["layer-1", "layer-2", "layer-3", "words"]
    assert set(record.result["phases"]["words"]["losses"]) == {"masked_words", "soft_words", "sentence_order"}
    assert record.result["phases"]["words"]["terms"] == "0.5·masked_words + 0.5·soft_words + 1·sentence_order"
    assert "embeddings.word_embeddings" in record.result["initialised"]
    student, report = hf_albert_plus.AlbertPlusForPreTraining.from_pretrained(
        tmp_path / "general", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    teacher = hf_albert_plus.AlbertPlusForPreTraining.from_pretrained(inverted)
    near = (student.sentence_order.weight - teacher.sentence_order.weight).abs().max()
    assert 0 < near < 0.05, "it starts as the teacher's, and learns"
    _distill(
        str(teachers / "sst2"),
        tmp_path / "task",
        student=str(tmp_path / "general"),
        phases="task",
        data=str(data_dir),
        task=get_task("sst2"),
    )
    classifier = hf_albert_plus.AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "task")
    assert classifier.config.bottleneck_size == STUDENT["bottleneck_size"]


@pytest.mark.slow
def test_a_tasks_rows_have_no_order(teachers, masked_lm, data_dir, tmp_path):
    record = _distill(
        str(teachers / "mrpc"), tmp_path / "out", student="third", data=str(data_dir), task=get_task("mrpc"), phases="words",
        general_teacher=str(masked_lm),
    )  # fmt: skip
    assert record.result["phases"]["words"]["terms"] == "0.5·masked_words + 0.5·soft_words"


@pytest.mark.slow
def test_a_text_of_one_line_has_no_order(inverted, tokenizer_dir, tmp_path):
    vocab_size = len(AutoTokenizer.from_pretrained(tokenizer_dir))
    small_config(**STUDENT, vocab_size=vocab_size).save_pretrained(tmp_path / "shape")
    path = tmp_path / "text.txt"
    path.write_text("the film is superb\n")
    options = {"student": str(tmp_path / "shape"), "text": path, "phases": "words"}
    with pytest.raises(
        InvalidInput, match="--text must have several lines, for the order of segments, got 1 in .*; leave"
    ):
        _distill(inverted, tmp_path / "out", **options)
    path.write_text("the film is superb\nthe plot is dull\n")
    short = TrainSettings(epochs=1, batch_size=8, max_length=7, precision="fp32")
    with pytest.raises(InvalidInput, match="--max-length must be at least 8 for the order of segments, got 7; leave"):
        _distill(inverted, tmp_path / "out", **options, settings=short)
    assert not (tmp_path / "out.partial").exists()
    record = _distill(inverted, tmp_path / "out", **options, values=(("order", "none"),))
    assert set(record.result["phases"]["words"]["losses"]) == {"masked_words", "soft_words"}
