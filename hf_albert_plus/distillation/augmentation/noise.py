"""Texts made of a task's own rows, for a student to learn what its teacher says of them: words are replaced, dropped and put in, and pairs
are put together anew (after Tang et al. 2019, section 3.3, who mask words and take others of their kind). They have no label, as nobody knows it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random

Row = tuple[str, ...]

# Of the words of a text, those that change.
_SHARES = (0.05, 0.1, 0.2)
# Of the words that change, those that become another word; the others are dropped, or get a word behind them.
_REPLACED, _DROPPED = 0.6, 0.2
# Of pairs, those whose second text comes from another row, and those that are a text with noise beside itself.
_PAIRED_ANEW, _BESIDE_ITSELF = 0.25, 0.25
# Words of a text, the rarest, by one of which another text is found.
_RAREST = 3


def noised_rows(rows: Sequence[Row], *, copies: int, random: Random) -> Iterator[Row]:
    """So many rows for every row: of single texts copies with noise; of pairs half copies with noise on both sides, a quarter a text beside a noised
    copy of it, and a quarter a text beside one of another row that shares a rare word. Words that are put in are drawn as often as the rows
    have them.

    Args:
        rows: the texts of each, one or two.
    """
    words = [word for row in rows for text in row for word in text.split()]
    neighbours = _Neighbours(rows)
    for number, row in enumerate(rows):
        for _ in range(copies):
            kind = random.random() if len(row) == 2 else 1.0
            if kind < _PAIRED_ANEW:
                yield neighbours.pair(number, random)
            elif kind < _PAIRED_ANEW + _BESIDE_ITSELF:
                text = random.choice(row)
                beside = noised(text, words, share=2 * random.choice(_SHARES), random=random)
                yield (text, beside) if random.random() < 0.5 else (beside, text)
            else:
                yield tuple(noised(text, words, share=random.choice(_SHARES), random=random) for text in row)


def noised_sentences(sentences: Sequence[Sequence[str]], *, copies: int, random: Random) -> Iterator[list[str]]:
    """So many copies with noise of every list of words. Words that are put in are drawn as often as the sentences have them."""
    words = [word for sentence in sentences for word in sentence]
    for sentence in sentences:
        for _ in range(copies):
            yield noised_words(sentence, words, share=random.choice(_SHARES), random=random) or list(sentence)


def noised(text: str, words: Sequence[str], *, share: float, random: Random) -> str:
    """A text with noise in its words; the text itself where nothing would be left."""
    return " ".join(noised_words(text.split(), words, share=share, random=random)) or text


def noised_words(sentence: Sequence[str], words: Sequence[str], *, share: float, random: Random) -> list[str]:
    """A sentence of whose words a share is replaced by one of `words`, dropped, or followed by one of them. Nothing may be left."""
    kept = []
    for word in sentence:
        change = random.random() / share
        if change < _REPLACED:
            kept.append(random.choice(words))
        elif _REPLACED + _DROPPED <= change < 1:
            kept += [word, random.choice(words)]
        elif change >= 1:
            kept.append(word)
    return kept


class _Neighbours:
    """Texts of other rows by the rare words that they share."""

    def __init__(self, rows: Sequence[Row]):
        self.rows = rows
        self.counts = Counter(word for row in rows for text in row for word in set(text.split()))
        self.places: dict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            for word in set(row[-1].split()):
                self.places[word].append(number)

    def pair(self, number: int, random: Random) -> Row:
        """The first text of a row and the second of another one, with a rare word in common where there is any."""
        first = self.rows[number][0]
        shared = [word for word in dict.fromkeys(first.split()) if self.places.get(word, [number]) != [number]]
        rarest = sorted(shared, key=lambda word: self.counts[word])[:_RAREST]
        others = self.places[random.choice(rarest)] if rarest else range(len(self.rows))
        return first, self.rows[random.choice(others)][1]
