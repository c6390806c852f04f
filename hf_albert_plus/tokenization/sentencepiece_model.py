"""SentencePiece models as transformers' AlbertTokenizer."""

import math
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, first_line
from ..input_files import check_input_file

# Below any sum of scores: such a piece is never on the best path.
_NEVER = -1e4


def read_sentencepiece(model: Path) -> Any:
    """The tokenizer of a unigram model, with ALBERT's normalisation and the token types that it leaves out.

    ALBERT's own code encodes a piece that ends in a digit and a comma once more without the comma, so that "2010," is never
    one token though the vocabulary has it (google-research/albert, tokenization.py). Here such a piece keeps its id and gets a
    score that no best path takes. Ids are then ALBERT's but for ties: of two paths with the same score, as "00"+"0" and
    "0"+"00", this library takes another than SentencePiece.

    Raises:
        InvalidInput: no SentencePiece unigram model, or one without ALBERT's special tokens at its beginning.
    """
    from google.protobuf.message import DecodeError
    from transformers import AlbertTokenizer
    from transformers.utils import sentencepiece_model_pb2_new

    check_input_file(model, what="MODEL")
    proto: Any = vars(sentencepiece_model_pb2_new)["ModelProto"]()
    try:
        proto.ParseFromString(model.read_bytes())
    except DecodeError as error:
        raise InvalidInput(
            "MODEL must be a SentencePiece model", got=f"{model} ({first_line(error)})", repair="give a spiece.model"
        ) from None
    specials = [piece.piece for piece in proto.pieces[: len(SPECIALS)]]
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM or specials != list(SPECIALS):
        raise InvalidInput(
            f"MODEL must be a unigram model that begins with {' '.join(SPECIALS)}",
            got=f"{model} with {' '.join(specials)}",
            repair="make one with albert-plus tokenizer train",
        )
    vocabulary = [
        (piece.piece, _NEVER if _ends_in_number_comma(piece.piece) else piece.score) for piece in proto.pieces
    ]
    if len(dict(vocabulary)) < len(vocabulary) or not all(math.isfinite(score) for _, score in vocabulary):
        raise InvalidInput(
            "MODEL must have pieces that differ, and finite scores", got=model, repair="make one with albert-plus tokenizer train"
        )  # fmt: skip
    try:
        return AlbertTokenizer(
            vocab=vocabulary,
            _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
            model_max_length=512,
        )
    except Exception as error:  # the tokenizers library raises no narrower one
        raise InvalidInput(
            "MODEL must be one that the tokenizers library reads",
            got=f"{model} ({first_line(error)})",
            repair="make one with albert-plus tokenizer train",
        ) from None


SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


def _ends_in_number_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


__all__ = ["SPECIALS", "read_sentencepiece"]
