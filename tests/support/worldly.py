"""Texts as people write them: generated ones with characters and words that the demo's language has none of."""

from random import Random

# Between two letters, and as words of their own.
_INSIDE = (
    "\u0085", "\u00ad", "\u200b", "\u200d", "\ufeff", "\u0007", "\u0301", "\u0308\u0323", "é", "ß", "ﬁ", "½", "ſ", "İ", "’", "\t", "\n", "\u00a0", "\u2028", "Σ",
)  # fmt: skip
_WORDS = (
    "Café", "ÜBER", "naïve", "“quotes”", "ＦＵＬＬ", "日本語", "東京に行く", "한국어", "𠮷野家", "ΟΔΟΣ", "привет", "हिन्दी", "ไทย", "😀", "👩‍👩‍👧", "🇩🇪", "❤️", "don't!!!",
    "``so''", "e\u0301te\u0301", "1,000.50", "①", "C++/C#", "Donaudampfschifffahrt", "…", "—", "\u0085",
)  # fmt: skip


def worldly(texts: list[str], *, seed: int) -> list[str]:
    """The texts, each with one to three such characters or words put into it."""
    drawn = Random(seed)
    return [_put_into(text, drawn) for text in texts]


def _put_into(text: str, drawn: Random) -> str:
    for _ in range(drawn.randint(1, 3)):
        if drawn.random() < 0.5:
            at = drawn.randrange(1, len(text))
            text = text[:at] + drawn.choice(_INSIDE) + text[at:]
        else:
            words = text.split(" ")
            words.insert(drawn.randint(0, len(words)), drawn.choice(_WORDS))
            text = " ".join(words)
    return text
