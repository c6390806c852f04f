"""Exits: what they compute, when rows leave, batches that shrink against every exit of every row, and thresholds against a search over
all of them."""

import itertools
import math
import shutil

import pytest
import torch

from hf_albert_plus.compression.exits.criteria import (
    Criterion,
    confidence,
    least_sure,
    normalised_entropy,
    run_with_exits,
    taken_exits,
)
from hf_albert_plus.compression.exits.thresholds import SearchRule
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.distillation.losses.exits_by_depth import exits_by_depth_loss
from hf_albert_plus.distillation.methods import get_method
from hf_albert_plus.distillation.settings import StudentSettings
from hf_albert_plus.distillation.students import student_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.files import SCHEME
from hf_albert_plus.tasks.glue import get_task
from tests.support.command_line import invoke
from tests.support.exits import all_exits, batch_of, best_threshold, classifier

T = torch.tensor


def test_exits_on_the_models_own_pooler():
    """By hand from the hidden states: a classifier each, or the model's own at every depth."""
    for head in ("pooled", "shared"):
        model = classifier(exit_head=head)
        inputs = batch_of(model)
        with torch.no_grad():
            output = model(**inputs, output_exits=True, output_hidden_states=True)
            for number, layer in enumerate([1, 2, 3]):
                first = output.hidden_states[layer][:, 0]
                pooled = torch.tanh(model.albert_plus.pooler(first))
                own = model.exits[number].classifier if head == "pooled" else model.classifier
                torch.testing.assert_close(output.exit_logits[number], own(pooled))
        assert len(model.exits) == (3 if head == "pooled" else 0)
    with torch.no_grad():
        same = model.exit(0, model(**inputs, output_hidden_states=True).hidden_states[-1])
        torch.testing.assert_close(same, model(**inputs).logits)


def test_labels_at_every_depth_by_hand():
    """(1·ln 2 + 3·0.105) / 4; and a regression."""
    even, sure = torch.zeros(1, 2), T([[math.log(0.9), math.log(0.1)]])
    expected = (math.log(2) - 3 * math.log(0.9)) / 4
    assert exits_by_depth_loss([even, sure], [1, 3], T([0])).item() == pytest.approx(expected)
    assert exits_by_depth_loss([T([[1.0]]), T([[3.0]])], [1, 2], T([2.0])).item() == pytest.approx(1)
    logits = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: exits_by_depth_loss(list(x), [1, 2], T([0, 1, 2, 0])), logits)
    with pytest.raises(InvalidInput, match="one for each depth, got 1 and 2"):
        exits_by_depth_loss([even], [1, 2], T([0]))


def test_entropy_by_hand():
    logits = T([[0.0, 0.0], [math.log(0.9), math.log(0.1)], [0.0, 100.0]])
    second = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / math.log(2)
    assert normalised_entropy(logits).tolist() == pytest.approx([1, second, 0])


def test_exits_taken_by_hand():
    """Rows that say 0 0 1 1, 1 1 1 1, 0 1 0 1 and are as sure as .9 .6 .99 .5; with two in a row the same, the first leaves at the
    second exit."""
    said = T([[0, 1, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]])
    sure = T([0.9, 0.6, 0.99, 0.5])[:, None].expand(4, 3)
    logits = torch.stack([torch.where(said == 1, 1 - sure, sure), torch.where(said == 1, sure, 1 - sure)], -1).log()
    assert taken_exits(logits, Criterion("patience", 1)).tolist() == [1, 1, 3]
    assert taken_exits(logits, Criterion("patience", 2)).tolist() == [3, 2, 3]
    # Two that agree and two that agree on another class are no three in a row.
    broken = torch.nn.functional.one_hot(T([[0], [0], [1], [1], [0]]), 2).float()
    assert taken_exits(broken, Criterion("patience", 2)).tolist() == [4]
    assert taken_exits(logits, Criterion("confidence", 0.95)).tolist() == [2, 2, 2]
    assert taken_exits(logits, Criterion("confidence", 0.9)).tolist() == [0, 0, 0]
    assert taken_exits(logits, Criterion("entropy", 0.05)).tolist() == [3, 3, 3]
    assert taken_exits(logits, Criterion("entropy", 0.1)).tolist() == [2, 2, 2]
    drift = T([[[1.0]], [[1.05]], [[1.3]], [[1.31]]])
    assert taken_exits(drift, Criterion("patience", 1)).tolist() == [1]
    assert taken_exits(drift, Criterion("patience", 1, tolerance=0.01)).tolist() == [3]


