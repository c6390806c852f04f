"""Tokenizers with the pieces alone that some texts use. These texts are read as before; a word of none of them is read in smaller pieces."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..checkpoints import VOCABULARY_FILES
from ..errors import InvalidInput
from ..records.files import read_json, write_json

_FILE = "tokenizer.json"
_BATCH = 1000


def pieces_of(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The ids that some texts are read as, however long they are.

    Raises:
        InvalidInput: a tokenizer that is not fast.
    """
    if not tokenizer.is_fast:
        raise InvalidInput(
            "a vocabulary that can be cut is a fast tokenizer's",
            got=type(tokenizer).__name__,
            repair="save it as a fast one, with a tokenizer.json",
        )
    backend: Any = tokenizer.backend_tokenizer
    backend.no_truncation()
    used: set[int] = set()
    waiting: list[str] = []
    for text in texts:
        waiting.append(text)
        if len(waiting) == _BATCH:
            used.update(*(encoded.ids for encoded in backend.encode_batch_fast(waiting)))
            waiting = []
    return used.union(*(encoded.ids for encoded in backend.encode_batch_fast(waiting)))


def with_pieces(tokenizer: PreTrainedTokenizerBase, used: set[int], directory: Path) -> list[int]:
    """Writes a tokenizer of the pieces that are used, those that a word is made of at the least (single characters), and every special
    token.

    It reads the texts whose pieces these are as before. WordPiece takes the longest piece that fits, and Unigram the likeliest pieces: none that
    could win is missing. Of BPE the merges that lead to a used piece stay.

    Args:
        tokenizer: a fast one, of the kinds WordPiece, Unigram or BPE.
        directory: gets its files.

    Returns:
        The old id of each piece that stays, in the order of their new ids, which is that of the old ones.

    Raises:
        InvalidInput: a tokenizer of another kind.
    """
    tokenizer.save_pretrained(directory)
    content = read_json(directory / _FILE, what="a tokenizer", shape=dict[str, Any])
    model, added = content["model"], content["added_tokens"]
    if model["type"] not in _KINDS:
        raise InvalidInput(
            f"a vocabulary that can be cut is of the kinds {', '.join(_KINDS)}",
            got=model["type"],
            repair="make a tokenizer of one of them: albert-plus tokenizer train",
        )
    backend: Any = tokenizer.backend_tokenizer
    ids = backend.get_vocab(with_added_tokens=False)
    wanted = used | {each["id"] for each in added} | {ids[piece] for piece in ids if _is_single(piece, model)}
    if model["type"] == "BPE":
        wanted |= {ids[piece] for piece in _parts({piece for piece in ids if ids[piece] in wanted}, model)}
    if model["type"] == "Unigram" and model.get("unk_id") is not None:
        wanted.add(model["unk_id"])
    kept = sorted(wanted)
    new_of = {old: new for new, old in enumerate(kept)}
    _KINDS[model["type"]](model, new_of)
    for each in added:
        each["id"] = new_of[each["id"]]
    content["post_processor"] = _renumbered(content["post_processor"], new_of)
    if content["padding"] is not None:
        content["padding"]["pad_id"] = new_of[content["padding"]["pad_id"]]
    write_json(directory / _FILE, content)
    for name in VOCABULARY_FILES:
        (directory / name).unlink(missing_ok=True)
    _check(directory, tokenizer, kept)
    return kept


def _is_single(piece: str, model: dict[str, Any]) -> bool:
    """Whether a piece is one character, in a word or where one begins. A byte that stands for itself, as `<0x0A>`, is one too."""
    prefix = model.get("continuing_subword_prefix") or ""
    bare = piece[len(prefix) :] if prefix and piece.startswith(prefix) else piece
    return len(bare.removeprefix("▁")) <= 1 or (len(bare) == 6 and bare.startswith("<0x") and bare.endswith(">"))


def _parts(pieces: set[str], model: dict[str, Any]) -> set[str]:
    """The pieces that merges make these of."""
    made_of: dict[str, list[tuple[str, str]]] = {}
    for first, second in map(_pair, model["merges"]):
        made_of.setdefault(first + second, []).append((first, second))
    found, waiting = set(pieces), list(pieces)
    while waiting:
        new = {part for pair in made_of.get(waiting.pop(), []) for part in pair} - found
        found |= new
        waiting += new
    return found


def _pair(merge: Any) -> tuple[str, str]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _cut_by_name(model: dict[str, Any], new_of: dict[int, int]) -> None:
    model["vocab"] = {piece: new_of[old] for piece, old in model["vocab"].items() if old in new_of}


def _cut_by_place(model: dict[str, Any], new_of: dict[int, int]) -> None:
    model["vocab"] = [entry for place, entry in enumerate(model["vocab"]) if place in new_of]
    if model.get("unk_id") is not None:
        model["unk_id"] = new_of[model["unk_id"]]


def _cut_with_merges(model: dict[str, Any], new_of: dict[int, int]) -> None:
    _cut_by_name(model, new_of)
    known = model["vocab"]
    model["merges"] = [
        merge for merge in model["merges"] if all(piece in known for piece in (*_pair(merge), "".join(_pair(merge))))
    ]


_KINDS = {"WordPiece": _cut_by_name, "Unigram": _cut_by_place, "BPE": _cut_with_merges}


def _renumbered(step: Any, new_of: dict[int, int]) -> Any:
    """A post-processor with the new ids of its special tokens, in whichever form they stand there: `{"ids": [101]}` or `["[CLS]", 101]`."""
    if isinstance(step, dict):
        return {
            name: [new_of[old] for old in value] if name == "ids" else _renumbered(value, new_of)
            for name, value in step.items()
        }
    if isinstance(step, list):
        if len(step) == 2 and isinstance(step[0], str) and type(step[1]) is int:
            return [step[0], new_of[step[1]]]
        return [_renumbered(each, new_of) for each in step]
    return step


def _check(directory: Path, before: PreTrainedTokenizerBase, kept: list[int]) -> None:
    """
    Raises:
        InvalidInput: the files open as a tokenizer with other pieces.
    """
    after = AutoTokenizer.from_pretrained(str(directory))
    old = {number: piece for piece, number in before.get_vocab().items()}
    if after.get_vocab() != {old[number]: place for place, number in enumerate(kept)}:
        raise InvalidInput(
            "a tokenizer must open with the pieces that its tokenizer.json has",
            got=f"a {type(before).__name__} with others",
            repair="use the model with all of its vocabulary",
        )
