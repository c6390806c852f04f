"""How much an answer's text is like a right one: exact match and F1, as SQuAD 2.0's official script counts them.

Rajpurkar et al. 2016, section 6.1, and 2018. Texts are compared in lower case, without punctuation (ASCII's), articles and more blanks than
one. A question has the best of what its right answers give.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """A text as it is compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(said: str, right: Sequence[str]) -> float:
    """1 where the text is one of the right ones, else 0.

    Args:
        said: empty for no answer.
        right: none where no answer is right. Those of articles and punctuation alone count only where there is no other.
    """
    return max(float(normalised(said) == normalised(text)) for text in _counted(right))


def text_f1(said: str, right: Sequence[str]) -> float:
    """The harmonic mean of the shares of words that a text has in common with a right one, the best of all; 1 or 0 where one of them has no
    words.

    Args:
        said, right: as `exact_match`.
    """
    return max(_f1(normalised(said).split(), normalised(text).split()) for text in _counted(right))


def _counted(right: Sequence[str]) -> Sequence[str]:
    return [text for text in right if normalised(text)] or [""]


def _f1(said: list[str], right: list[str]) -> float:
    if not said or not right:
        return float(said == right)
    common = sum((Counter(said) & Counter(right)).values())
    return 2 * common / (len(said) + len(right))
