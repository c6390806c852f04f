"""The published methods as rows: phases of weighted terms, with the defaults of their papers.

A method is a function from its settings to its phases. `--set` reaches every keyword argument of the function, and what
`--list-methods` prints is read from it. Where a paper's number depends on its scale (steps, batches of thousands), the
row has the epochs, and `--epochs` is there to change them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast, get_args

from ..errors import InvalidInput, suggest
from ..text.formats import Order
from . import terms as t
from .dual_training.dual_terms import MixedWords, SharedProjections
from .phases import Layers, Method, Phase, answers_and_labels, check_word
from .relation_methods import MINILM, MINILM_V2, RELATIONS_KD
from .vector_method import EMBEDDINGS

_BUILDERS: dict[str, "Method"] = {}


def _method(title: str, source: str, **more: Any) -> Callable[[Callable[..., tuple[Phase, ...]]], Method]:
    def register(build: Callable[..., tuple[Phase, ...]]) -> Method:
        name = build.__name__.strip("_").replace("_", "-")
        if name in _BUILDERS:
            raise ValueError(f"there is a method {name} already")
        _BUILDERS[name] = Method(name, title, source, build, **more)
        return _BUILDERS[name]

    return register


@_method("no teacher: the labels alone, the control of every comparison", "plain fine-tuning")
def labels(layers: Layers, *, epochs: float = 3.0, learning_rate: float = 3e-4) -> tuple[Phase, ...]:
    return (Phase("task", (t.Labels(),), epochs=epochs, learning_rate=learning_rate),)


@_method("soft targets and labels", "Hinton, Vinyals and Dean 2015, section 2")
def kd(
    layers: Layers,
    *,
    temperature: float = 2.0,
    soft_share: float = 0.7,
    epochs: float = 3.0,
    learning_rate: float = 3e-4,
) -> tuple[Phase, ...]:
    return (Phase("task", answers_and_labels(soft_share, temperature), epochs=epochs, learning_rate=learning_rate),)


@_method("soft targets, labels and all hidden states at once", "this project's default")
def kd_hidden(
    layers: Layers,
    *,
    temperature: float = 2.0,
    soft_share: float = 0.7,
    hidden_weight: float = 1.0,
    layer_map: str = "uniform",
    epochs: float = 3.0,
    learning_rate: float = 3e-4,
) -> tuple[Phase, ...]:
    each = hidden_weight / (layers.student + 1)
    terms = (*answers_and_labels(soft_share, temperature), t.Embeddings(each), t.HiddenStates(each))
    return (Phase("task", terms, epochs=epochs, learning_rate=learning_rate, layer_map=layer_map),)


@_method(
    "DistilBERT: general distillation on text, then a second step on the task",
    "Sanh et al. 2019, sections 2 and 3; weights and rates of the release",
    start_layers="spread",
)
def distilbert(
    layers: Layers,
    *,
    temperature: float = 2.0,
    soft_words_weight: float = 5.0,
    masked_words_weight: float = 2.0,
    cosine_weight: float = 1.0,
    mask_smoothing: float = 0.7,
    general_epochs: float = 3.0,
    general_learning_rate: float = 5e-4,
    soft_share: float = 0.5,
    epochs: float = 3.0,
    learning_rate: float = 5e-5,
) -> tuple[Phase, ...]:
    words = (t.SoftWords(soft_words_weight, temperature), t.MaskedWords(masked_words_weight), t.Cosine(cosine_weight))
    return (
        Phase(
            "general",
            words,
            rows="text",
            epochs=general_epochs,
            learning_rate=general_learning_rate,
            mask_smoothing=mask_smoothing,
        ),
        Phase("task", answers_and_labels(soft_share, temperature), epochs=epochs, learning_rate=learning_rate),
    )


@_method(
    "TinyBERT: general, then intermediate layers, then predictions, on augmented rows (albert-plus augment)",
    "Jiao et al. 2020, sections 3 and 4.2; regression follows the teacher, where the release takes the labels",
)
def tinybert(
    layers: Layers,
    *,
    embedding_weight: float = 1.0,
    hidden_weight: float = 1.0,
    attention_weight: float = 1.0,
    temperature: float = 1.0,
    layer_map: str = "uniform",
    general_epochs: float = 3.0,
    general_learning_rate: float = 5e-5,
    intermediate_epochs: float = 20.0,
    intermediate_learning_rate: float = 5e-5,
    epochs: float = 3.0,
    learning_rate: float = 3e-5,
) -> tuple[Phase, ...]:
    inside = (t.Embeddings(embedding_weight), t.HiddenStates(hidden_weight), t.AttentionScores(attention_weight))
    general = Phase(
        "general",
        inside,
        rows="text",
        epochs=general_epochs,
        learning_rate=general_learning_rate,
        layer_map=layer_map,
    )
    return (
        general,
        replace(
            general,
            name="intermediate",
            rows="task",
            epochs=intermediate_epochs,
            learning_rate=intermediate_learning_rate,
        ),
        Phase("prediction", (t.SoftCrossEntropy(1.0, temperature),), epochs=epochs, learning_rate=learning_rate),
    )


@_method(
    "Patient knowledge distillation: soft targets, labels and what classifiers read of the layers (layer_map=last for PKD-Last)",
    "Sun et al. 2019, eq. 8; a sample of the release's grid; the paper starts from the pretrained model (--general-teacher)",
    start_layers="first",
)
def pkd(
    layers: Layers,
    *,
    temperature: float = 10.0,
    soft_share: float = 0.7,
    patient_weight: float = 500.0,
    normalise: bool = True,
    layer_map: str = "skip",
    epochs: float = 4.0,
    learning_rate: float = 1e-5,
) -> tuple[Phase, ...]:
    terms = (*answers_and_labels(soft_share, temperature), t.PatientStates(patient_weight, normalise))
    return (Phase("task", terms, epochs=epochs, learning_rate=learning_rate, layer_map=layer_map),)


_BUILDERS |= {row.name: row for row in (MINILM, MINILM_V2, RELATIONS_KD)}


@_method(
    "Well-read students: pretraining, then soft labels alone on transfer text (--unlabelled) and the task's rows, then fine-tuning",
    "Turc et al. 2019, section 3",
    initialise="random",
)
def well_read(
    layers: Layers,
    *,
    pretrain_epochs: float = 3.0,
    pretrain_learning_rate: float = 1e-4,
    temperature: float = 1.0,
    distil_epochs: float = 3.0,
    distil_learning_rate: float = 3e-4,
    epochs: float = 3.0,
    learning_rate: float = 1e-4,
) -> tuple[Phase, ...]:
    soft = (t.SoftTargets(1.0, temperature),)
    return (
        Phase(
            "pretrain", (t.MaskedWords(),), rows="text", epochs=pretrain_epochs, learning_rate=pretrain_learning_rate
        ),
        Phase("distil", soft, epochs=distil_epochs, learning_rate=distil_learning_rate),
        Phase("task", (t.Labels(),), epochs=epochs, learning_rate=learning_rate),
    )


@_method(
    "MobileBERT: feature maps and attention of one layer after the other, words and next sentences, then fine-tuning",
    "Sun et al. 2020, section 3.5 (progressive knowledge transfer, then pre-training distillation); weights of the release, rates of "
    "this project for AdamW",
    initialise="embeddings",
)
def mobilebert(
    layers: Layers,
    *,
    feature_map_weight: float = 100.0,
    mean_weight: float = 5000.0,
    variance_weight: float = 5.0,
    attention_weight: float = 1.0,
    lower_losses: str = "auto",
    lower_rate_share: float = 0.1,
    soft_words_share: float = 0.5,
    order: str = "next-sentence",
    layer_map: str = "uniform",
    transfer_epochs: float = 3.0,
    transfer_learning_rate: float = 5e-4,
    words_epochs: float = 3.0,
    words_learning_rate: float = 5e-4,
    epochs: float = 3.0,
    learning_rate: float = 5e-5,
) -> tuple[Phase, ...]:
    check_word("lower_losses", lower_losses, ("auto", "on", "off"))
    check_word("order", order, get_args(Order))
    # A block that layers share learns in every layer's turn: without the losses of those below it would forget them.
    keeps = lower_losses == "on" or (lower_losses == "auto" and layers.shared)

    def transfer(layer: int) -> Phase:
        """The turn of a layer."""
        on, count = tuple(range(1, layer + 1)) if keeps else (layer,), layers.student
        terms = (
            t.FeatureMaps(feature_map_weight / count, on),
            t.FeatureMeans(mean_weight / count, on),
            t.FeatureVariances(variance_weight / count, on),
            t.AttentionTransfer(attention_weight / count, on),
        )
        return Phase(
            f"layer-{layer}",
            terms,
            rows="text",
            epochs=transfer_epochs / count,
            learning_rate=transfer_learning_rate,
            layer_map=layer_map,
            turn=layer,
            lower_rate_share=lower_rate_share,
        )

    words = (
        t.MaskedWords(1 - soft_words_share),
        t.SoftWords(soft_words_share, masked_only=True),
        t.SentenceOrder(float(order != "none")),
    )
    return (
        *(transfer(layer) for layer in range(1, layers.student + 1)),
        Phase(
            "words",
            words,
            rows="text",
            epochs=words_epochs,
            learning_rate=words_learning_rate,
            order=cast(Order, order),
        ),
        Phase("task", (t.Labels(),), epochs=epochs, learning_rate=learning_rate),
    )


@_method(
    "TwinBERT: two towers from a cross-encoder on pairs, their vectors cacheable",
    "Lu, Jiao and Zhang 2020, section 3",
    towers=True,
)
def twinbert(
    layers: Layers,
    *,
    temperature: float = 2.0,
    epochs: float = 3.0,
    learning_rate: float = 5e-5,
) -> tuple[Phase, ...]:
    return (Phase("task", (t.TwoTowers(1.0, temperature),), rows="pairs", epochs=epochs, learning_rate=learning_rate),)


@_method(
    "FastBERT: fine-tuning, then exits that follow the model's own last layer",
    "Liu et al. 2020, section 3",
    exits="branch",
)
def fastbert(
    layers: Layers,
    *,
    temperature: float = 2.0,
    soft_share: float = 0.0,
    epochs: float = 3.0,
    learning_rate: float = 2e-5,
    exits_epochs: float = 5.0,
    exits_learning_rate: float = 2e-5,
) -> tuple[Phase, ...]:
    return (
        Phase("task", answers_and_labels(soft_share, temperature), epochs=epochs, learning_rate=learning_rate),
        Phase("exits", (t.Exits(),), epochs=exits_epochs, learning_rate=exits_learning_rate, trains="exits"),
    )


@_method(
    "PABEE: exits and the last layer learn the labels together, the deeper the more",
    "Zhou et al. 2020, section 3",
    exits="pooled",
)
def pabee(layers: Layers, *, epochs: float = 5.0, learning_rate: float = 3e-5) -> tuple[Phase, ...]:
    return (Phase("task", (t.ExitsByDepth(),), epochs=epochs, learning_rate=learning_rate),)


@_method(
    "Extreme compression: masked words in two vocabularies, the teacher trained beside the student, then fine-tuning",
    "Zhao et al. 2019, section 3; weight and rates are this project's, for losses that are means and AdamW",
    initialise="random",
    own_vocabulary=True,
)
def extreme(
    layers: Layers,
    *,
    dual_share: float = 0.5,
    projection_weight: float = 1.0,
    projection: str = "both",
    layer_map: str = "uniform",
    dual_epochs: float = 3.0,
    dual_learning_rate: float = 1e-4,
    epochs: float = 3.0,
    learning_rate: float = 5e-5,
) -> tuple[Phase, ...]:
    terms = (MixedWords(), t.MaskedWords(), SharedProjections(projection_weight, projection))
    dual = Phase(
        "dual",
        terms,
        rows="text",
        epochs=dual_epochs,
        learning_rate=dual_learning_rate,
        layer_map=layer_map,
        dual_share=dual_share,
    )
    return dual, Phase("task", (t.Labels(),), epochs=epochs, learning_rate=learning_rate)


METHODS: dict[str, Method] = {**_BUILDERS, EMBEDDINGS.name: EMBEDDINGS}


def get_method(name: str) -> Method:
    """The method of that name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in METHODS:
        raise InvalidInput(
            "--method must be a known method (--list-methods)", got=repr(name), repair=suggest(name, list(METHODS))
        )
    return METHODS[name]