@pytest.mark.parametrize("labels", [(), (0.5, 0.5)])
def test_at_the_threshold_a_row_stays(labels):
    """FastBERT leaves below its speed: even classes are at 1, certain ones at 0, and any row at its own entropy."""
    even, certain = torch.zeros(1, 1, 2), T([[[200.0, -200.0]]])
    last = torch.zeros(1, 1, 2)

    def taken(said, threshold):
        return taken_exits(torch.cat([said, last]), Criterion("entropy", threshold, label_thresholds=labels)).item()

    assert taken(even, 1.0) == 1
    assert taken(certain, 0.0) == 1
    assert taken(certain, 1e-30) == 0
    middle = T([[[0.3, -0.3]]])
    of_two = middle if not labels else T([[[0.0, 0.3]]])
    at = float(torch.distributions.Categorical(logits=of_two[0]).entropy() / math.log(2))
    assert at == pytest.approx(float(normalised_entropy(of_two[0])), abs=1e-7)
    at = float(normalised_entropy(of_two[0]))
    assert taken(middle, at) == 1
    assert taken(middle, math.nextafter(at, 1) + 1e-7) == 0
    assert taken(middle, at - 1e-7) == 1


SHARINGS = {
    "all": {},
    "all, mean of the tokens": {"pooling": "mean"},
    "none": {"attention_sharing": "none", "ffn_sharing": "none"},
    "cycle": {"ffn_sharing": "cycle:2"},
}


