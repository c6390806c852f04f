"""The tokenizer.json of a folder for transformers.js, which reads a few characters otherwise than Python does: what is written makes both agree."""

from typing import Any

# A character, and one that stands for it in Python, if the tokenizer takes both for the same. transformers.js splits words at JavaScript's spaces,
# which U+0085 is none of, and makes a sigma at the end of a word another letter when it lowers its case.
_SAME = {"\u0085": " ", "Σ": "σ"}
# SentencePiece's own table of characters stands in the file, but transformers.js has one in its code, which makes the joiner of emoji a space.
# Where the file's table keeps the joiner, it passes under the name of a character that no text has.
_TABLE, _JOINER, _HIDDEN = "Precompiled", "\u200d", "\ufdd0"
# BERT's ideographs, each a word of its own. Those of four bytes are two characters each to JavaScript, which finds none of them.
_IDEOGRAPHS = "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
_WIDE = "\U00020000"


def web_tokenizer(backend: Any, content: dict[str, Any]) -> dict[str, Any]:
    """What to write for transformers.js, with Python's token ids in both. It pads and cuts as its callers say.

    Args:
        backend: of the tokenizers library.
        content: its JSON, decoded.
    """
    return {
        **content,
        "normalizer": _normalizer(backend, content["normalizer"]),
        "pre_tokenizer": _pre_tokenizer(backend, content["pre_tokenizer"]),
        "padding": None,
        "truncation": None,
    }


def _normalizer(backend: Any, content: dict[str, Any] | None) -> dict[str, Any] | None:
    before = [
        _replace(one, other)
        for one, other in _SAME.items()
        if _words(backend, f"x{one}x") == _words(backend, f"x{other}x")
    ]
    parts, after = _parts(content, "normalizers"), []
    if _TABLE in [part["type"] for part in parts] and _JOINER in "".join(_words(backend, f"x{_JOINER}x")):
        before.append(_replace(_JOINER, _HIDDEN))
        after.append(_replace(_HIDDEN, _JOINER))
    return {"type": "Sequence", "normalizers": [*before, *parts, *after]} if before else content


def _pre_tokenizer(backend: Any, content: dict[str, Any] | None) -> dict[str, Any] | None:
    if _words(backend, f"x{_WIDE}x") != ["x", _WIDE, "x"]:
        return content
    split = {"type": "Split", "pattern": {"Regex": _IDEOGRAPHS}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [*_parts(content, "pretokenizers"), split]}


def _replace(one: str, other: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": one}, "content": other}


def _parts(content: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """The parts of a sequence, or the one part that there is."""
    if content is None:
        return []
    parts: list[dict[str, Any]] = content[name] if content["type"] == "Sequence" else [content]
    return parts


def _words(backend: Any, text: str) -> list[str]:
    """What a text is before its words are cut into pieces."""
    normalised = backend.normalizer.normalize_str(text) if backend.normalizer else text
    splitter = backend.pre_tokenizer
    return [word for word, _ in splitter.pre_tokenize_str(normalised)] if splitter else [normalised]
