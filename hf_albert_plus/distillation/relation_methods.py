"""The methods that copy how tokens relate to each other, attention among it, before anything is learned of the answers: rows of the table of methods."""

from ..errors import InvalidInput
from . import terms as t
from .phases import Layers, Method, Phase, answers_and_labels

_ATTENTION_AND_VALUES = (t.Relations(of=("qk", "vv")),)


def minilm(
    layers: Layers,
    *,
    transfer_epochs: float = 3.0,
    transfer_learning_rate: float = 5e-4,
    epochs: float = 3.0,
    learning_rate: float = 5e-5,
) -> tuple[Phase, ...]:
    return (
        Phase(
            "transfer",
            _ATTENTION_AND_VALUES,
            rows="text",
            epochs=transfer_epochs,
            learning_rate=transfer_learning_rate,
        ),
        Phase("task", (t.Labels(),), epochs=epochs, learning_rate=learning_rate),
    )


def minilm_v2(
    layers: Layers,
    *,
    relation_heads: int = 48,
    teacher_layer: int = 0,
    transfer_epochs: float = 3.0,
    transfer_learning_rate: float = 6e-4,
    epochs: float = 3.0,
    learning_rate: float = 5e-5,
) -> tuple[Phase, ...]:
    if teacher_layer > layers.teacher:
        raise InvalidInput(
            f"--set teacher_layer must lie between 1 and the teacher's {layers.teacher} layers, or be 0 for its last",
            got=teacher_layer,
            repair="leave it out",
        )
    relations = (t.Relations(of=("qq", "kk", "vv"), heads=relation_heads, teacher_layer=teacher_layer),)
    return (
        Phase("transfer", relations, rows="text", epochs=transfer_epochs, learning_rate=transfer_learning_rate),
        Phase("task", (t.Labels(),), epochs=epochs, learning_rate=learning_rate),
    )


def relations_kd(
    layers: Layers,
    *,
    relations_epochs: float = 3.0,
    relations_learning_rate: float = 3e-4,
    temperature: float = 2.0,
    soft_share: float = 0.7,
    epochs: float = 3.0,
    learning_rate: float = 3e-4,
) -> tuple[Phase, ...]:
    return (
        Phase("relations", _ATTENTION_AND_VALUES, epochs=relations_epochs, learning_rate=relations_learning_rate),
        Phase("task", answers_and_labels(soft_share, temperature), epochs=epochs, learning_rate=learning_rate),
    )


MINILM = Method(
    "minilm",
    "MiniLM: attention and value relations of the last layer, then fine-tuning",
    "Wang et al. 2020, section 3; with an assistant: distil it first, then name it as the teacher",
    minilm,
)
MINILM_V2 = Method(
    "minilm-v2",
    "MiniLMv2: query, key and value relations over heads split anew, then fine-tuning",
    "Wang et al. 2021, section 3; with an assistant: distil it first, then name it as the teacher",
    minilm_v2,
)
RELATIONS_KD = Method(
    "relations-kd",
    "the fine-tuned teacher's attention and value relations, then its soft targets and labels, both on more rows too (--unlabelled)",
    "Wang et al. 2020, section 3, then Hinton, Vinyals and Dean 2015, section 2; put together by this project",
    relations_kd,
)
