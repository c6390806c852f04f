"""Heads: losses by hand, and gradients that do not depend on how a batch is cut."""

import pytest
import torch
from torch import nn
from transformers import AutoModelForPreTraining, Trainer, TrainerCallback, TrainingArguments

import hf_albert_plus as plus
from hf_albert_plus import modeling_albert_plus as modeling
from hf_albert_plus.pooling_albert_plus import read_sequences
from hf_albert_plus.training.loop import AccumulatingTrainer
from tests.support.small_models import pair_inputs, randomise, small_config

SHAPES = {
    "shared": {},
    "attention only": {"ffn_sharing": "none"},
    "bottleneck": {"norm_type": "no_norm", "bottleneck_size": 16, "num_feedforward_networks": 2, "pooler": "none"},
}


def _negative_log_likelihood(logits, labels):
    counted = labels != -100
    return -torch.log_softmax(logits, -1)[counted].gather(1, labels[counted][:, None]).mean()


def _masked_labels(batch=3, length=11):
    labels = torch.full((batch, length), -100)
    labels[0, 1:4], labels[1, 2], labels[2, 5:9] = 7, 30, 11
    return labels


@pytest.mark.parametrize("shape", SHAPES)
def test_pretraining_adds_both_objectives(shape):
    model = randomise(plus.AlbertPlusForPreTraining(small_config(**SHAPES[shape])))
    labels, order = _masked_labels(), torch.tensor([0, 1, 1])
    with torch.no_grad():
        output = model(**pair_inputs(120), labels=labels, sentence_order_label=order)
        words = model(**pair_inputs(120), labels=labels).loss
        sentences = model(**pair_inputs(120), sentence_order_label=order).loss
    assert output.prediction_logits.shape == (3, 11, 120)
    assert output.sop_logits.shape == (3, 2)
    torch.testing.assert_close(words, _negative_log_likelihood(output.prediction_logits, labels))
    torch.testing.assert_close(sentences, _negative_log_likelihood(output.sop_logits, order))
    torch.testing.assert_close(output.loss, words + sentences)


def test_sentence_order_has_two_ways_and_no_dropout():
    """Unlike transformers' ALBERT, whose classifier drops out and follows num_labels."""
    model = plus.AlbertPlusForPreTraining(small_config(num_labels=5, classifier_dropout_prob=0.9)).train()
    one, other = (model(**pair_inputs(120)).sop_logits for _ in range(2))
    assert one.shape == (3, 2)
    assert torch.equal(one, other)
    assert isinstance(AutoModelForPreTraining.from_config(small_config()), plus.AlbertPlusForPreTraining)


@pytest.mark.parametrize("shape", SHAPES)
def test_masked_lm(shape):
    model = randomise(plus.AlbertPlusForMaskedLM(small_config(**SHAPES[shape])))
    with torch.no_grad():
        output = model(**pair_inputs(120), labels=_masked_labels())
    torch.testing.assert_close(output.loss, _negative_log_likelihood(output.logits, _masked_labels()))


@pytest.mark.parametrize("shape", SHAPES)
def test_token_classification(shape):
    model = randomise(plus.AlbertPlusForTokenClassification(small_config(num_labels=40, **SHAPES[shape])))
    with torch.no_grad():
        output = model(**pair_inputs(120), labels=_masked_labels())
    assert output.logits.shape == (3, 11, 40)
    torch.testing.assert_close(output.loss, _negative_log_likelihood(output.logits, _masked_labels()))


