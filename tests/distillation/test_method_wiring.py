"""The loss of every phase of every method, at the defaults, against the paper's sum: which layer follows which, which tokens count, at which
temperature and weight. What the models computed is read off row by row, and the formulas stand in `tests.support.by_hand`."""

from dataclasses import replace

import pytest
import torch
import transformers

import hf_albert_plus
from hf_albert_plus.distillation.distiller import Distiller, projections_of
from hf_albert_plus.distillation.dual_training.dual_teacher import DualDistiller
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phase_rows import TEACHER_LOGITS, TEACHER_VECTORS
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.engines.pooled_encoder import SentenceEncoder
from tests.support.by_hand import (
    both,
    check_sum,
    cross_entropy,
    divergence,
    labels_of,
    masked_of,
    masked_words_of,
    mean,
    relations,
    soft_of,
    soft_targets,
    softmax,
    squared,
    surprise,
    through,
    watch,
)
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

# Three layers of seven: no two maps are alike. uniform is 7m/3 rounded down, skip every second layer, last the last three.
LAYERS = Layers(student=3, teacher=7)
UNIFORM, SKIP, LAST = (2, 4, 7), (2, 4, 6), (5, 6, 7)
# A student as wide as its teacher, and a narrower one, whose states a learned map brings to the teacher's width.
each_width = pytest.mark.parametrize("width", [32, 24])
CLASSIFIER, WORDS, ENCODER = "ForSequenceClassification", "ForMaskedLM", "Model"


def _student(head=CLASSIFIER, **fields):
    """The first and the third layer share their attention."""
    shape = {"num_hidden_layers": 3, "attention_sharing": [0, 1, 0], "num_labels": 3, **fields}
    return randomise(getattr(hf_albert_plus, f"AlbertPlus{head}")(small_config(**shape)))


def _teacher(head=CLASSIFIER, **fields):
    config = transformers.BertConfig(**{**SMALL, "num_hidden_layers": 7, "num_labels": 3, **fields})
    return randomise(getattr(transformers, f"Bert{head}")(config))


def _batch():
    return {**pair_inputs(SMALL["vocab_size"]), "labels": torch.tensor([2, 0, 1])}


def _words():
    """A batch of which a part of the real tokens is masked."""
    batch = _batch()
    real, masked = batch["attention_mask"] == 1, batch["input_ids"] % 3 == 0
    batch["labels"] = torch.where(real & masked, batch["input_ids"], -100)
    batch["input_ids"] = torch.where(real & masked, 4, batch["input_ids"])
    counts = (batch["labels"] != -100).sum(1)
    assert (counts > 0).all()
    assert (counts < real.sum(1)).all()
    assert len(set(counts.tolist())) > 1
    return batch


def _phase(method, name, **settings):
    (phase,) = [phase for phase in METHODS[method].phases(LAYERS, settings) if phase.name == name]
    return phase


def _distiller(method, name, student, teacher, **settings):
    """What trains a phase, with random maps where widths differ."""
    phase = _phase(method, name, **settings)
    torch.manual_seed(1)
    widths = projections_of(phase, student.config, None if teacher is None else teacher.config)
    maps = {key: torch.nn.Linear(*each) for key, each in widths.items()}
    return Distiller(student, teacher, phase, maps).eval()


def _maps(distiller):
    """What brings embeddings, and what brings hidden states, to the teacher's width."""
    maps = dict(distiller.projections.items())
    return through(maps.get("embedding")), through(maps.get("hidden"))


def _loss(distiller, batch):
    with torch.no_grad():
        return distiller(**batch)["loss"]


def _check_labels_alone(method):
    """A phase that learns the labels and asks no teacher."""
    student, batch = _student(), _batch()
    distiller = _distiller(method, "task", student, None)
    assert distiller.phase.of_teacher == frozenset()
    check_sum(_loss(distiller, batch), (1, labels_of(student, batch)))


def _check_prediction(method, *, soft, temperature, chosen=None):
    """A phase of soft targets and labels, at the method's defaults or at chosen settings."""
    student, teacher, batch = _student(), _teacher(), _batch()
    terms = [(soft, soft_of(student, teacher, batch, temperature)), (1 - soft, labels_of(student, batch))]
    check_sum(_loss(_distiller(method, "task", student, teacher, **(chosen or {})), batch), *terms)


