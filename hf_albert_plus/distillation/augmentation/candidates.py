"""Candidates for replacing a word: what a masked language model expects in its place, or the nearest words by cosine.

Word vectors come from a file in GloVe's format or from a model's input embeddings.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModel, AutoModelForMaskedLM

from ...config_files import load_config
from ...errors import InvalidInput
from ...machine import fastest_device
from ...model_inputs import longest_input
from ...records.progress import track
from ...tasks.rows import load_tokenizer
from ...weight_files import from_pretrained
from .words import Text, WholeWords, highest, is_word, spellings, split_words

BATCH_SIZE = 32
# Words further from the mask say little about it, and cost as much as near ones.
CONTEXT = 128
NONE = -1


class _Masked(NamedTuple):
    """A text with one word masked.

    Attributes:
        position: of the word.
        piece: id of the word that the mask stands for.
        place: of the mask among `ids`.
    """

    text: Text
    position: int
    piece: int
    ids: list[int]
    place: int


class MaskedLmCandidates:
    """A masked language model, asked for the words that could stand in place of others.

    Raises:
        InvalidInput: no model with a masked-LM head, weights that are missing, or a tokenizer without a mask.
    """

    def __init__(self, source: str | Path):
        config = load_config(source, option="--masked-lm")
        missing = [f"the architecture {config.model_type}"]
        if type(config) in MODEL_FOR_MASKED_LM_MAPPING:
            model, report = from_pretrained(AutoModelForMaskedLM, source, option="--masked-lm")
            missing = sorted(report["missing_keys"])
        if missing:
            raise InvalidInput(
                "--masked-lm must be a model with a masked-LM head",
                got=f"{source} without it ({missing[0]} …)",
                repair="use a pretrained encoder as it was released, before fine-tuning",
            )
        self.tokenizer = load_tokenizer(source, config)
        if self.tokenizer.mask_token_id is None:
            raise InvalidInput(
                "--masked-lm must have a tokenizer with a mask",
                got=f"{source} without mask_token",
                repair="set it there",
            )
        self.device = fastest_device()
        self.model: Any = model.eval().to(self.device)
        self.vocabulary = WholeWords(self.tokenizer)
        self._spellings = spellings(self.vocabulary.words)
        alone = self.tokenizer(self.tokenizer.mask_token)["input_ids"]
        place = alone.index(self.tokenizer.mask_token_id)
        self._before, self._after = alone[:place], alone[place + 1 :]
        self._context = min(CONTEXT, longest_input(config)) - len(self._before) - len(self._after)

    def candidates(self, texts: Sequence[Text], *, count: int) -> dict[Text, numpy.ndarray]:
        """Text -> ids of whole-word pieces `[words, count]`, `NONE` where there are fewer.

        A word that is one piece has the model's most likely words at its place, itself left out; others have none.
        """
        words = {text: split_words(text) for text in texts}
        forms = (form for split in words.values() for stem, tail in split for form in (stem, stem + tail))
        pieces = self.vocabulary.pieces(forms)
        candidates = {text: numpy.full((len(split), count), NONE, dtype=numpy.int32) for text, split in words.items()}
        ordered = track(sorted(words, key=len), total=len(words), description="candidates of the masked LM")
        masked = (one for text in ordered for one in self._masked(text, pieces))
        while batch := list(islice(masked, BATCH_SIZE)):
            for one, ids in zip(batch, self._most_likely(batch, count=count), strict=True):
                candidates[one.text][one.position, : len(ids)] = ids
        return candidates

    def _masked(self, text: Text, pieces: dict[str, list[int]]) -> Iterator[_Masked]:
        words = split_words(text)
        ids = [piece for stem, tail in words for piece in pieces[stem + tail]]
        place = 0
        for position, (stem, tail) in enumerate(words):
            of_stem, of_word = pieces[stem], pieces[stem + tail]
            # The tail may be part of the piece, as in SentencePiece's "▁Mr.".
            if len(of_stem) == 1 and of_stem[0] in self.vocabulary.words and of_word[:1] == of_stem:
                begin = max(0, min(place - self._context // 2, len(ids) - self._context))
                context = ids[begin : begin + self._context]
                context[place - begin] = self.tokenizer.mask_token_id
                yield _Masked(
                    text,
                    position,
                    piece=of_stem[0],
                    ids=[*self._before, *context, *self._after],
                    place=len(self._before) + place - begin,
                )
            place += len(of_word)

    @torch.inference_mode()
    def _most_likely(self, batch: list[_Masked], *, count: int) -> list[list[int]]:
        rows = [torch.tensor(one.ids) for one in batch]
        ids_BS = pad_sequence(rows, batch_first=True, padding_value=self.tokenizer.pad_token_id)
        mask_BS = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        with head_at(self.model, [one.place for one in batch]):
            output = self.model(input_ids=ids_BS.to(self.device), attention_mask=mask_BS.to(self.device))
        logits_BV = output.logits[:, 0].float().cpu()
        allowed_V = torch.zeros(logits_BV.shape[1], dtype=torch.bool)
        allowed_V[list(self.vocabulary.words)] = True
        itself = [self._spellings[self.vocabulary.words[one.piece].lower()] for one in batch]
        return highest(logits_BV.masked_fill(~allowed_V, -torch.inf), count=count, excluded=itself)


@contextmanager
def head_at(model: Any, places: list[int]) -> Iterator[None]:
    """Lets the head of a masked language model read one place of each row alone: over a whole text it costs as much as a small encoder."""

    def at_the_places(module: Any, inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[range(len(places)), places].unsqueeze(1)
        return output

    hook = model.base_model.register_forward_hook(at_the_places)
    try:
        yield
    finally:
        hook.remove()


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
        neighbours: dict[str, list[str]] = {}
        starts = range(0, len(known), step)
        for start in track(starts, total=len(starts), description="nearest words"):
            chunk = known[start : start + step]
            similarity_BV = torch.stack([queries[word] for word in chunk]) @ self.directions_VH.T
            itself = [self._spellings.get(word.lower(), []) for word in chunk]
            places = highest(similarity_BV, count=count, excluded=itself)
            neighbours.update((word, [self.words[i] for i in row]) for word, row in zip(chunk, places, strict=True))
        return neighbours


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
