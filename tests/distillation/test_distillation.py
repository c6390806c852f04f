"""Layer maps, what is captured, how methods compose the losses, cached logits and masks."""

import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import hf_albert_plus
from hf_albert_plus.distillation import losses
from hf_albert_plus.distillation.capture import capture
from hf_albert_plus.distillation.distiller import Distiller, projections_of
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phase_rows import TEACHER_LOGITS, Collator, task_rows, text_rows
from hf_albert_plus.distillation.phases import Layers, layer_map
from hf_albert_plus.distillation.teachers import with_teacher_answers
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.pretraining.masking import EachToken, Masking, smoothed_weights
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

QUICK = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")
INSIDE = frozenset({"hidden_states", "attention"})


# Layer maps


@pytest.mark.parametrize(
    ("chosen", "student", "teacher", "expected"),
    [
        ("uniform", 4, 12, (3, 6, 9, 12)),
        ("uniform", 5, 12, (2, 4, 7, 9, 12)),
        ("skip", 6, 12, (2, 4, 6, 8, 10, 12)),
        ("skip", 5, 12, (2, 4, 6, 8, 10)),
        ("last", 6, 12, (7, 8, 9, 10, 11, 12)),
        ("uniform", 3, 3, (1, 2, 3)),
        ("1,6,2", 3, 6, (1, 6, 2)),
        ("4", 1, 6, (4,)),
    ],
)
def test_layer_maps_worked_by_hand(chosen, student, teacher, expected):
    """TinyBERT's g(m) = 3m; PKD leaves out the last of its six: Skip 2, 4, 6, 8, 10 and Last 7 to 11."""
    assert layer_map(chosen, student_layers=student, teacher_layers=teacher) == expected


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("unifrom", "uniform, skip, last or layers with commas, got 'unifrom'; did you mean 'uniform'"),
        ("last", "at least the student's 7 layers, got 6 layers; name a teacher layer for each"),
        ("1,2", "1 to 6 for each of the student's 7, got 1,2"),
        ("1,2,3,4,5,6,7", "1 to 6 for each"),
        ("1,,2", "1 to 6"),
    ],
)
def test_layer_maps_that_cannot_be_are_refused(chosen, words):
    with pytest.raises(InvalidInput, match=words):
        layer_map(chosen, student_layers=7, teacher_layers=6)


# Capture


FAMILIES = {
    "Bert": {},
    "Roberta": {},
    "Electra": {},
    "Albert": {"embedding_size": 16},
    "DistilBert": {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 48},
    "MobileBert": {"intra_bottleneck_size": 16, "embedding_size": 16},
    "AlbertPlus": {"embedding_size": 16, "attention_sharing": [0, 1, 0, 1]},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_captured_of_a_call_gives_the_models_own_attention(family):
    """Softmax of the captured scores is what the eager model returns as attentions: for layers that share a block too."""
    module = hf_albert_plus if family == "AlbertPlus" else transformers
    config = getattr(module, f"{family}Config")(**{**SMALL, **FAMILIES[family]})
    model = randomise(getattr(module, f"{family}Model")(config))
    inputs = pair_inputs(SMALL["vocab_size"])
    if family in ("Roberta", "DistilBert"):
        del inputs["token_type_ids"]
    seen = capture(model, inputs, needs=INSIDE)
    assert len(seen.queries) == len(seen.hidden_states) - 1 == 4
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True, output_hidden_states=True)
    padding = inputs["attention_mask"][:, None, None] == 0
    for layer in range(4):
        scores = losses.attention_scores(seen.queries[layer], seen.keys[layer])
        ours = scores.masked_fill(padding, -torch.inf).softmax(-1)
        torch.testing.assert_close(ours, expected.attentions[layer], atol=2e-6, rtol=1e-4)
        torch.testing.assert_close(seen.hidden_states[layer], expected.hidden_states[layer], atol=2e-5, rtol=1e-4)