@pytest.mark.parametrize("shape", SHAPES)
def test_question_answering(shape):
    model = randomise(plus.AlbertPlusForQuestionAnswering(small_config(**SHAPES[shape])))
    start, end = torch.tensor([1, 3, 99]), torch.tensor([2, 4, 99])  # the last answer was cut off: it does not count
    with torch.no_grad():
        output = model(**pair_inputs(120), start_positions=start, end_positions=end)
    expected = [
        _negative_log_likelihood(logits[:2], positions[:2])
        for logits, positions in ((output.start_logits, start), (output.end_logits, end))
    ]
    torch.testing.assert_close(output.loss, sum(expected) / 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_multiple_choice_scores_each_choice_by_itself(shape):
    model = randomise(plus.AlbertPlusForMultipleChoice(small_config(**SHAPES[shape])))
    choices = [pair_inputs(120, length=11), pair_inputs(120, length=11)]
    choices[1]["input_ids"] = choices[1]["input_ids"].flip(0)
    inputs = {name: torch.stack([choice[name] for choice in choices], 1) for name in choices[0]}
    labels = torch.tensor([0, 1, 1])
    with torch.no_grad():
        output = model(**inputs, labels=labels)
        for number, choice in enumerate(choices):
            score = model.classifier(model.albert_plus(**choice).pooler_output)[:, 0]
            torch.testing.assert_close(output.logits[:, number], score, atol=1e-6, rtol=0)
        embeds = model.get_input_embeddings()(inputs.pop("input_ids"))
        torch.testing.assert_close(model(inputs_embeds=embeds, **inputs).logits, output.logits)
    torch.testing.assert_close(output.loss, _negative_log_likelihood(output.logits, labels))


def test_multiple_choice_says_what_it_reads():
    model = plus.AlbertPlusForMultipleChoice(small_config())
    with pytest.raises(ValueError, match=r"\[B, C, S\].*got \(3, 11\)"):
        model(**pair_inputs(120))
    with pytest.raises(ValueError, match="got None"):
        model()


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"num_labels": 2}, torch.tensor([0, 1, 1])),
        ({"num_labels": 1}, torch.tensor([0.5, 2.0, 4.5])),
        ({"num_labels": 3}, torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 0]])),
    ],
)
def test_losses_of_the_three_problem_types(fields, labels):
    model = randomise(plus.AlbertPlusForSequenceClassification(small_config(**fields)))
    with torch.no_grad():
        output = model(**pair_inputs(120), labels=labels)
    logits = output.logits
    if fields["num_labels"] == 1:
        expected = (logits[:, 0] - labels).square().mean()
    elif labels.dim() == 1:
        expected = -torch.log_softmax(logits, -1)[range(3), labels].mean()
    else:
        expected = -(labels * torch.sigmoid(logits).log() + (1 - labels) * torch.sigmoid(-logits).log()).mean()
    torch.testing.assert_close(output.loss, expected)


@pytest.mark.parametrize("pooler", ["tanh", "relu", "none"])
def test_poolers(pooler):
    model = randomise(plus.AlbertPlusModel(small_config(pooler=pooler)))
    with torch.no_grad():
        output = model(**pair_inputs(120))
    first = output.last_hidden_state[:, 0]
    assert (model.pooler is None) == (pooler == "none")
    if model.pooler is not None:
        first = {"tanh": torch.tanh, "relu": torch.relu}[pooler](model.pooler(first))
    assert torch.equal(output.pooler_output, first)
    bare = plus.AlbertPlusModel(small_config(pooler=pooler), add_pooling_layer=False)
    assert bare(**pair_inputs(120)).pooler_output is None


