"""Texts as rows of token ids: by the tokenizers library alone where a directory says everything itself, else by transformers.

Importing transformers takes seconds, and a process that only serves has no other use for it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import need
from ..heads import is_answerer, is_tagger
from ..model_inputs import input_names
from .padding import OFFSETS, SEQUENCES, Ids, Padding
from .text_answers import Text

# What tokenizer_config.json may ask of BERT's normaliser, and what tokenizer.json calls it.
_NORMALISER = {
    "do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars",
}  # fmt: skip


# More than any tokenizer makes one token of; what is beyond is refused or cut before it costs a tokenizer's time.
_CHARACTERS_A_TOKEN = 64


def characters_read(max_length: int) -> int:
    """Characters of a text that could matter to so many tokens."""
    return _CHARACTERS_A_TOKEN * max_length


@dataclass(frozen=True)
class Encoded:
    """Token ids of texts, in their order.

    Attributes:
        rows: no longer than the model takes.
        tokens: that each text has; of one with far too many characters, those that were read.
        truncated: which were cut.
    """

    rows: list[Ids]
    tokens: list[int]
    truncated: list[bool]


@dataclass(frozen=True)
class TextTokens:
    """A tokenizer as serving uses it, from several threads.

    Attributes:
        padding: how its rows become rectangles.
        whole: texts -> their rows, of any length.
        cut: texts -> their rows, none of which is longer than the model takes.
    """

    padding: Padding
    whole: Callable[[Sequence[Text]], list[Ids]]
    cut: Callable[[Sequence[Text]], list[Ids]]

    def encode(self, texts: Sequence[Text], *, longest: int) -> Encoded:
        """Tokenises, and cuts what is too long.

        Args:
            longest: tokens of a text that the model takes, as it was opened for.
        """
        shortened = [_shortened(text, characters_read(longest)) for text in texts]
        rows = self.whole(shortened)
        tokens = [len(row["input_ids"]) for row in rows]
        too_long = [place for place, length in enumerate(tokens) if length > longest]
        if too_long:
            cut = self.cut([shortened[place] for place in too_long])
            for place, row in zip(too_long, cut, strict=True):
                rows[place] = row
        truncated = [
            length > longest or text is not given for length, text, given in zip(tokens, shortened, texts, strict=True)
        ]
        return Encoded(rows, tokens, truncated)


def _shortened(text: Text, characters: int) -> Text:
    """A text, or each of a pair, with no more characters than could matter; the very same one where it has no more."""
    if isinstance(text, str):
        return text if len(text) <= characters else text[:characters]
    return text if max(map(len, text)) <= characters else (text[0][:characters], text[1][:characters])


def open_text_tokens(directory: Path, config: Any, *, longest: int) -> TextTokens:
    """The tokenizer of a model directory.

    Args:
        config: the model's, as transformers or `read_plain_config` read it.
        longest: tokens of a text that the model takes.

    Raises:
        InvalidInput: none, or one that does not fit to the model.
    """
    return read_plain_tokens(directory, config, longest=longest) or _of_transformers(directory, config, longest=longest)


def read_plain_tokens(directory: Path, config: Any, *, longest: int) -> TextTokens | None:
    """The tokenizer of a model directory without transformers; None where transformers must read it, or say what is wrong with it."""
    from tokenizers import Tokenizer

    file = directory / "tokenizer.json"
    try:
        said = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
        if not _is_plain(said, json.loads(file.read_text(encoding="utf-8"))):
            return None
        whole, cut = Tokenizer.from_file(str(file)), Tokenizer.from_file(str(file))
        pad = whole.token_to_id(_content(said["pad_token"]))
        needed = max(whole.get_vocab(with_added_tokens=True).values()) + 1
        added = {int(number): _content(token) for number, token in said.get("added_tokens_decoder", {}).items()}
        named = all(whole.id_to_token(number) == token for number, token in added.items())
        whole.no_padding()
        whole.no_truncation()
        cut.no_padding()
        cut.enable_truncation(longest, strategy="longest_first", direction=said.get("truncation_side", "right"))
        is_usable = named and needed <= config.vocab_size and whole.encode("a word", "Ж another").ids
    except Exception:  # tokenizers raises Exception itself; transformers says what is wrong
        return None
    if pad is None or not is_usable:
        return None
    names, aside = input_names(config), _aside(config)
    return TextTokens(
        padding=Padding(side=str(said.get("padding_side", "right")), token=pad, token_type=said.get("pad_token_type_id", 0)),
        whole=lambda texts: _rows(whole.encode_batch(list(texts)), names, aside),
        cut=lambda texts: _rows(cut.encode_batch(list(texts)), names, aside),
    )  # fmt: skip


def _aside(config: Any) -> tuple[str, ...]:
    """What rows have beside what a model reads."""
    if is_answerer(config):
        return OFFSETS, SEQUENCES
    return (OFFSETS,) if is_tagger(config) else ()


def _rows(encodings: Sequence[Any], names: Sequence[str], aside: Sequence[str] = ()) -> list[Ids]:
    if aside:
        found: Sequence[dict[str, Any]] = [
            {OFFSETS: one.offsets, SEQUENCES: one.sequence_ids if SEQUENCES in aside else None} for one in encodings
        ]
        bare = zip(_rows(encodings, names), found, strict=True)
        return [{**row, **{name: of_row[name] for name in aside}} for row, of_row in bare]
    if "token_type_ids" in names:
        return [
            {"input_ids": one.ids, "attention_mask": one.attention_mask, "token_type_ids": one.type_ids}
            for one in encodings
        ]
    return [{"input_ids": one.ids, "attention_mask": one.attention_mask} for one in encodings]


def _is_plain(said: dict[str, Any], file: dict[str, Any]) -> bool:
    """Whether tokenizer_config.json asks nothing of tokenizer.json that is not in it."""
    normaliser = file.get("normalizer") or {}
    if normaliser.get("type") != "BertNormalizer":
        return not said.get("do_lower_case") or "Lowercase" in json.dumps(normaliser)
    return all(said.get(option, normaliser[field]) == normaliser[field] for option, field in _NORMALISER.items())


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token)


def _of_transformers(directory: Path, config: Any, *, longest: int) -> TextTokens:
    need("transformers", extra="cpu")
    from ..tasks.rows import load_tokenizer
    from ..tasks.word_pieces import check_offsets

    tokenizer: Any = load_tokenizer(directory, config)
    aside = _aside(config)
    if aside:
        check_offsets(tokenizer)
    # It keeps what it was last told of truncation.
    names, in_turn = input_names(config), Lock()

    def rows(texts: Sequence[Text], **cut: Any) -> list[Ids]:
        found: list[Ids] = [{}] * len(texts)
        for is_pair in (False, True):
            places = [place for place, text in enumerate(texts) if isinstance(text, tuple) == is_pair]
            if not places:
                continue
            chosen: Any = [texts[place] for place in places]
            columns = [list(column) for column in zip(*chosen, strict=True)] if is_pair else [chosen]
            with in_turn:
                encoded = tokenizer(
                    *columns, **{"truncation": False, **cut}, verbose=False, return_offsets_mapping=bool(aside)
                )
            for number, place in enumerate(places):
                of_text = {OFFSETS: encoded["offset_mapping"][number]} if aside else {}
                if SEQUENCES in aside:
                    of_text[SEQUENCES] = encoded.sequence_ids(number)
                found[place] = {**{name: encoded[name][number] for name in names}, **of_text}
        return found

    return TextTokens(
        padding=Padding.of(tokenizer),
        whole=rows,
        cut=lambda texts: rows(texts, truncation=True, max_length=longest),
    )