def test_what_is_watched_is_what_the_models_say():
    """Softmax of the noted scores is the attention that the model gives, in the order of its layers."""
    for model in (_student(), _teacher()):
        for row in watch(model, _batch()):
            assert len(row.queries) == len(row.hidden) - 1 == model.config.num_hidden_layers
            for layer, attention in enumerate(row.attention, start=1):
                torch.testing.assert_close(softmax(row.scores(layer)), attention)


def test_labels():
    _check_labels_alone("labels")


def test_kd():
    """Hinton et al.: 0.7·T²·KL + 0.3·labels, T = 2."""
    _check_prediction("kd", soft=0.7, temperature=2.0)
    _check_prediction("kd", soft=0.2, temperature=5.0, chosen={"soft_share": 0.2, "temperature": 5.0})


@each_width
def test_kd_hidden(width):
    """The sum of kd, and a mean over the embeddings and the layers: each of the four weighs a quarter."""
    student, teacher, batch = _student(hidden_size=width), _teacher(), _batch()
    distiller = _distiller("kd-hidden", "task", student, teacher)
    embedding, hidden = _maps(distiller)
    inside = [
        squared(embedding(a.hidden[0]), b.hidden[0])
        + sum(squared(hidden(a.hidden[m]), b.hidden[g]) for m, g in enumerate(UNIFORM, start=1))
        for a, b in both(student, teacher, batch)
    ]
    soft, hard = soft_of(student, teacher, batch, 2.0), labels_of(student, batch)
    check_sum(_loss(distiller, batch), (0.7, soft), (0.3, hard), (1 / 4, mean(inside)))


TAGS = "ForTokenClassification"


def _tagged():
    """A batch of which a part of the real tokens has a tag; one is of a word whose tag nobody knows."""
    batch = _batch()
    real, first = batch["attention_mask"] == 1, batch["input_ids"] % 2 == 0
    batch["labels"] = torch.where(real & first, batch["input_ids"] % 3, -100)
    row, place = (batch["labels"] >= 0).nonzero()[-1].tolist()
    batch["labels"][row, place] = -1
    counts = (batch["labels"] != -100).sum(1)
    assert (counts > 1).all()
    assert (counts < real.sum(1)).all()
    batch["labelled"] = torch.ones(len(counts), dtype=torch.bool)
    return batch


@each_width
def test_states_of_a_tagger_count_at_tokens_that_have_a_tag(width):
    """The sums of kd-hidden and of TinyBERT for a tagger: states and embeddings of the first pieces of words alone, whether their tags are
    known or not, and attention of all real tokens, which lies between any two."""
    student, teacher, batch = _student(TAGS, hidden_size=width), _teacher(TAGS), _tagged()
    rows = [
        (a, b, (labels != -100).nonzero()[:, 0], labels)
        for (a, b), labels in zip(both(student, teacher, batch), batch["labels"], strict=True)
    ]

    def inside(distiller):
        embedding, hidden = _maps(distiller)
        return mean([
            squared(embedding(a.hidden[0])[at], b.hidden[0][at])
            + sum(squared(hidden(a.hidden[m])[at], b.hidden[g][at]) for m, g in enumerate(UNIFORM, start=1))
            for a, b, at, _ in rows
        ])  # fmt: skip

    soft = torch.cat([soft_targets(b.logits[at], a.logits[at], 2.0) for a, b, at, _ in rows]).mean()
    hard = mean(
        [surprise(a.logits[place], labels[place]) for a, _, at, labels in rows for place in at if labels[place] >= 0]
    )
    kd = _distiller("kd-hidden", "task", student, teacher)
    check_sum(_loss(kd, dict(batch)), (0.7, soft), (0.3, hard), (1 / 4, inside(kd)))
    tinybert = _distiller("tinybert", "intermediate", student, teacher)
    attention = mean([
        sum(squared(a.scores(m), b.scores(g)) for m, g in enumerate(UNIFORM, start=1)) for a, b, _, _ in rows
    ])  # fmt: skip
    check_sum(_loss(tinybert, dict(batch)), (1, inside(tinybert)), (1, attention))


