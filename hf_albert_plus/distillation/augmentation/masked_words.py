"""Candidates from a masked language model: the words that it expects at a masked place."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence

from ...checkpoints import from_pretrained, load_config
from ...devices import fastest_device
from ...errors import InvalidInput
from ...glue import load_tokenizer
from ...progress import track
from .whole_words import WholeWords, highest, spellings, split_words

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

    text: str
    position: int
    piece: int
    ids: list[int]
    place: int


class MaskedWords:
    """A masked language model, asked for the words that could stand in place of others.

    Raises:
        InvalidInput: no model with a masked-LM head, weights that are missing, or a tokenizer without a mask.
    """

    def __init__(self, source: str | Path):
        from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM

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
        positions = getattr(config, "max_position_embeddings", CONTEXT)
        self._context = min(CONTEXT, positions) - len(self._before) - len(self._after)

    def candidates(self, texts: list[str], *, count: int) -> dict[str, numpy.ndarray]:
        """Text -> ids of whole-word pieces `[words, count]`, `NONE` where there are fewer.

        A word that is one piece has the model's most likely words at its place, itself left out; others have none.
        """
        words = {text: split_words(text) for text in texts}
        forms = (form for split in words.values() for stem, tail in split for form in (stem, stem + tail))
        pieces = self.vocabulary.pieces(forms)
        found = {text: numpy.full((len(split), count), NONE, dtype=numpy.int32) for text, split in words.items()}
        ordered = track(sorted(words, key=len), total=len(words), description="candidates of the masked LM")
        masked = (one for text in ordered for one in self._masked(text, pieces))
        while batch := list(islice(masked, BATCH_SIZE)):
            for one, ids in zip(batch, self._most_likely(batch, count=count), strict=True):
                found[one.text][one.position, : len(ids)] = ids
        return found

    def _masked(self, text: str, pieces: dict[str, list[int]]) -> Iterator[_Masked]:
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
        output = self.model(input_ids=ids_BS.to(self.device), attention_mask=mask_BS.to(self.device))
        logits_BV = output.logits[range(len(batch)), [one.place for one in batch]].float().cpu()
        allowed_V = torch.zeros(logits_BV.shape[1], dtype=torch.bool)
        allowed_V[list(self.vocabulary.words)] = True
        itself = [self._spellings[self.vocabulary.words[one.piece].lower()] for one in batch]
        return highest(logits_BV.masked_fill(~allowed_V, -torch.inf), count=count, excluded=itself)


__all__ = ["NONE", "MaskedWords"]