def test_a_shared_block_is_captured_once_a_layer_with_its_gradient():
    model = randomise(hf_albert_plus.AlbertPlusModel(small_config()))
    seen = capture(model, pair_inputs(SMALL["vocab_size"]), needs=INSIDE)
    block = model.encoder.attention[0]
    assert len(model.encoder.attention) == 1
    for layer in range(4):
        again = block.query(seen.hidden_states[layer])
        torch.testing.assert_close(seen.queries[layer].transpose(1, 2).flatten(2), again)
    seen.keys[2].sum().backward()
    assert block.key.weight.grad.abs().sum() > 0


def test_attention_that_cannot_be_captured_is_refused():
    config = transformers.BertConfig(**SMALL, attn_implementation="eager")
    with pytest.raises(InvalidInput, match="got 0 calls of BertModel with 4 layers and attn_implementation='eager'"):
        capture(transformers.BertModel(config), pair_inputs(SMALL["vocab_size"]), needs=INSIDE)


# Methods as compositions


def _pair(head="ForSequenceClassification"):
    """A student with two all-shared layers and a teacher with four of its own, of one width."""
    student = randomise(getattr(hf_albert_plus, f"AlbertPlus{head}")(small_config(num_hidden_layers=2)))
    teacher = randomise(getattr(transformers, f"Bert{head}")(transformers.BertConfig(**SMALL)))
    return student, teacher


def _phase(method, name, **settings):
    phases = METHODS[method].phases(Layers(student=2, teacher=4), settings)
    return next(phase for phase in phases if phase.name == name)


def _batch(labels=True):
    return {**pair_inputs(SMALL["vocab_size"]), **({"labels": torch.tensor([0, 1, 1])} if labels else {})}


