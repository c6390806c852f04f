"""Rows whose texts are nearly the same, or a part of one another: what is learned from one is no test on the other."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from scipy.sparse import csr_array

# Of the runs of the shorter text, the share that stand in the other one too.
ALIKE = 0.7
# A text of fewer runs is a turn of phrase, which may be a part of any other one.
_FEWEST_RUNS = 3
# So is a run that more texts have.
_MOST_TEXTS = 1_000
# Texts that are compared with all others at once, and the pairs of a text above which only those that tie groups are kept.
_BLOCK, _PAIRS = 256, 8
# Chinese and Japanese characters, of which no blanks make words, are words by themselves. All else is a word but blanks and signs.
_CHARACTERS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_SIGNS = r"\s!-/:-@\[-^`{-~\u00a1-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u060c\u061b\u061f\u0964\u0965\u2010-\u2027\u2030-\u205e\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_WORD = re.compile(f"[{_CHARACTERS}]|[^{_CHARACTERS}{_SIGNS}]+")

Words = tuple[Any, ...]


def groups_of_near_copies(texts: Sequence[str], *, alike: float = ALIKE) -> list[int]:
    """The number of every text's group: near-copies are in one, and so are the near-copies of these.

    Two texts are near-copies where the words of both are the same, or where so many of the shorter one's runs of three words stand in
    the other one too (the overlap coefficient of shingles: containment in Broder 1997, "On the resemblance and containment of
    documents"). One of fewer than three runs is no near-copy of a longer one. Case, blanks and signs do not count, and a run that more
    than a thousand texts have is taken to be in no other one.

    Args:
        alike: the share of runs from which on texts are near-copies; 1 where each must be a part of the other.
    """
    import numpy

    numbers: dict[Words, int] = {}
    of_text = [numbers.setdefault(words, len(numbers)) for words in _words_of(texts)]
    groups = _tied(_runs_of(list(numbers)), alike=alike)
    return [int(group) for group in groups[numpy.array(of_text, int)]]


def stand_nearly_in(texts: Sequence[str], others: Sequence[str], *, alike: float = ALIKE) -> list[bool]:
    """Of every text, whether one of the others has nearly all of it: the same words, or so many of its runs of three words."""
    import numpy

    words = _words_of(texts)
    ours, theirs = (list(dict.fromkeys(each)) for each in (words, _words_of(others)))
    runs_N, shared_NR = _shared(_runs_of([*ours, *theirs]))
    others_RN = shared_NR[len(ours) :].T.tocsr()
    known = set(theirs)
    stand = {text: text in known for text in ours}
    for start in range(0, len(ours), _BLOCK):
        common = (shared_NR[start : min(start + _BLOCK, len(ours))] @ others_RN).tocoo()
        runs = runs_N[common.row + start]
        for row in numpy.unique(common.row[(common.data >= alike * runs) & (runs >= _FEWEST_RUNS)]):
            stand[ours[start + row]] = True
    return [stand[text] for text in words]


def _words_of(texts: Iterable[str]) -> list[Words]:
    """Every text's words; its signs where it has nothing else."""
    found = []
    for text in texts:
        plain = unicodedata.normalize("NFC", text).casefold()
        found.append(tuple(_WORD.findall(plain)) or tuple(plain.split()))
    return found


def _runs_of(texts: Sequence[Words]) -> "csr_array":
    """`[texts, runs of three words]`, 1 where a text has a run."""
    import numpy
    from scipy.sparse import csr_array

    numbers: dict[str, int] = {}
    words = (numbers.setdefault(word, len(numbers)) for text in texts for word in text)
    flat = numpy.fromiter(words, dtype=numpy.int64)
    # Pairs are numbered before their third word comes, so that no number grows too large.
    pairs = numpy.unique(flat[:-1] * len(numbers) + flat[1:], return_inverse=True)[1]
    rows = numpy.repeat(numpy.arange(len(texts)), numpy.array([len(text) for text in texts], int))
    is_whole = rows[:-2] == rows[2:]
    runs, columns = numpy.unique((pairs[:-1] * len(numbers) + flat[2:])[is_whole], return_inverse=True)
    ones = numpy.ones(len(columns), numpy.int32)
    has_NR = csr_array((ones, (rows[:-2][is_whole], columns)), shape=(len(texts), len(runs)))
    has_NR.sum_duplicates()
    has_NR.data[:] = 1
    return has_NR


def _shared(has_NR: "csr_array") -> "tuple[numpy.ndarray, csr_array]":
    """How many runs every text has, and the columns of those that several texts have, but not very many."""
    import numpy

    runs_N, texts_R = (numpy.asarray(has_NR.sum(axis)).ravel() for axis in (1, 0))
    return runs_N, has_NR[:, (texts_R > 1) & (texts_R <= _MOST_TEXTS)]


def _tied(has_NR: "csr_array", *, alike: float) -> "numpy.ndarray":
    """The number of each text's group."""
    import numpy

    count = has_NR.shape[0]
    runs_N, shared_NR = _shared(has_NR)
    shared_RN = shared_NR.T.tocsr()
    groups, pairs = numpy.arange(count), [(numpy.zeros(0, int), numpy.zeros(0, int))]
    for start in range(0, count, _BLOCK):
        common = (shared_NR[start : start + _BLOCK] @ shared_RN).tocoo()
        ones, others = common.row + start, common.col
        fewer, more = (of(runs_N[ones], runs_N[others]) for of in (numpy.minimum, numpy.maximum))
        enough = alike * numpy.where(fewer < _FEWEST_RUNS, more, fewer)
        are_alike = (ones < others) & (common.data >= enough)
        pairs.append((ones[are_alike], others[are_alike]))
        if sum(len(ones) for ones, _ in pairs) > _PAIRS * count:
            groups, pairs = _joined(groups, pairs), []
    return _joined(groups, pairs)


def _joined(groups: "numpy.ndarray", pairs: "list[tuple[numpy.ndarray, numpy.ndarray]]") -> "numpy.ndarray":
    """Groups, of which those that a pair ties are one."""
    import numpy
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones, others = (numpy.concatenate([groups[:0], *(groups[pair[side]] for pair in pairs)]) for side in (0, 1))
    graph = coo_array((numpy.ones(len(ones), bool), (ones, others)), shape=(len(groups), len(groups)))
    return numpy.asarray(connected_components(graph, directed=False)[1][groups])
