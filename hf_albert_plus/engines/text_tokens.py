"""Texts as rows of token ids: by the tokenizers library alone where a directory says everything itself, else by transformers.

Importing transformers takes seconds, and a process that only serves has no other use for it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import need
from ..heads import is_answerer, is_tagger
from ..model_inputs import input_names
from ..tasks.long_texts import CUT, MOST_WINDOWS, LongTexts, check_says_sequences, is_whole
from ..tasks.windows import Answering
from .padding import OFFSETS, Ids, Padding
from .text_answers import Text

# What tokenizer_config.json may ask of BERT's normaliser, and what tokenizer.json calls it.
_NORMALISER = {
    "do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars",
}  # fmt: skip


# More than any tokenizer makes one token of; what is beyond is refused or cut before it costs a tokenizer's time.
_CHARACTERS_A_TOKEN = 64
# Of each token of a row, the number of the text that it is of.
SEQUENCES = "sequences"


def characters_read(max_length: int, long: LongTexts = CUT) -> int:
    """Characters of a text that could matter to so many tokens, or to so many of each of its windows; where its beginning and its end are
    read, of either."""
    return _CHARACTERS_A_TOKEN * max_length * (MOST_WINDOWS if long.has_windows else 1)


@dataclass(frozen=True)
class Encoded:
    """Token ids of texts, in their order.

    Attributes:
        rows: no longer than the model takes. A text that is read in windows has a row for each.
        tokens: that each text has; of one with far too many characters, those that were read.
        truncated: of which texts something was left out.
        answering: of each row, the text and the tokens that it answers for; None where each text has one row.
    """

    rows: list[Ids]
    tokens: list[int]
    truncated: list[bool]
    answering: list[Answering] | None = None


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

    def encode(self, texts: Sequence[Text], *, longest: int, long: LongTexts = CUT) -> Encoded:
        """Tokenises, and cuts what is too long, or makes windows of it.

        Args:
            longest: tokens of a row that the model takes, as it was opened for.
            long: what happens to longer texts, as it was opened for.
        """
        if not long.is_cut:
            return self._in_pieces(texts, longest=longest, long=long)
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

    def _in_pieces(self, texts: Sequence[Text], *, longest: int, long: LongTexts) -> Encoded:
        most = characters_read(longest, long)
        ends = [] if long.has_windows else [_Ends.of(text, most) for text in texts]
        shortened = [each.text for each in ends] or [_shortened(text, most) for text in texts]
        whole = self.whole(shortened)
        tokens = [len(row["input_ids"]) for row in whole]
        pieces = [long.pieces(row[SEQUENCES], size=longest) for row in whole]
        truncated = [
            not is_whole(of_text, count) or text is not given
            for of_text, count, text, given in zip(pieces, tokens, shortened, texts, strict=True)
        ]
        rows: list[Ids] = [
            {name: piece.of(values) for name, values in row.items() if name != SEQUENCES}
            for row, of_text in zip(whole, pieces, strict=True)
            for piece in of_text
        ]
        if long.has_windows:
            answering = [piece.answering(number) for number, of_text in enumerate(pieces) for piece in of_text]
            return Encoded(rows, tokens, truncated, answering)
        if rows and OFFSETS in rows[0]:
            rows = [{**row, OFFSETS: each.offsets(row[OFFSETS])} for row, each in zip(rows, ends, strict=True)]
        return Encoded(rows, tokens, truncated)


def _shortened(text: Text, characters: int) -> Text:
    """A text, or each of a pair, with no more characters than could matter; the very same one where it has no more."""
    if isinstance(text, str):
        return text if len(text) <= characters else text[:characters]
    return text if max(map(len, text)) <= characters else (text[0][:characters], text[1][:characters])


@dataclass(frozen=True)
class _Ends:
    """The beginning and the end of a text, or of each of a pair, without a middle that could not matter; the very same one where it has
    none.

    Attributes:
        head: characters of the beginning.
        left_out: characters between it and the end, of a text alone.
    """

    text: Text
    head: int
    left_out: int

    @classmethod
    def of(cls, text: Text, characters: int) -> "_Ends":
        """Those of so many characters each."""
        if isinstance(text, str):
            left_out = max(0, len(text) - 2 * characters)
            return cls(text[:characters] + text[-characters:] if left_out else text, characters, left_out)
        first, second = (cls.of(each, characters) for each in text)
        is_whole = not first.left_out and not second.left_out
        return cls(text if is_whole else (str(first.text), str(second.text)), characters, 0)

    def offsets(self, of_tokens: Sequence[Any]) -> list[tuple[int, int]]:
        """Characters of the ends as characters of the text."""
        return [
            (start + self.left_out, end + self.left_out) if start >= self.head else (start, end)
            for start, end in of_tokens
        ]


def open_text_tokens(directory: Path, config: Any, *, longest: int, long: LongTexts = CUT) -> TextTokens:
    """The tokenizer of a model directory.

    Args:
        config: the model's, as transformers or `read_plain_config` read it.
        longest: tokens of a row that the model takes.
        long: what happens to longer texts.

    Raises:
        InvalidInput: none, or one that does not fit to the model or to the texts.
    """
    plain = read_plain_tokens(directory, config, longest=longest, long=long)
    return plain or _of_transformers(directory, config, longest=longest, long=long)


def read_plain_tokens(directory: Path, config: Any, *, longest: int, long: LongTexts = CUT) -> TextTokens | None:
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
    names, beside = input_names(config), _beside(config, long)
    return TextTokens(
        padding=Padding(side=str(said.get("padding_side", "right")), token=pad, token_type=said.get("pad_token_type_id", 0)),
        whole=lambda texts: _rows(whole.encode_batch(list(texts)), names, beside),
        cut=lambda texts: _rows(cut.encode_batch(list(texts)), names, beside),
    )  # fmt: skip


def _beside(config: Any, long: LongTexts) -> dict[str, str]:
    """What rows have beside what the model reads -> what it is called in an encoding."""
    if is_answerer(config):
        return {OFFSETS: "offsets", SEQUENCES: "sequence_ids"}
    offsets = {OFFSETS: "offsets"} if is_tagger(config) else {}
    return offsets if long.is_cut else {**offsets, SEQUENCES: "sequence_ids"}


def _rows(encodings: Sequence[Any], names: Sequence[str], beside: Mapping[str, str]) -> list[Ids]:
    if beside:
        bare = _rows(encodings, names, {})
        return [
            {**row, **{name: getattr(one, said) for name, said in beside.items()}}
            for row, one in zip(bare, encodings, strict=True)
        ]
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


def _of_transformers(directory: Path, config: Any, *, longest: int, long: LongTexts) -> TextTokens:
    need("transformers", extra="cpu")
    from ..tasks.rows import load_tokenizer
    from ..tasks.word_pieces import check_offsets

    tokenizer: Any = load_tokenizer(directory, config)
    check_says_sequences(tokenizer, long)
    if is_tagger(config) or is_answerer(config):
        check_offsets(tokenizer)
    beside = _beside(config, long)
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
                encoded = tokenizer(*columns, **{"truncation": False, **cut}, verbose=False)
            for number, place in enumerate(places):
                of_text = {name: getattr(encoded.encodings[number], said) for name, said in beside.items()}
                found[place] = {**{name: encoded[name][number] for name in names}, **of_text}
        return found

    return TextTokens(
        padding=Padding.of(tokenizer),
        whole=rows,
        cut=lambda texts: rows(texts, truncation=True, max_length=longest),
    )
