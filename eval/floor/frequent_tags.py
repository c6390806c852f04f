"""The tag that each word mostly has, as a linear map of words: the least that any tagger must be better than.

F words, C tags.
"""

from typing import Any

import numpy

from hf_albert_plus.eval.floor.linear import NEVER, Linear


def frequent_tags(words: Any, tags: numpy.ndarray, *, tag_count: int) -> Linear:
    """Logits whose softmax is the share of a tag among a word's occurrences, to which one is added that has tags as all words have them:
    the best is the word's most frequent tag, and of a word that was never seen that of all words.

    Args:
        words: one column a word, `[occurrences, F]`, sparse.
        tags: ids `[occurrences]`.
    """
    from scipy.sparse import csr_array

    tags_NC = csr_array((numpy.ones(len(tags)), tags, numpy.arange(len(tags) + 1)), shape=(len(tags), tag_count))
    shares_C = numpy.bincount(tags, minlength=tag_count) / len(tags)
    counts_FC = (csr_array(words).T @ tags_NC).toarray()
    shares_FC = (counts_FC + shares_C) / (counts_FC.sum(axis=1, keepdims=True) + 1)
    known_C = shares_C > 0
    bias_C = numpy.full(tag_count, -NEVER)
    bias_C[known_C] = numpy.log(shares_C[known_C])
    weight_FC = numpy.zeros_like(shares_FC)
    weight_FC[:, known_C] = numpy.log(shares_FC[:, known_C]) - bias_C[known_C]
    return Linear(weight_FC.astype(numpy.float32), bias_C.astype(numpy.float32), 1.0)