@each_width
def test_distilbert(width):
    """Sanh et al.: 5·T²·KL of the words at all real tokens, T = 2, + 2·masked words + 1·(1 - cosine) of the last states."""
    student, teacher, batch = _student(WORDS, hidden_size=width), _teacher(WORDS), _words()
    distiller = _distiller("distilbert", "general", student, teacher)
    _, hidden = _maps(distiller)
    soft, cosine = [], []
    for a, b in both(student, teacher, batch):
        soft.append(soft_targets(b.logits, a.logits, 2.0).mean())
        ours, theirs = hidden(a.hidden[3]), b.hidden[7]
        lengths = (ours**2).sum(-1).sqrt() * (theirs**2).sum(-1).sqrt()
        cosine.append((1 - (ours * theirs).sum(-1) / lengths).mean())
    hard = masked_words_of(student, batch)
    check_sum(_loss(distiller, batch), (5, mean(soft)), (2, hard), (1, mean(cosine)))
    _check_prediction("distilbert", soft=0.5, temperature=2.0)


@each_width
@pytest.mark.parametrize("phase", ["general", "intermediate"])
def test_tinybert_inside(phase, width):
    """Jiao et al., eq. 7 to 9 and 11: the embeddings, and for each layer m of the student its states and its attention before the
    softmax against those of the layer g(m)."""
    student, teacher, batch = _student(hidden_size=width), _teacher(ENCODER), _batch()
    del batch["labels"]
    distiller = _distiller("tinybert", phase, student, teacher)
    embedding, hidden = _maps(distiller)
    rows = both(student, teacher, batch)
    pairs = list(enumerate(UNIFORM, start=1))
    check_sum(
        _loss(distiller, batch),
        (1, mean([squared(embedding(a.hidden[0]), b.hidden[0]) for a, b in rows])),
        (1, mean([sum(squared(hidden(a.hidden[m]), b.hidden[g]) for m, g in pairs) for a, b in rows])),
        (1, mean([sum(squared(a.scores(m), b.scores(g)) for m, g in pairs) for a, b in rows])),
    )


def test_tinybert_prediction():
    """Jiao et al., eq. 10: the cross-entropy with the teacher's classes at t = 1, and no labels."""
    student, teacher, batch = _student(), _teacher(), _batch()
    rows = both(student, teacher, batch)
    expected = mean([cross_entropy(softmax(b.logits), softmax(a.logits)) for a, b in rows])
    check_sum(_loss(_distiller("tinybert", "prediction", student, teacher), batch), (1, expected))


@each_width
@pytest.mark.parametrize(("chosen", "layers"), [("skip", SKIP), ("last", LAST)])
def test_pkd(chosen, layers, width):
    """Sun et al., eq. 8: 0.3·labels + 0.7·T²·KL + 500·(first tokens of all layers but the last, each of length 1), T = 10."""
    student, teacher, batch = _student(hidden_size=width), _teacher(), _batch()
    distiller = _distiller("pkd", "task", student, teacher, layer_map=chosen)
    _, hidden = _maps(distiller)
    patience = []
    for a, b in both(student, teacher, batch):
        for m, g in enumerate(layers[:-1], start=1):
            states = hidden(a.hidden[m][0]), b.hidden[g][0]
            patience.append(squared(*(state / (state**2).sum().sqrt() for state in states)))
    soft, hard = soft_of(student, teacher, batch, 10.0), labels_of(student, batch)
    check_sum(_loss(distiller, batch), (0.7, soft), (0.3, hard), (500, mean(patience)))
    assert _phase("pkd", "task").layer_map == "skip"


def _attention_and_values(student, teacher, batch):
    """Wang et al. 2020, eq. 3 to 5: attention and the relation of the values, of the last layers alone."""
    attention, values = [], []
    for a, b in both(student, teacher, batch):
        attention.append(divergence(b.attention[6], a.attention[2]).mean())
        ours, theirs = (softmax(relations(states, states, heads=4)) for states in (a.values[2], b.values[6]))
        values.append(divergence(theirs, ours).mean())
    return (1, mean(attention)), (1, mean(values))


def test_minilm():
    student, teacher, batch = _student(hidden_size=24), _teacher(ENCODER), _batch()
    expected = _attention_and_values(student, teacher, batch)
    del batch["labels"]
    check_sum(_loss(_distiller("minilm", "transfer", student, teacher), batch), *expected)
    _check_labels_alone("minilm")


def test_relations_kd():
    """MiniLM's relations to the fine-tuned teacher, whatever the rows' labels are, then Hinton's sum of soft targets and labels at T = 2."""
    student, teacher, batch = _student(hidden_size=24), _teacher(), _batch()
    expected = _attention_and_values(student, teacher, batch)
    check_sum(_loss(_distiller("relations-kd", "relations", student, teacher), batch), *expected)
    soft, hard = soft_of(student, teacher, batch, 2.0), labels_of(student, batch)
    check_sum(_loss(_distiller("relations-kd", "task", student, teacher), batch), (0.7, soft), (0.3, hard))


