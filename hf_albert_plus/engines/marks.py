"""Characters that belong to the one before them, and those behind a text that nobody sees."""

import unicodedata

# Zero width ones, which shape the letter before them.
_JOINERS = "\u200c\u200d"
# Of the flags of regions, which are written as a flag with tags behind it.
_TAGS = range(0xE0020, 0xE0080)


def is_joined(character: str) -> bool:
    """Whether a character is a combining mark or a joiner, which stands with the character before it."""
    return unicodedata.combining(character) > 0 or unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")


def without_unseen_end(text: str) -> str:
    """A text without the blanks and format characters behind its last letter, such as the marks of a direction; a joiner that stands with
    that letter stays."""
    end = len(text)
    while end and _is_unseen(text[end - 1]):
        end -= 1
    while 0 < end < len(text) and text[end] in _JOINERS:
        end += 1
    return text[:end]


def _is_unseen(character: str) -> bool:
    return character.isspace() or (unicodedata.category(character) == "Cf" and ord(character) not in _TAGS)
