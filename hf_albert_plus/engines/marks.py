"""Characters that belong to the one before them."""

import unicodedata


def is_joined(character: str) -> bool:
    """Whether a character is a combining mark or a joiner, which stands with the character before it."""
    return unicodedata.combining(character) > 0 or unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")
