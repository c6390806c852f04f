"""The method that copies a sentence encoder: a row of the table of methods, in a file of its own."""

from typing import cast, get_args

from ..errors import InvalidInput
from .phases import Layers, Method, Phase, VectorPooling, check_word
from .sentence_rows import Cut
from .vector_terms import VectorCosine, VectorError, VectorSimilarity


def embeddings(
    layers: Layers,
    *,
    squared_error_weight: float = 1.0,
    cosine_weight: float = 1.0,
    similarity_weight: float = 1.0,
    matryoshka_dims: str = "",
    cut: str = "sentences",
    pooling: str = "teacher",
    epochs: float = 3.0,
    learning_rate: float = 3e-4,
) -> tuple[Phase, ...]:
    check_word("cut", cut, get_args(Cut))
    check_word("pooling", pooling, get_args(VectorPooling))
    prefixes = parse_dims(matryoshka_dims)
    # Prefixes are to say the most, which those of the teacher's vectors do not: a learned map leads from one space to the other.
    terms = (
        VectorError(squared_error_weight, own_space=bool(prefixes)),
        VectorCosine(cosine_weight, own_space=bool(prefixes)),
        VectorSimilarity(similarity_weight, prefixes),
    )
    return (
        Phase(
            "vectors",
            terms,
            rows="sentences",
            epochs=epochs,
            learning_rate=learning_rate,
            cut=cast(Cut, cut),
            pooling=cast(VectorPooling, pooling),
        ),
    )


EMBEDDINGS = Method(
    "embeddings",
    "Sentence embeddings: a sentence encoder's vectors, and their cosines to each other, from text alone",
    "Reimers and Gurevych 2020, eq. 1; Tung and Mori 2019, section 3, of cosines; Kusupati et al. 2022, eq. 1; weights and rates of this "
    "project",
    embeddings,
    vectors=True,
)


def parse_dims(text: str) -> tuple[int, ...]:
    """The prefixes that `matryoshka_dims` names: `"64,128"` -> `(64, 128)`, and nothing of an empty text.

    Raises:
        InvalidInput: no ascending numbers.
    """
    parts = [part.strip() for part in text.strip("[]").split(",")] if text.strip() else []
    dims = tuple(int(part) for part in parts if part.isdecimal() and len(part) < 10)
    if len(dims) < len(parts) or list(dims) != sorted(set(dims)) or 0 in dims:
        raise InvalidInput(
            "--set matryoshka_dims must be ascending numbers with commas", got=repr(text), repair="use --set matryoshka_dims=64,128"
        )  # fmt: skip
    return dims