@pytest.mark.parametrize(("settings", "layer"), [({}, 7), ({"teacher_layer": 4}, 4)])
def test_minilm_v2(settings, layer):
    """Wang et al. 2021, eq. 2: relations among queries, among keys and among values over 48 heads split anew, of the student's last and
    the teacher's last or chosen layer."""
    student, teacher, batch = _student(hidden_size=48), _teacher(ENCODER, hidden_size=96), _batch()
    del batch["labels"]
    terms = []
    for name in ("queries", "keys", "values"):
        rows = []
        for a, b in both(student, teacher, batch):
            states = getattr(a, name)[2], getattr(b, name)[layer - 1]
            ours, theirs = (softmax(relations(each, each, heads=48)) for each in states)
            rows.append(divergence(theirs, ours).mean())
        terms.append((1, mean(rows)))
    check_sum(_loss(_distiller("minilm-v2", "transfer", student, teacher, **settings), batch), *terms)
    _check_labels_alone("minilm-v2")


def test_well_read():
    """Turc et al.: masked words without a teacher, then soft labels alone at T = 1, then the labels."""
    student, batch = _student(WORDS), _words()
    distiller = _distiller("well-read", "pretrain", student, None)
    assert distiller.phase.of_teacher == frozenset()
    check_sum(_loss(distiller, batch), (1, masked_words_of(student, batch)))
    student, teacher, batch = _student(), _teacher(), _batch()
    found = _loss(_distiller("well-read", "distil", student, teacher), batch)
    check_sum(found, (1, soft_of(student, teacher, batch, 1.0)))
    _check_labels_alone("well-read")


@each_width
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_mobilebert_layers(depth, shared, width):
    """Sun et al. 2020, eq. 2 and 3, in the turn of a layer, as the release weighs them by a third with three layers: (100·normalised states
    + 5000·means + 5·variances + attention) / 3. Where layers share blocks, those below are compared too."""
    student, teacher, batch = _student(hidden_size=width), _teacher(ENCODER), _batch()
    del batch["labels"]
    distiller = _distiller("mobilebert", f"layer-{depth}", student, teacher, lower_losses="on" if shared else "off")
    _, hidden = _maps(distiller)
    maps, means, variances, attention = [], [], [], []
    for a, b in both(student, teacher, batch):
        sums = torch.zeros(4)
        for m, g in list(enumerate(UNIFORM, start=1))[0 if shared else depth - 1 : depth]:
            ours, theirs = hidden(a.hidden[m]), b.hidden[g]
            centres = [states.mean(-1, keepdim=True) for states in (ours, theirs)]
            spreads = [((x - c) ** 2).mean(-1, keepdim=True) for x, c in zip((ours, theirs), centres, strict=True)]
            normal = [(x - c) / v.sqrt() for x, c, v in zip((ours, theirs), centres, spreads, strict=True)]
            sums += torch.stack([
                squared(*normal), squared(*centres), (spreads[0] - spreads[1]).abs().mean(),
                cross_entropy(b.attention[g - 1], a.attention[m - 1]).mean(),
            ])  # fmt: skip
        for values, value in zip((maps, means, variances, attention), sums, strict=True):
            values.append(value)
    terms = ((100 / 3, mean(maps)), (5000 / 3, mean(means)), (5 / 3, mean(variances)), (1 / 3, mean(attention)))
    check_sum(_loss(distiller, batch), *terms)


def test_mobilebert_layers_that_share_blocks_keep_what_is_below():
    (phase,) = [
        each for each in METHODS["mobilebert"].phases(replace(LAYERS, shared=True), {}) if each.name == "layer-2"
    ]
    assert {term.of_layers for term in phase.terms} == {(1, 2)}
    assert {term.of_layers for term in _phase("mobilebert", "layer-2").terms} == {(2,)}


def test_mobilebert_words():
    """Sun et al. 2020: half the masked words, half the teacher's distribution over them, at the masked tokens alone, and whether the second
    segment follows; then the labels."""
    student, teacher, batch = _student("ForPreTraining"), _teacher(WORDS), _words()
    batch["sentence_order_label"] = torch.tensor([1, 0, 1])
    pairs = both(student, teacher, batch)
    rows = zip(pairs, masked_of(batch), strict=True)
    soft = [mean([soft_targets(b.logits[n], a.logits[n], 1.0) for n, _ in masked]) for (a, b), masked in rows]
    order = [surprise(a.order, label) for (a, _), label in zip(pairs, batch["sentence_order_label"], strict=True)]
    found = _loss(_distiller("mobilebert", "words", student, teacher), batch)
    check_sum(found, (0.5, masked_words_of(student, batch)), (0.5, mean(soft)), (1, mean(order)))
    _check_labels_alone("mobilebert")


