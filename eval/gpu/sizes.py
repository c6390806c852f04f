"""How large what is measured on a device is: as the field's tables have it, or small, to see that the chain works."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_albert_plus.eval.latency.timing import Method
from hf_albert_plus.eval.targets import Shape


@dataclass(frozen=True)
class Sizes:
    """The sizes of every part.

    Attributes:
        model: the variant that answers, distils and is exported, unless a directory is named.
        pretrained: the variant that is pretrained, and whose attention is checked.
        shapes: batches that are answered, without padding.
        roof_shape: the batch that is set against the roof.
        roof_size: rows and columns of the matrices whose product is the roof.
        attention: the batch that the backends of attention compute.
        step: rows and tokens of a batch of pretraining.
        taught: rows and tokens of a batch of distillation.
        vocabulary: words of the texts that are pretrained on.
        fields: of every variant, in place of its own.
        seconds: counted time of each way and load, about.
        method: how ways are compared: a GPU has no threads that spin, and needs no settling.
        compiles: whether torch compiles models, which takes a minute or so.
    """

    name: str
    model: str
    pretrained: str
    shapes: tuple[Shape, ...]
    roof_shape: Shape
    roof_size: int
    attention: Shape
    step: Shape
    taught: Shape
    vocabulary: int
    fields: Mapping[str, Any]
    seconds: float
    method: Method
    compiles: bool


FULL = Sizes(
    name="full",
    model="bert-base",
    pretrained="albert-base-v2",
    shapes=(Shape(1, 16), Shape(1, 128), Shape(8, 128), Shape(32, 128), Shape(128, 128), Shape(256, 128)),
    roof_shape=Shape(128, 128),
    roof_size=8192,
    attention=Shape(8, 512),
    step=Shape(32, 512),
    taught=Shape(32, 128),
    vocabulary=30_000,
    fields={},
    seconds=0.4,
    method=Method(rounds=8, patience=2, settle_s=0.0),
    compiles=True,
)
SMALL = Sizes(
    name="small",
    model="bert-tiny",
    pretrained="bert-tiny",
    shapes=(Shape(1, 8), Shape(4, 16)),
    roof_shape=Shape(4, 16),
    roof_size=64,
    attention=Shape(2, 24),
    step=Shape(2, 24),
    taught=Shape(2, 16),
    vocabulary=200,
    fields={"vocab_size": 200},
    seconds=0.01,
    method=Method(rounds=4, patience=0, settle_s=0.0),
    compiles=False,
)