@pytest.mark.parametrize("poolings", [("first", "first"), ("mean", "mean"), ("mean", "first")])
def test_patient_distillation_is_the_papers_sum(poolings):
    """PKD, eq. 8: (1 - α)·labels + α·T²·KL + β·patience, for a two-layer student: its first layer follows the second. Each model's
    states are read as its own classifier reads them."""
    student, teacher = _pair()
    student.config.pooling, teacher.config.pooling = poolings
    batch = _batch()
    kept_BS1 = batch["attention_mask"][..., None].float()
    read = {"first": lambda h: h[:, 0], "mean": lambda h: (h * kept_BS1).sum(1) / kept_BS1.sum(1)}
    loss = Distiller(
        student, teacher, _phase("pkd", "task", temperature=5.0, soft_share=0.2, patient_weight=10.0)
    ).eval()(**batch)
    ours = student(**batch, output_hidden_states=True)
    theirs = teacher(**{k: v for k, v in batch.items() if k != "labels"}, output_hidden_states=True)
    states = (ours.hidden_states[1], theirs.hidden_states[2])
    normal = [torch.nn.functional.normalize(read[way](h), dim=-1) for way, h in zip(poolings, states, strict=True)]
    log_p, log_q = ((out.logits / 5).log_softmax(-1) for out in (theirs, ours))
    soft = 25 * (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    expected = 0.8 * ours.loss + 0.2 * soft + 10 * (normal[0] - normal[1]).square().mean()
    torch.testing.assert_close(loss["loss"], expected)


def test_tinybert_sums_layers_and_projects_where_widths_differ():
    student = randomise(hf_albert_plus.AlbertPlusModel(small_config(num_hidden_layers=2, hidden_size=24)))
    _, teacher = _pair("Model")
    batch = _batch(labels=False)
    phase = _phase("tinybert", "intermediate")
    widths = projections_of(phase, student.config, teacher.config)
    assert widths == {"embedding": (24, 32), "hidden": (24, 32)}
    assert projections_of(phase, teacher.config, teacher.config) == {}
    maps = {name: torch.nn.Linear(*each) for name, each in widths.items()}
    distiller = Distiller(student, teacher, phase, maps).eval()
    loss = distiller(**batch)["loss"]
    ours, theirs = (capture(model, batch, needs=INSIDE) for model in (student, teacher))
    mask = batch["attention_mask"]
    expected = losses.embedding_loss(
        ours.hidden_states[0], theirs.hidden_states[0], mask, projection=distiller.projections["embedding"]
    )
    for m, g in ((1, 2), (2, 4)):
        project = distiller.projections["hidden"]
        expected = expected + losses.hidden_state_loss(
            ours.hidden_states[m], theirs.hidden_states[g], mask, projection=project
        )
        scores = (
            losses.attention_scores(seen.queries[layer - 1], seen.keys[layer - 1])
            for seen, layer in ((ours, m), (theirs, g))
        )
        expected = expected + losses.attention_score_loss(*scores, mask)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(parameter.grad is not None for parameter in distiller.projections.parameters())
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_minilm_compares_the_last_layers_alone():
    student, teacher = _pair("Model")
    batch, mask = _batch(labels=False), _batch()["attention_mask"]
    ours, theirs = (capture(model, batch, needs=INSIDE) for model in (student, teacher))

    def pair(seen, letters, layer):
        states = {"q": seen.queries, "k": seen.keys, "v": seen.values}
        return tuple(states[letter][layer] for letter in letters)

    for method, letters, settings, layer in (
        ("minilm", ("qk", "vv"), {}, -1),
        ("minilm-v2", ("qq", "kk", "vv"), {"relation_heads": 8, "teacher_layer": 3}, 2),
    ):  # fmt: skip
        loss = Distiller(student, teacher, _phase(method, "transfer", **settings)).eval()(**batch)["loss"]
        expected = 0.0
        for both in letters:
            pairs = [pair(ours, both, -1), pair(theirs, both, layer)]
            if settings:
                pairs = [tuple(losses.split_heads(states, 8) for states in each) for each in pairs]
            expected = expected + losses.relation_loss(*pairs, mask)
        torch.testing.assert_close(loss, expected)


def test_mobileberts_phases_switch_on_layer_after_layer():
    layers = Layers(student=3, teacher=6)
    phases = METHODS["mobilebert"].phases(layers)
    assert [phase.name for phase in phases] == ["layer-1", "layer-2", "layer-3", "words", "task"]


# `embeddings` compares the texts of a batch with each other.
@pytest.mark.parametrize(
    "method", [name for name, row in METHODS.items() if not (row.towers or row.own_vocabulary or row.vectors)]
)
def test_a_batchs_loss_is_the_mean_of_its_rows_alone(method):
    """So neither padding nor the number of processes changes it: for every phase of every method."""
    for phase in METHODS[method].phases(
        Layers(student=2, teacher=4), {"relation_heads": 8} if method == "minilm-v2" else {}
    ):
        head = (
            "ForPreTraining"
            if phase.asks_order
            else "ForMaskedLM"
            if phase.reads_tokens
            else "ForSequenceClassification"
        )
        student, teacher = _pair(head)
        if phase.trains == "exits":
            student = randomise(
                hf_albert_plus.AlbertPlusForSequenceClassification(small_config(num_hidden_layers=2, exit_layers=[1]))
            )
        distiller = Distiller(student, teacher, phase).eval()
        batch = _batch()
        if phase.reads_tokens:
            batch["labels"] = torch.where(batch["input_ids"] % 3 == 0, batch["input_ids"], -100)
            batch["labels"][batch["attention_mask"] == 0] = -100
        if phase.asks_order:
            batch["sentence_order_label"] = torch.tensor([1, -100, 0])
        alone = []
        for row in range(3):
            real = int(batch["attention_mask"][row].sum())
            alone.append(
                distiller(
                    **{k: v[row : row + 1, :real] if v.dim() == 2 else v[row : row + 1] for k, v in batch.items()}
                )["loss"]
            )
        torch.testing.assert_close(distiller(**batch)["loss"], torch.stack(alone).mean(), atol=1e-5, rtol=1e-4)


def test_exits_alone_are_trained_without_dropout_and_start_no_gradient_elsewhere():
    config = small_config(num_hidden_layers=3, exit_layers=[1, 2], classifier_dropout_prob=0.5)
    student = randomise(hf_albert_plus.AlbertPlusForSequenceClassification(config))
    distiller = Distiller(student, None, _phase("fastbert", "exits")).train()
    first, second = (distiller(**_batch())["loss"] for _ in range(2))
    assert first.item() == second.item()
    first.backward()
    trained = {name for name, parameter in student.named_parameters() if parameter.grad is not None}
    assert trained
    assert all(name.startswith("exits.") for name in trained)


def test_an_exit_reads_what_its_layer_gives_and_no_padding():
    model = randomise(
        hf_albert_plus.AlbertPlusForSequenceClassification(small_config(exit_layers=[1, 3], num_labels=3))
    )
    batch = _batch(labels=False)
    output = model(**batch, output_exits=True)
    assert [tuple(logits.shape) for logits in output.exit_logits] == [(3, 3), (3, 3)]
    assert "exit_logits" not in model(**batch)
    cut = {name: tensor[2:, :7] for name, tensor in batch.items()}
    torch.testing.assert_close(
        model(**cut, output_exits=True).exit_logits[1], output.exit_logits[1][2:], atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(model.exits[1](output.hidden_states[3], batch["attention_mask"]), output.exit_logits[1])


@pytest.mark.parametrize("layers", [[0], [4], [2, 1], [1, 1]])
def test_exit_layers_that_cannot_be_are_refused(layers):
    with pytest.raises(StrictDataclassError, match="exit_layers must be rising layers from 1 to 3"):
        small_config(exit_layers=layers)


@pytest.mark.slow
def test_exits_stay_out_of_a_conversion_and_of_an_export(tmp_path):
    import onnx

    from hf_albert_plus.conversion.models import from_albert_plus
    from tests.support.graphs import exported_graph

    model = hf_albert_plus.AlbertPlusForSequenceClassification(small_config(embedding_size=32, exit_layers=[2]))
    with pytest.raises(InvalidInput, match=r"exit_layers \[2\]"):
        from_albert_plus(model, to="bert")
    exported_graph(tmp_path / "model.onnx", exit_layers=[2])
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert [output.name for output in graph.output] == ["logits"]
    assert not [tensor.name for tensor in graph.initializer if "exit" in tensor.name]


# The teacher's logits


def test_cached_logits_belong_to_their_rows(teachers, data_dir, tmp_path):
    """Each row has the teacher's own answer to it, in any order; and the loss is that of the teacher run beside."""
    teacher = AutoModelForSequenceClassification.from_pretrained(teachers / "sst2").eval()
    tokenizer = AutoTokenizer.from_pretrained(teachers / "sst2")
    rows = task_rows(str(data_dir), get_task("sst2"), tokenizer, max_length=32)
    cached = with_teacher_answers(rows, teacher, rows, tokenizer, directory=tmp_path / "logits", use_bf16=False)
    shuffled = cached.shuffle(seed=3).select(range(20))
    collator = Collator(tokenizer)
    batch = collator(shuffled.to_list())
    known = batch.pop(TEACHER_LOGITS)
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    torch.testing.assert_close(known, teacher(**inputs).logits, atol=1e-5, rtol=1e-4)
    student = randomise(hf_albert_plus.AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer))))
    distiller = Distiller(student, teacher, _phase("kd", "task")).eval()
    torch.testing.assert_close(
        distiller(**batch, **{TEACHER_LOGITS: known})["loss"], distiller(**batch)["loss"], atol=1e-5, rtol=1e-4
    )
    before = (tmp_path / "logits" / "0.safetensors").stat().st_mtime_ns
    with_teacher_answers(rows, teacher, rows, tokenizer, directory=tmp_path / "logits", use_bf16=False)
    assert (tmp_path / "logits" / "0.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("method", "phase", "cached"),
    [("kd", "task", True), ("tinybert", "prediction", True), ("twinbert", "task", True), ("pkd", "task", False),
     ("distilbert", "general", False), ("labels", "task", False), ("embeddings", "vectors", True)],
)  # fmt: skip
def test_logits_are_cached_only_where_the_teacher_sees_the_same_and_nothing_else_is_read(method, phase, cached):
    assert _phase(method, phase).caches_answers == cached