def test_twinbert():
    """Lu et al.: T²·binary cross-entropy of a pair's logit with the cross-encoder's second class, both at T = 2."""
    student = _student("TwinModel")
    sides = {"query": pair_inputs(120, length=7), "document": pair_inputs(120, length=11)}
    batch = {f"{side}_{name}": tensor for side, inputs in sides.items() for name, tensor in inputs.items()}
    teacher_B2 = torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.2]])
    with torch.no_grad():
        logits = student(**batch).logits
    rows = []
    for logit, (wrong, right) in zip(logits, teacher_B2, strict=True):
        p = 1 / (1 + ((wrong - right) / 2).exp())
        q = 1 / (1 + (-logit / 2).exp())
        rows.append(-4 * (p * q.log() + (1 - p) * (1 - q).log()))
    found = _loss(_distiller("twinbert", "task", student, None), {**batch, TEACHER_LOGITS: teacher_B2})
    check_sum(found, (1, mean(rows)))


def test_fastbert():
    """Liu et al. 2020: the labels; then the sum over the exits of KL(last layer ‖ exit), the direction of the released code."""
    _check_labels_alone("fastbert")
    student, batch = _student(exit_layers=[1, 2], exit_head="branch"), _batch()
    rows = [
        sum(divergence(softmax(row.logits), softmax(branch(row.hidden[layer][None], None)[0]))
            for branch, layer in zip(student.exits, (1, 2), strict=True))
        for row in watch(student, batch)
    ]  # fmt: skip
    distiller = _distiller("fastbert", "exits", student, None)
    check_sum(_loss(distiller, batch), (1, mean(rows)))


def test_pabee():
    """Zhou et al., eq. 5: (1·L₁ + 3·L₃ + 4·L₄) / 8 with exits after the first and the third of four layers."""
    fields = {"num_hidden_layers": 4, "attention_sharing": [0, 1, 0, 1]}
    student, batch = _student(exit_layers=[1, 3], exit_head="pooled", **fields), _batch()
    terms = []
    for depth in (1, 3, 4):
        rows = []
        for row, label in zip(watch(student, batch), batch["labels"], strict=True):
            logits = {1: row.exits[0], 3: row.exits[1], 4: row.logits}[depth]
            rows.append(surprise(logits, label))
        terms.append((depth / 8, mean(rows)))
    check_sum(_loss(_distiller("pabee", "task", student, None), batch), *terms)


def _mixed_words_of(dual, batch):
    """The teacher's masked pieces: each is read and predicted by the vocabulary that cut it."""
    bert, head = dual.model.bert, dual.model.cls.predictions
    tables = bert.embeddings.word_embeddings.weight, dual.other_embeddings.weight
    biases = head.bias, dual.other_bias
    rows = []
    for ids, real, labels, by_student in zip(
        *(batch[f"mixed_{name}"] for name in ("input_ids", "attention_mask", "labels", "by_student")), strict=True
    ):
        places = range(int(real.sum()))
        read = torch.stack([tables[int(by_student[place])][ids[place]] for place in places])
        written = head.transform(bert(inputs_embeds=read[None]).last_hidden_state[0])
        pieces = []
        for place in places:
            if labels[place] >= 0:
                which = int(by_student[place])
                pieces.append(surprise(tables[which] @ written[place] + biases[which], labels[place]))
        rows.append(mean(pieces))
    return mean(rows)


