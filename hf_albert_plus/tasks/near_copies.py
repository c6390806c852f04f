"""Rows whose texts are nearly the same, or a part of one another: what is learned from one is no test on the other."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from scipy.sparse import csr_array

# Of the runs of the shorter text, the share that stand in the other one too.
ALIKE = 0.7
# A run that more texts have is a turn of phrase.
_MOST_TEXTS = 1_000
# Texts that are compared with all others at once.
_BLOCK = 256
# Chinese and Japanese characters, of which no blanks make words, are words by themselves.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\w\s]")


def groups_of_near_copies(texts: Sequence[str], *, alike: float = ALIKE) -> list[int]:
    """The number of every text's group: near-copies are in one, and so are the near-copies of these.

    Two texts are near-copies where the words of both are the same, or where so many of the shorter one's runs of three words stand in
    the other one too (the overlap coefficient of shingles: containment in Broder 1997, "On the resemblance and containment of
    documents"). Case and blanks do not count. A run that more than a thousand texts have is taken to be in no other one.

    Args:
        alike: the share of runs from which on texts are near-copies; 1 where each must be a part of the other.
    """
    import numpy
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    words = _words_of(texts)
    first: dict[tuple[int, ...], int] = {}
    same = [first.setdefault(of_text, place) for place, of_text in enumerate(words)]
    ones, others = _near_copies(_runs_of(words), alike=alike)
    edges = (numpy.concatenate([numpy.arange(len(texts)), ones]), numpy.concatenate([numpy.array(same, int), others]))
    graph = coo_array((numpy.ones(len(edges[0]), bool), edges), shape=(len(texts), len(texts)))
    return [int(group) for group in connected_components(graph, directed=False)[1]]


def stand_nearly_in(texts: Sequence[str], others: Sequence[str], *, alike: float = ALIKE) -> list[bool]:
    """Of every text, whether one of the others has nearly all of it: the same words, or so many of its runs of three words."""
    import numpy

    words = _words_of([*texts, *others])
    known = set(words[len(texts) :])
    has_NR = _runs_of(words)
    runs_N, shared_NR = _shared(has_NR)
    others_RN = shared_NR[len(texts) :].T.tocsr()
    stand = [of_text in known for of_text in words[: len(texts)]]
    for start in range(0, len(texts), _BLOCK):
        common = (shared_NR[start : min(start + _BLOCK, len(texts))] @ others_RN).tocoo()
        for row in numpy.unique(common.row[common.data >= alike * runs_N[common.row + start]]):
            stand[start + row] = True
    return stand


def _words_of(texts: Iterable[str]) -> list[tuple[int, ...]]:
    """Every text as the numbers of its words and of the signs between them."""
    numbers: dict[str, int] = {}
    return [tuple(numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.casefold())) for text in texts]


def _runs_of(words: Sequence[tuple[int, ...]]) -> "csr_array":
    """`[texts, runs of three words]`, 1 where a text has a run."""
    import numpy
    from scipy.sparse import csr_array

    lengths = numpy.array([len(of_text) for of_text in words], int)
    flat = numpy.fromiter((word for of_text in words for word in of_text), dtype=numpy.int64)
    most = flat.max(initial=0) + 1
    # Pairs are numbered before their third word comes, so that no number grows too large.
    pairs = numpy.unique(flat[:-1] * most + flat[1:], return_inverse=True)[1]
    rows = numpy.repeat(numpy.arange(len(words)), lengths)
    is_whole = rows[:-2] == rows[2:]
    runs, columns = numpy.unique((pairs[:-1] * most + flat[2:])[is_whole], return_inverse=True)
    ones = numpy.ones(len(columns), numpy.int32)
    has_NR = csr_array((ones, (rows[:-2][is_whole], columns)), shape=(len(words), len(runs)))
    has_NR.sum_duplicates()
    has_NR.data[:] = 1
    return has_NR


def _near_copies(has_NR: "csr_array", *, alike: float) -> "tuple[numpy.ndarray, numpy.ndarray]":
    """The places of the one and the other text of every pair of near-copies."""
    import numpy

    runs_N, shared_NR = _shared(has_NR)
    shared_RN = shared_NR.T.tocsr()
    pairs = [(numpy.zeros(0, int), numpy.zeros(0, int))]
    for start in range(0, shared_NR.shape[0], _BLOCK):
        common = (shared_NR[start : start + _BLOCK] @ shared_RN).tocoo()
        ones, others = common.row + start, common.col
        are_alike = (ones < others) & (common.data >= alike * numpy.minimum(runs_N[ones], runs_N[others]))
        pairs.append((ones[are_alike], others[are_alike]))
    return numpy.concatenate([one for one, _ in pairs]), numpy.concatenate([other for _, other in pairs])


def _shared(has_NR: "csr_array") -> "tuple[numpy.ndarray, csr_array]":
    """How many runs every text has, and the columns of those that several texts have, but not very many."""
    import numpy

    runs_N, texts_R = (numpy.asarray(has_NR.sum(axis)).ravel() for axis in (1, 0))
    return runs_N, has_NR[:, (texts_R > 1) & (texts_R <= _MOST_TEXTS)]
