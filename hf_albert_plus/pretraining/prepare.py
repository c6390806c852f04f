"""From what --corpus names to a directory of examples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import processes
from ..corpus import CorpusSettings, build_corpus
from ..errors import InvalidInput
from ..tokenization import TokenizerSettings, train_tokenizer


def prepare_corpus(
    corpus: Sequence[str],
    *,
    output: Path,
    tokenizer: str | None,
    vocab_size: int,
    seed: int,
    column: str = "text",
    given: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """The directory itself where `build_corpus` made it; of text, `OUT-corpus`, with a tokenizer of its own in `OUT-tokenizer`
    where none is given. What is there is used again.

    Args:
        given: options that say how text becomes examples, of those that a user has given.

    Raises:
        InvalidInput: text, and several processes: making examples takes longer than they wait for each other; or examples that are
            made, and an option for text.
    """
    if len(corpus) == 1 and (Path(corpus[0]) / "dataset_dict.json").is_file():
        for option, value in (given or {}).items():
            raise InvalidInput(
                f"{option} must be left out where --corpus is a directory of examples, which were made with their own",
                got=value,
                repair="leave it out, or build the corpus with it: albert-plus corpus build",
            )
        return Path(corpus[0])
    if processes.count() > 1:
        raise InvalidInput(
            "--corpus must be a directory of albert-plus corpus build where several processes train",
            got=" ".join(corpus),
            repair="build it first: albert-plus corpus build --corpus ... --tokenizer DIR --out corpus",
        )
    examples = output.with_name(f"{output.name}-corpus")
    if tokenizer is None:
        learned = output.with_name(f"{output.name}-tokenizer")
        learning = TokenizerSettings(vocab_size=vocab_size, seed=seed, column=column)
        train_tokenizer(corpus, output=learned, settings=learning)
        tokenizer = str(learned)
    build_corpus(
        corpus, tokenizer=tokenizer, output=examples, settings=CorpusSettings(seed=seed, column=column, **settings)
    )
    return examples


__all__ = ["prepare_corpus"]