# Masked words


def test_masks_are_what_bert_says_by_count(encoder_dir):
    """15 % of the tokens that are no specials; of them 80 % the mask token, 10 % a random one, 10 % themselves."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    masking = Masking(tokenizer, chooser=EachToken(tokenizer), seed=0)
    generator = torch.Generator().manual_seed(0)
    words = [i for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids]
    masked = replaced = kept = 0
    for _ in range(400):
        picked = torch.randint(len(words), (50,), generator=generator).tolist()
        ids = [tokenizer.cls_token_id, *(words[i] for i in picked), tokenizer.sep_token_id]
        seen, labels = masking(ids)
        assert labels[0] == labels[-1] == -100
        assert all(label in (-100, true) for label, true in zip(labels, ids, strict=True))
        assert all(new == true for new, label, true in zip(seen, labels, ids, strict=True) if label == -100)
        places = [i for i, label in enumerate(labels) if label != -100]
        masked += len(places)
        replaced += sum(seen[i] == tokenizer.mask_token_id for i in places)
        kept += sum(seen[i] == ids[i] for i in places)
    # Four standard deviations of binomial counts.
    assert masked / 20000 == pytest.approx(0.15, abs=4 * (0.15 * 0.85 / 20000) ** 0.5)
    assert replaced / masked == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / masked) ** 0.5 + 0.1 / len(tokenizer))
    assert kept / masked == pytest.approx(0.1, abs=4 * (0.1 * 0.9 / masked) ** 0.5 + 0.1 / len(tokenizer))


def test_a_mask_belongs_to_its_row_and_epoch(encoder_dir):
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    masking, again = (Masking(tokenizer, chooser=EachToken(tokenizer), seed=1) for _ in range(2))
    rows = [list(range(10, 60)), list(range(30, 80))]
    first = [masking(ids) for ids in rows]
    assert first == [again(ids) for ids in reversed(rows)][::-1]
    assert first != [Masking(tokenizer, chooser=EachToken(tokenizer), seed=2)(ids) for ids in rows]
    masking.draws.epoch = 1
    assert first != [masking(ids) for ids in rows]


def test_rare_words_are_masked_more_often(encoder_dir):
    """count^-0.7: a word seen 100 times is masked 25 times less often than one seen once."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    weights = smoothed_weights([[20] * 100, [21]], vocabulary=len(tokenizer), smoothing=0.7)
    assert weights[20] == pytest.approx(100**-0.7)
    assert weights[21] == weights[22] == 1
    masking = Masking(tokenizer, chooser=EachToken(tokenizer, weights=weights), seed=0)
    ids = [20] * 20 + [21] * 20
    counts = torch.zeros(2)
    for epoch in range(600):
        masking.draws.epoch = epoch
        labels = torch.tensor(masking(ids)[1])
        counts += torch.tensor([(labels == 20).sum(), (labels == 21).sum()])
    assert counts.sum() / (600 * 40) == pytest.approx(0.15, abs=0.01)
    assert counts[0] / counts[1] == pytest.approx(100**-0.7, rel=0.25)


def test_text_is_cut_into_blocks_within_documents(text, encoder_dir):
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    rows = text_rows(text, tokenizer, max_length=32)
    documents = text.read_text().strip().split("\n\n")
    whole = [tokenizer(document.replace("\n", " "), add_special_tokens=False)["input_ids"] for document in documents]
    assert [i for ids in whole for i in ids] == [i for ids in rows["input_ids"] for i in ids[1:-1]]
    assert len(rows) == sum(-(-len(ids) // 30) for ids in whole)
    assert {(ids[0], ids[-1]) for ids in rows["input_ids"]} == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}
