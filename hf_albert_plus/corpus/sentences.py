"""From a document's paragraphs to sentences of token ids."""

from collections.abc import Iterable
from typing import Any

from ..errors import InvalidInput
from ..optional import need
from .formats import Document

# Lines that are sentences already, as in the text that BERT's code reads.
LINES = "none"


def check_language(language: str) -> None:
    """Refuses what is no language code; sentencex falls back to a related language, in the end English."""
    if language != LINES and not (2 <= len(language) <= 3 and language.isascii() and language.islower()):
        raise InvalidInput(
            "--language must be an ISO 639 code",
            got=repr(language),
            repair="use --language en, or none for a sentence a line",
        )


def sentence_ids(paragraphs: Iterable[str], tokenizer: Any, *, language: str, longest: int) -> Document:
    """Every sentence's ids without special tokens; one of more than `longest` tokens comes in pieces, so that none is lost.

    Args:
        tokenizer: of the tokenizers library.
        language: its ISO 639 code; `none` takes the paragraphs for sentences.
    """
    if language != LINES:
        segment = need("sentencex", extra="pretrain").segment
        paragraphs = (sentence for paragraph in paragraphs for sentence in segment(language, paragraph))
    texts = [text for sentence in paragraphs if (text := sentence.strip())]
    document = []
    for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
        ids = encoding.ids
        document += [ids[start : start + longest] for start in range(0, len(ids), longest)]
    return document


__all__ = ["LINES", "check_language", "sentence_ids"]
