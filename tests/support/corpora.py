"""Random text, and corpora of it."""

from random import Random

from hf_albert_plus.text.corpus import build_corpus
from hf_albert_plus.text.settings import CorpusSettings

WORDS = [
    "the",
    "film",
    "was",
    "good",
    "bad",
    "never",
    "always",
    "story",
    "cast",
    "is",
    "a",
    "very",
    "not",
    "dull",
    "and",
    "but",
    "moving",
    "long",
    "short",
]


def make_text(*, count: int, seed: int = 0) -> list[list[str]]:
    """Documents of lines of sentences."""
    random = Random(seed)

    def line():
        sentences = (" ".join(random.choices(WORDS, k=random.randint(2, 9))) for _ in range(random.randint(1, 4)))
        return " ".join(f"{sentence.capitalize()}." for sentence in sentences)

    return [[line() for _ in range(random.randint(1, 6))] for _ in range(count)]


def as_text(documents: list[list[str]]) -> str:
    """A line a line, a blank one between documents."""
    return "\n\n".join("\n".join(lines) for lines in documents)


def built_corpus(documents, directory, tokenizer_dir, **settings):
    """Examples of at most 32 tokens of documents, each a list of lines, a fifth of them held out."""
    (directory / "text.txt").write_text(as_text(documents), encoding="utf-8")
    build_corpus(
        [str(directory / "text.txt")],
        tokenizer=str(tokenizer_dir),
        output=directory / "corpus",
        settings=CorpusSettings(max_length=32, held_out=0.2, **settings),
        workers=1,
    )
    return directory / "corpus"