@pytest.mark.parametrize("sharing", SHARINGS.values(), ids=SHARINGS)
@pytest.mark.parametrize("head", ["branch", "pooled", "shared"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_batch_that_shrinks_says_what_every_exit_says_of_every_row(sharing, head, attention, monkeypatch):
    model = classifier(exit_head=head, **sharing)
    model.set_attn_implementation(attention)
    inputs = batch_of(model)
    logits_JBC = all_exits(model, inputs)
    layers = T([1, 2, 3, 4])
    entropies = normalised_entropy(logits_JBC[:-1]).flatten().sort().values
    # Between two values: products of fewer rows are summed in another order.
    rules = [Criterion("entropy", float(entropies[place : place + 2].mean())) for place in (7, 17, 28)]
    rules += [
        Criterion("patience", 1),
        Criterion("patience", 2),
        Criterion("entropy", 1.0),
        Criterion("confidence", 1.0),
    ]
    computed, ran = [], set()
    layer = type(model.albert_plus.encoder.layers[0])
    forward = layer.forward

    def counted(self, hidden, *given, **options):
        computed.append(len(hidden))
        return forward(self, hidden, *given, **options)

    monkeypatch.setattr(layer, "forward", counted)
    for rule in rules:
        computed.clear()
        found = run_with_exits(model, rule, **inputs)
        taken = taken_exits(logits_JBC, rule)
        assert torch.equal(found.layers_B, layers[taken])
        torch.testing.assert_close(found.logits_BC, logits_JBC[taken, torch.arange(12)], atol=1e-5, rtol=1e-5)
        # Nothing is computed of who has left.
        assert sum(computed) == int(found.layers_B.sum())
        ran.add(sum(computed))
    assert len(ran) > 3


SEVERAL = {"problem_type": "multi_label_classification", "label_thresholds": [0.3, 0.5, 0.6]}


def test_of_several_labels_the_least_sure_one_decides():
    """Against the entropy and the confidence of each label by itself."""
    logits_JBC = torch.randn(4, 200, 3, generator=torch.Generator().manual_seed(0)) * 4
    p = logits_JBC.double().sigmoid()
    entropies = (-(p * p.log2() + (1 - p) * (1 - p).log2())).amax(-1)
    surest = torch.maximum(p, 1 - p).amin(-1)
    given = p >= T([0.3, 0.5, 0.6])
    same = (given[1:] == given[:-1]).all(-1)
    for kind, threshold, leaves in (
        ("entropy", 0.4, entropies <= 0.4),
        ("confidence", 0.8, surest >= 0.8),
        ("patience", 1, torch.cat([torch.zeros_like(same[:1]), same])),
    ):
        found = taken_exits(logits_JBC, Criterion(kind, threshold, label_thresholds=(0.3, 0.5, 0.6)))
        expected = torch.where(leaves[:-1].any(0), leaves[:-1].long().argmax(0), 3)
        assert torch.equal(found, expected)
        assert len(set(found.tolist())) > 2


@pytest.mark.parametrize("kind", ["entropy", "confidence", "patience"])
def test_several_labels_leave_by_the_thresholds_of_their_config(kind):
    model = classifier(exit_head="pooled", **SEVERAL)
    inputs = batch_of(model)
    logits_JBC = all_exits(model, inputs)
    # In the middle of each label's probabilities, so that the labels of a row change from exit to exit.
    cuts = tuple(logits_JBC.sigmoid().flatten(0, 1).median(dim=0).values.tolist())
    model.config.label_thresholds = list(cuts)
    middle = {
        "entropy": float(normalised_entropy(least_sure(logits_JBC[:-1])).median()),
        "confidence": float(confidence(least_sure(logits_JBC[:-1])).median()),
        "patience": 1,
    }[kind]
    found = run_with_exits(model, Criterion(kind, middle), **inputs)
    taken = taken_exits(logits_JBC, Criterion(kind, middle, label_thresholds=cuts))
    assert torch.equal(found.layers_B, taken + 1)
    assert len(set(taken.tolist())) > 1
    # Never leaving is among the thresholds that are tried.
    calibration = best_threshold(
        logits_JBC, layers=(1, 2, 3, 4), kind=kind, score=lambda _: 50.0, max_drop=1, exit_costs=[0.1] * 3,
        label_thresholds=cuts,
    )  # fmt: skip
    assert calibration.best.criterion.label_thresholds == cuts
    assert calibration.best.cost < 4


def held_out(*, knows=(0.5, 1.5, 2.5, 3.0)):
    """What exits say of 150 rows, their labels and a score: the more an exit knows, the more often it is right."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (150,), generator=generator)
    right = torch.nn.functional.one_hot(labels, 2).double()
    logits = torch.stack([torch.randn(150, 2, generator=generator).double() + k * right for k in knows])
    return logits, lambda logits_BC: 100 * float((logits_BC.argmax(-1) == labels).double().mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["entropy", "confidence", "patience"])
@pytest.mark.parametrize(
    ("max_drop", "exit_cost"), [(0.0, 0.0), (0.0, 0.5), (2.0, 0.0), (2.0, 0.5), (100.0, 0.0), (100.0, 0.1)]
)
def test_calibration_finds_what_a_search_over_everything_does(kind, max_drop, exit_cost):
    logits, score = held_out()
    layers = T([2.0, 4.0, 6.0, 8.0]).double()
    costs = T([0.5, 1.0, 2.0]).double() * exit_cost
    result = best_threshold(
        logits, layers=layers.tolist(), kind=kind, score=score, max_drop=max_drop, exit_costs=costs.tolist()
    )

    def run(kept, criterion):
        """Score, layers, and those with what is paid for every exit looked at."""
        looked_at, kept = list(kept), [*kept, 3]
        taken = taken_exits(logits[kept], criterion)
        paid = [costs[looked_at[: exit_ + 1]].sum().item() for exit_ in taken]
        depths = layers[kept][taken].mean().item()
        return score(logits[kept][taken, torch.arange(150)]), depths, depths + sum(paid) / 150

    # A threshold at what some exit says of some row, never or always: any other does what one of these does.
    measure = {"entropy": normalised_entropy, "confidence": confidence}.get(kind)
    everything = [1.0, 2.0, 3.0, 4.0] if measure is None else [0.0, 1.0, *measure(logits[:-1]).flatten().tolist()]
    least = math.inf
    for kept in itertools.chain.from_iterable(itertools.combinations(range(3), count) for count in (1, 2, 3)):
        for threshold in everything:
            points, _, cost = run(kept, Criterion(kind, threshold))
            if points >= score(logits[-1]) - max_drop - 1e-9:
                least = min(least, cost)
    best = result.best
    # It tries 200 places of those.
    assert least - 1e-9 <= best.cost <= least + 0.12
    assert best.score >= result.full_score - max_drop - 1e-9
    assert (best.score, best.average_layers, best.cost) == pytest.approx(run(result.kept, best.criterion))
    if max_drop == 100 and kind != "patience":
        assert best.average_layers == 2


def test_exits_that_do_not_pay_are_dropped():
    """Of three, one knows as little as a coin, and one less than that before it."""
    logits, score = held_out(knows=(0.0, 2.5, 0.5, 3.0))
    rule = {"layers": (2, 4, 6, 8), "kind": "entropy", "score": score, "max_drop": 0.5}
    assert best_threshold(logits, **rule, exit_costs=(0, 0, 0)).kept == (1,)
    # The dearer a look, the fewer.
    rising, points = held_out(knows=(1.5, 2.0, 2.5, 3.0))
    free, dear = (
        best_threshold(rising, **{**rule, "score": points}, exit_costs=[cost] * 3).kept for cost in (0.0, 2.0)
    )
    assert (free, dear) == ((0, 1, 2), (0, 2))
    assert best_threshold(logits, **rule, exit_costs=(0, 0, 0), keep_exits=True).kept == (0, 1, 2)
    # Exits that are sure and wrong leave no threshold; without them there is one.
    wrong = torch.where(logits[-1].argmax(-1, keepdim=True) == T([0, 1]), -500.0, 500.0).double()
    logits, score = held_out(knows=(0.0, 0.0, 2.9, 3.0))
    for count in (1, 2):
        calibration = best_threshold(
            torch.stack([*[wrong] * count, *logits[count:]]), **{**rule, "score": score}, exit_costs=(0, 0, 0)
        )
        assert not set(calibration.kept) & set(range(count))
        assert calibration.best.average_layers < 8


@pytest.mark.parametrize("kind", ["entropy", "patience"])
def test_where_leaving_saves_nothing_all_exits_stay(kind):
    logits, score = held_out(knows=(0.0, 0.0, 0.0, 3.0))
    calibration = best_threshold(
        logits, layers=(2, 4, 6, 8), kind=kind, score=score, max_drop=0.0, exit_costs=[0.5] * 3
    )
    assert calibration.kept == (0, 1, 2)
    assert calibration.best.cost >= 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("entropy", 1.5), "the threshold of entropy must be from 0 to 1, got 1.5; use 0.3"),
        (("confidence", -1), "the threshold of confidence must be from 0 to 1, got -1; use 0.9"),
        (("patience", 0), "the threshold of patience must be a whole number from 1, got 0; use 2"),
        (("patience", 1.5), "the threshold of patience must be a whole number"),
        (("entropie", 0.5), "--criterion must be one of .*, got 'entropie'; did you mean 'entropy'"),
    ],
)
def test_wrong_criteria(given, message):
    with pytest.raises(InvalidInput, match=message):
        Criterion(*given)


def test_what_cannot_leave_is_told_so():
    model = classifier(exit_layers=None)
    with pytest.raises(InvalidInput, match="a model must have exits to leave by, got none; train some"):
        run_with_exits(model, Criterion("entropy", 0.5), **batch_of(model))
    with pytest.raises(InvalidInput, match="--exit-cost must be at least 0 layers, got -1"):
        SearchRule(layers=(1, 2), kind="entropy", exit_costs=[-1])


@pytest.mark.slow
@pytest.mark.parametrize("head", ["pooled", "shared", "branch"])
def test_exits_are_added_to_a_classifier_that_is_there(head, classifier_dir, data_dir, tmp_path):
    """The encoder and its classifier stay as they are where the exits alone are trained."""
    out = tmp_path / "exits"
    method = ["pabee"] if head == "shared" else ["fastbert", "--phases", "exits"]
    words = ("distill", "--method", *method, "--teacher", classifier_dir, "--student", classifier_dir, "--data", data_dir, "--task",
             "sst2", "--epochs", 0.3, "--max-length", 32, "--precision", "fp32", "--set", f"exit_head={head}", "--out", out)  # fmt: skip
    invoke(*words)
    before = AlbertPlusForSequenceClassification.from_pretrained(classifier_dir).state_dict()
    model = AlbertPlusForSequenceClassification.from_pretrained(out)
    assert model.config.exit_head == head
    assert model.config.exit_layers == [1, 2, 3]
    if head != "shared":
        after = model.state_dict()
        assert all(torch.equal(after[name], weight) for name, weight in before.items())
        # Together with the encoder they go on from where they are, at almost no rate.
        words = [*words[:-1], tmp_path / "joint", "--learning-rate", 1e-9]
        words[words.index("--student") + 1] = out
        invoke("distill", "--method", "pabee", *words[words.index("--teacher") :])
        joint = AlbertPlusForSequenceClassification.from_pretrained(tmp_path / "joint")
        assert (joint.config.exit_head, joint.config.exit_threshold) == (head, None)
        for name, weight in joint.state_dict().items():
            torch.testing.assert_close(weight, after[name], atol=1e-6, rtol=0)
    if head == "shared":
        words = [*words[:2], "fastbert", "--phases", "exits", *words[3:-1], tmp_path / "none"]
        with pytest.raises(InvalidInput, match="needs exits with weights of their own, got exit_head 'shared'; use"):
            invoke(*words)


OTHERS = {
    "kd": ["--method", "kd"],
    "fastbert without its exits": ["--method", "fastbert", "--phases", "task"],
    "pabee": ["--method", "pabee"],
}


VERBS = ["finetune", "sparsify", "prune", "qat", *OTHERS]


@pytest.mark.parametrize(
    ("verb", "fitted"),
    # PABEE trains the exits that are there.
    [*((verb, "few bits") for verb in VERBS), *((verb, "exits") for verb in VERBS if verb != "pabee")],
)
def test_what_was_fitted_to_an_encoder_is_not_kept_on_another(verb, fitted, classifier_dir, data_dir, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(classifier_dir, source)
    if fitted == "exits":
        model = AlbertPlusForSequenceClassification.from_pretrained(source)
        model.config.exit_layers, model.config.exit_threshold = [1], 0.5
        AlbertPlusForSequenceClassification(model.config).save_pretrained(source)
    else:
        (source / SCHEME).write_text("{}")
    given = [verb, "--model", source]
    if verb in OTHERS:
        given = ["distill", "--student", source, "--teacher", classifier_dir, *OTHERS[verb]]
    message = {
        "exits": "must have no exits: .* got .* with exits after layers 1; ",
        "few bits": f"with {SCHEME}; give",
    }[fitted]
    with pytest.raises(InvalidInput, match=message):
        invoke(*given, "--data", data_dir, "--task", "sst2", "--max-length", 32, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_exits_that_are_trained_again_have_no_threshold(classifier_dir, tmp_path):
    config = AlbertPlusConfig.from_pretrained(classifier_dir, exit_layers=[1], exit_threshold=0.5)
    config.save_pretrained(tmp_path)
    again = student_config(
        config, task=get_task("sst2"), settings=StudentSettings(student=str(tmp_path)), method=get_method("fastbert")
    )
    assert (again.exit_layers, again.exit_threshold) == ([1], None)


def test_exits_that_were_never_trained_are_no_weights(classifier_dir, data_dir, tmp_path):
    shutil.copytree(classifier_dir, tmp_path / "source")
    AlbertPlusConfig.from_pretrained(classifier_dir, exit_layers=[1]).save_pretrained(tmp_path / "source")
    with pytest.raises(InvalidInput, match=r"missing \(exits"):
        invoke(
            "calibrate", "--model", tmp_path / "source", "--data", data_dir, "--task", "sst2", "--out", tmp_path / "c"
        )


def test_exits_that_are_wrong_and_sure_are_told_of():
    """A probability of 1 is at least any threshold: whoever says so leaves. No entropy is below 0: there all stay."""
    logits_JBC = torch.tensor([[[0.0, 200.0]] * 4, [[1.0, 0.0]] * 4])

    def search(kind):
        score = {"score": lambda logits: 100 * float((logits.argmax(-1) == 0).float().mean())}
        return best_threshold(logits_JBC, layers=(1, 2), kind=kind, max_drop=0.5, exit_costs=[0], **score)

    with pytest.raises(
        InvalidInput, match="some threshold of confidence must lose at most 0.5 points, got 100.00 lost"
    ):
        search("confidence")
    best = search("entropy").best
    assert (best.criterion.threshold, best.average_layers, best.score) == (0.0, 2, 100)


@pytest.mark.parametrize("masked", [True, False])
def test_a_branch_against_torchs_attention(masked):
    """Its products are done in another order than `nn.MultiheadAttention` does them; outputs and gradients are the same."""
    model = classifier().double()
    branch, width = model.exits[0], model.config.exit_size
    attention = torch.nn.MultiheadAttention(width, num_heads=2, batch_first=True, dtype=torch.float64)
    hidden = torch.randn(12, 9, model.config.hidden_size, dtype=torch.float64, requires_grad=True)
    mask = batch_of(model)["attention_mask"] if masked else None
    weights = torch.cat([layer.weight for layer in (branch.query, branch.key, branch.value)])
    biases = torch.cat([branch.query.bias, torch.zeros(width, dtype=torch.float64), branch.value.bias])
    own = {
        "in_proj_weight": weights,
        "in_proj_bias": biases,
        "out_proj.weight": branch.output.weight,
        "out_proj.bias": branch.output.bias,
    }
    narrow = torch.tanh(branch.narrow(hidden))
    padding = None if mask is None else mask == 0
    first, _ = torch.func.functional_call(
        attention, own, (narrow[:, :1], narrow, narrow), {"key_padding_mask": padding}
    )
    expected = branch.classifier(torch.tanh(branch.dense(first[:, 0])))
    found = branch(hidden, mask)
    torch.testing.assert_close(found, expected)
    given = [hidden, *branch.parameters()]
    for mine, theirs in zip(
        *(torch.autograd.grad(said.square().sum(), given) for said in (found, expected)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)