@pytest.mark.parametrize("pooler", ["tanh", "relu", "none"])
def test_the_mean_of_the_real_tokens(pooler):
    """Against a sum over each row without its padding, in double precision."""
    model = randomise(plus.AlbertPlusModel(small_config(pooling="mean", pooler=pooler)))
    inputs = pair_inputs(120)
    with torch.no_grad():
        output = model(**inputs)
        rows = zip(output.last_hidden_state.double(), inputs["attention_mask"].bool(), strict=True)
        means = torch.stack([sum(row[kept]) / int(kept.sum()) for row, kept in rows]).float()
        if model.pooler is not None:
            means = {"tanh": torch.tanh, "relu": torch.relu}[pooler](model.pooler(means))
        torch.testing.assert_close(output.pooler_output, means, atol=1e-6, rtol=1e-6)
        del inputs["attention_mask"]
        unpadded = model(**inputs)
        read = unpadded.last_hidden_state.mean(1) if model.pooler is None else None
    assert read is None or torch.allclose(unpadded.pooler_output, read, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_mean_in_half_precision_is_summed_in_fp32(dtype):
    """A count of 257 has no bf16, and 257 times 300 no fp16."""
    hidden = torch.full((1, 300, 2), 300.0, dtype=dtype)
    mask = (torch.arange(300) < 257).long()[None]
    assert torch.equal(read_sequences(hidden, mask, pooling="mean"), hidden[:, 0])


def test_a_mean_needs_to_know_the_real_tokens():
    model = plus.AlbertPlusModel(small_config(pooling="mean"))
    with pytest.raises(ValueError, match=r"needs an attention_mask \[batch, sequence\], got \[3, 1, 11, 11\]"):
        model(torch.ones(3, 11, dtype=torch.long), attention_mask=torch.zeros(3, 1, 11, 11))


def _masks(counts):
    labels = torch.full((8, 11), -100)
    for row, count in enumerate(counts):
        labels[row, 1 : 1 + count] = 20 + row
    return labels


EVEN, UNEVEN = [2] * 8, [1, 4, 2, 2, 0, 0, 1, 6]
ORDER = torch.tensor([0, 1, 1, 0, 1, 1, 0, 0])
# Head, config and the labels of eight examples.
HEADS = {
    "pretraining": ("ForPreTraining", {}, {"labels": _masks(EVEN), "sentence_order_label": ORDER}),
    "pretraining, uneven": ("ForPreTraining", {}, {"labels": _masks(UNEVEN), "sentence_order_label": ORDER}),
    "pretraining, words only": ("ForPreTraining", {}, {"labels": _masks(UNEVEN)}),
    "masked lm": ("ForMaskedLM", {}, {"labels": _masks(UNEVEN)}),
    "single label": ("ForSequenceClassification", {"num_labels": 3}, {"labels": ORDER * 2}),
    "multi label": (
        "ForSequenceClassification",
        {"num_labels": 2, "problem_type": "multi_label_classification"},
        {"labels": torch.stack([ORDER, 1 - ORDER.flip(0)], 1).float()},
    ),
    "regression": (
        "ForSequenceClassification",
        {"num_labels": 1, "problem_type": "regression"},
        {"labels": torch.linspace(0, 5, 8)},
    ),
    "tokens": ("ForTokenClassification", {"num_labels": 40}, {"labels": _masks(UNEVEN)}),
    "question": ("ForQuestionAnswering", {}, {"start_positions": ORDER + 1, "end_positions": ORDER + 3}),
    "choice": ("ForMultipleChoice", {}, {"labels": ORDER}),
}  # fmt: skip


class _Gradients(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.seen = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _gradients(tmp_path, name, *, batch_size, trainer_class):
    """Of one step over eight examples: by hand in one batch, and through a Trainer in parts."""
    head, fields, labels = HEADS[name]
    model = randomise(getattr(modeling, f"AlbertPlus{head}")(small_config(classifier_dropout_prob=0.0, **fields)))
    generator = torch.Generator().manual_seed(0)
    shape = (8, 2, 11) if head == "ForMultipleChoice" else (8, 11)
    batch = {"input_ids": torch.randint(5, 120, shape, generator=generator), **labels}
    model.train()(**batch).loss.backward()
    expected = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    rows = [{key: tensor[row] for key, tensor in batch.items()} for row in range(8)]
    arguments = TrainingArguments(
        output_dir=tmp_path, per_device_train_batch_size=batch_size, gradient_accumulation_steps=-(-8 // batch_size),
        max_steps=1, max_grad_norm=0, optim="sgd", learning_rate=0.0, report_to=[], use_cpu=True, disable_tqdm=True,
        save_strategy="no", remove_unused_columns=False, logging_strategy="no",
    )  # fmt: skip
    gradients = _Gradients()

    class InOrder(trainer_class):
        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(rows)

    InOrder(model, arguments, train_dataset=rows, callbacks=[gradients]).train()
    assert gradients.seen.keys() == expected.keys()
    return gradients.seen, expected


# What the plain Trainer cannot do: it counts nothing but `labels`.
UNCOUNTED = {("pretraining, uneven", 2), ("pretraining, uneven", 3), ("question", 3)}


@pytest.mark.slow
@pytest.mark.parametrize("trainer_class", [Trainer, AccumulatingTrainer])
@pytest.mark.parametrize("batch_size", [2, 3])
@pytest.mark.parametrize("name", HEADS)
def test_accumulated_gradients_are_those_of_one_big_batch(tmp_path, name, batch_size, trainer_class):
    """In parts of three the last one has two examples; masks are uneven, and one part of two has none at all."""
    seen, expected = _gradients(tmp_path, name, batch_size=batch_size, trainer_class=trainer_class)
    differences = [float((seen[key] - expected[key]).norm() / expected[key].norm().clamp(min=1e-3)) for key in expected]
    if trainer_class is Trainer and (name, batch_size) in UNCOUNTED:
        assert max(differences) > 1e-2
    else:
        assert max(differences) < 1e-4


@pytest.mark.parametrize("bottleneck", [None, 16])
def test_dropout_sits_where_the_2019_code_has_it(bottleneck):
    """Twelve layers of one block: hidden dropout after the embeddings, and in every layer after attention and after the
    feed-forward network; with a bottleneck once a layer, after the expansion. Counted in a real run."""
    config = small_config(hidden_dropout_prob=0.5, num_hidden_layers=12, bottleneck_size=bottleneck)
    model = plus.AlbertPlusModel(config).train()
    drops = []
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(
                lambda module, inputs, output: drops.append(float((output == 0).float().mean())) if module.p else None
            )
    model(torch.randint(5, 120, (8, 40)))
    assert len(drops) == (1 + 12 * 2 if bottleneck is None else 1 + 12)
    assert all(0.45 < share < 0.55 for share in drops)


def test_attention_dropout_drops_attention():
    torch.manual_seed(0)
    model = plus.AlbertPlusModel._from_config(
        small_config(attention_probs_dropout_prob=0.5), attn_implementation="eager"
    )
    weights = torch.stack(model.train()(torch.randint(5, 120, (8, 40)), output_attentions=True).attentions)
    assert 0.48 < float((weights == 0).float().mean()) < 0.52