def test_extreme():
    """Zhao et al., section 3: the words of the teacher in both vocabularies, the student's words, and the matrices of paired layers, all
    up by one U and V and all down by them."""
    narrow = {"vocab_size": 50, "hidden_size": 16, "embedding_size": 8, "intermediate_size": 32}
    student, teacher = _student(WORDS, **narrow), _teacher(WORDS, intermediate_size=64)
    # A layer's matrices are as large as its number says: the error of none is near that of another.
    with torch.no_grad():
        for number, layer in enumerate(teacher.bert.encoder.layer, start=1):
            for weight in (each for each in layer.parameters() if each.dim() == 2):
                weight.mul_(number)
    distiller = DualDistiller(student, teacher, _phase("extreme", "dual")).eval()
    randomise(distiller.dual_teacher)
    own, mixed = _words(), _words()
    own["input_ids"], own["labels"] = own["input_ids"] % 50, torch.where(own["labels"] < 0, -100, own["labels"] % 50)
    # Every second piece is of the student's vocabulary, which has 50 of them.
    mixed["by_student"] = torch.arange(11).expand(3, 11) % 2 == 1
    for name in ("input_ids", "labels"):
        in_either = torch.where(mixed["by_student"], mixed[name] % 50, mixed[name])
        mixed[name] = torch.where(mixed[name] < 0, -100, in_either)
    del own["token_type_ids"], mixed["token_type_ids"]
    batch = {**own, **{f"mixed_{name}": tensor for name, tensor in mixed.items()}}
    up, down = [], []
    with torch.no_grad():
        words = _mixed_words_of(distiller.dual_teacher, batch)
        for block, layer in zip((0, 1, 0), UNIFORM, strict=True):
            ours, ffn = student.albert_plus.encoder.attention[block], student.albert_plus.encoder.ffn[0]
            theirs = teacher.bert.encoder.layer[layer - 1]
            pairs = [
                *((getattr(ours, name), getattr(theirs.attention.self, name)) for name in ("query", "key", "value")),
                (ours.output, theirs.attention.output.dense),
            ]
            squares = [(a.weight, b.weight) for a, b in pairs]
            squares += zip(ffn.intermediate.weight.split(16), theirs.intermediate.dense.weight.split(32), strict=True)
            squares += zip(ffn.output.weight.split(16, 1), theirs.output.dense.weight.split(32, 1), strict=True)
            for a, b in squares:
                up.append(squared(distiller.up @ a @ distiller.down, b))
                down.append(squared(distiller.down @ b @ distiller.up, a))
    assert len(up) == 3 * 8
    own_words = masked_words_of(student, own)
    check_sum(_loss(distiller, batch), (1, words), (1, own_words), (1, mean(up)), (1, mean(down)))
    _check_labels_alone("extreme")


@each_width
@pytest.mark.parametrize("prefixes", ["", "8,16"])
@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False)])
def test_embeddings(width, prefixes, pooling, normalize):
    """Reimers and Gurevych: the squared error of the vectors; 1 - cosine of the same; and the squared error of the cosines of the texts to
    each other, of the student's own vectors and of their first numbers, to those of the teacher's whole vectors."""
    student, teacher, batch = _student(ENCODER, hidden_size=width, pooler="none"), _teacher(ENCODER), _batch()
    del batch["labels"]
    settings = {
        "squared_error_weight": 0.5,
        "cosine_weight": 2.0,
        "similarity_weight": 3.0,
        "matryoshka_dims": prefixes,
    }
    models = [SentenceEncoder(model, pooling=pooling, normalize=normalize) for model in (student, teacher)]
    distiller = _distiller("embeddings", "vectors", *models, **settings)
    assert set(distiller.projections) == ({"vectors"} if width != 32 or prefixes else set())

    def vector(row):
        read = row.hidden[-1].mean(0) if pooling == "mean" else row.hidden[-1][0]
        return read / read.square().sum().sqrt() if normalize else read

    def cosine(a, b):
        return (a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()

    pairs = [tuple(map(vector, row)) for row in both(student, teacher, batch)]
    mapped = through(dict(distiller.projections.items()).get("vectors"))
    errors = [(mapped(a) - b).square().sum() for a, b in pairs]
    angles = [1 - cosine(mapped(a), b) for a, b in pairs]
    kept = [width, *map(int, filter(None, prefixes.split(",")))]
    near = [
        mean(
            [
                (cosine(pairs[i][0][:size], pairs[j][0][:size]) - cosine(pairs[i][1], pairs[j][1])) ** 2
                for i in range(3)
                for j in range(3)
                if i != j
            ]
        )
        for size in kept
    ]
    expected = (0.5, mean(errors)), (2, mean(angles)), (3, sum(near))
    check_sum(_loss(distiller, dict(batch)), *expected)
    given = {TEACHER_VECTORS: torch.stack([b for _, b in pairs])}
    answered = _distiller("embeddings", "vectors", *models, **settings)
    check_sum(_loss(answered, {**batch, **given}), *expected)


def test_every_method_stands_here():
    names = {method.replace("-", "_") for method in METHODS}
    tests = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    assert names == {max(filter(test.startswith, names), key=len, default=test) for test in tests} & names
