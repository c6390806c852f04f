"""Candidates from word vectors: the nearest words by cosine, from a file of GloVe's or a model's input embeddings."""

from collections.abc import Iterable
from pathlib import Path

import numpy
import torch

from ...checkpoints import from_pretrained, load_config
from ...errors import InvalidInput
from ...glue import load_tokenizer
from ...progress import track
from .whole_words import WholeWords, highest, is_word, spellings

# Similarities computed at a time: 256 MB, however many words there are.
_SIMILARITIES = 1 << 26


class WordVectors:
    """Words and their vectors.

    A word is looked up as it stands, else in small letters.

    Shape: `vectors_VH` is `[vocabulary, hidden]`, in the order of the words.
    """

    def __init__(self, words: list[str], vectors_VH: torch.Tensor):
        lengths_V = vectors_VH.norm(dim=1)
        kept = lengths_V.nonzero().flatten()
        self.words = [words[place] for place in kept.tolist()]
        self.directions_VH = vectors_VH[kept].div_(lengths_V[kept, None])
        self._places = {word: place for place, word in enumerate(self.words)}
        self._spellings = spellings(dict(enumerate(self.words)))

    def vectors(self, words: Iterable[str]) -> dict[str, torch.Tensor]:
        """Word -> its vector `[hidden]`, for the words that have one."""
        places = {word: self._places.get(word, self._places.get(word.lower())) for word in words}
        return {word: self.directions_VH[place] for word, place in places.items() if place is not None}

    def nearest(self, words: Iterable[str], *, count: int) -> dict[str, list[str]]:
        """Word -> the `count` words of the highest cosine to it, itself left out, for the words that have a vector."""
        queries = self.vectors(sorted(set(words)))
        known = list(queries)
        step = max(1, _SIMILARITIES // max(1, len(self.words)))
        found: dict[str, list[str]] = {}
        starts = range(0, len(known), step)
        for start in track(starts, total=len(starts), description="nearest words"):
            chunk = known[start : start + step]
            similarity_BV = torch.stack([queries[word] for word in chunk]) @ self.directions_VH.T
            itself = [self._spellings.get(word.lower(), []) for word in chunk]
            places = highest(similarity_BV, count=count, excluded=itself)
            found.update((word, [self.words[i] for i in row]) for word, row in zip(chunk, places, strict=True))
        return found


class PieceVectors(WordVectors):
    """The input embeddings of a model: neighbours are whole-word pieces, and a word is the mean of its pieces."""

    def __init__(self, vocabulary: WholeWords, embeddings_VH: torch.Tensor):
        super().__init__(list(vocabulary.words.values()), embeddings_VH[list(vocabulary.words)])
        self._vocabulary, self._embeddings_VH = vocabulary, embeddings_VH

    def vectors(self, words: Iterable[str]) -> dict[str, torch.Tensor]:
        unknown = self._vocabulary.tokenizer.unk_token_id
        pieces = self._vocabulary.pieces(words)
        return {
            word: self._embeddings_VH[ids].mean(dim=0) for word, ids in pieces.items() if ids and unknown not in ids
        }


def read_word_vectors(source: Path) -> WordVectors:
    """Word vectors of a file in GloVe's text format, or the input embeddings of a model directory.

    Raises:
        InvalidInput: neither of them, or a broken line.
    """
    if source.is_file():
        return _read_glove(source)
    if source.is_dir():
        return _read_embeddings(source)
    raise InvalidInput(
        "--word-vectors must be a file in GloVe's text format or a model directory",
        got=str(source),
        repair="check the path",
    )


def _read_glove(path: Path) -> WordVectors:
    """Lines of a word and its numbers, parted by single spaces. Punctuation is left out, and so are the few entries of
    GloVe's 840B file that hold spaces: no word is looked up as either."""
    words: dict[str, numpy.ndarray] = {}
    width = 0
    with path.open("rb") as lines:  # parted by "\n" alone: some words hold what text mode takes for the end of a line
        for number, line in enumerate(lines, start=1):
            fields = line.decode(errors="replace").rstrip().split(" ")
            width = width or len(fields) - 1
            word, vector = " ".join(fields[:-width]), _vector(fields[-width:])
            if width < 2 or not word or vector is None or _vector(fields[1:-width]) is not None:
                raise InvalidInput(
                    "every line of --word-vectors must be a word and as many numbers as in the first line, at least 2",
                    got=f"{' '.join(fields)[:60]!r} in line {number} of {path}",
                    repair="remove a first line that counts the words, or download the file again",
                )
            if " " not in word and is_word(word):
                words.setdefault(word, vector)
    if not words:
        raise InvalidInput("--word-vectors must hold words", got=f"none in {path}", repair="download it again")
    return WordVectors(list(words), torch.from_numpy(numpy.stack(list(words.values()))))


def _vector(numbers: list[str]) -> numpy.ndarray | None:
    """Finite numbers, or None for anything else."""
    try:
        vector = numpy.array(numbers, dtype=numpy.float32)
    except ValueError:
        return None
    return vector if vector.size and numpy.isfinite(vector).all() else None


def _read_embeddings(source: Path) -> WordVectors:
    from transformers import AutoModel

    config = load_config(source, option="--word-vectors")
    model, report = from_pretrained(AutoModel, source, option="--word-vectors")
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise InvalidInput(
            f"--word-vectors must hold the weights of {type(model).__name__}",
            got=f"{source} without {missing[0]} and {len(missing) - 1} more",
            repair="save it again with save_pretrained",
        )
    vocabulary = WholeWords(load_tokenizer(source, config))
    return PieceVectors(vocabulary, model.get_input_embeddings().weight.detach())


__all__ = ["PieceVectors", "WordVectors", "read_word_vectors"]
