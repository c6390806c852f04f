"""Whether a student has a vocabulary of its own."""

from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...tokenizer_files import open_tokenizer

_SPECIALS = ("cls_token", "sep_token", "pad_token", "mask_token")


def check_own_vocabulary(student: str, *, teacher: str, method: str) -> None:
    """Refuses a student whose words are the teacher's, and a tokenizer that cannot mask words.

    Raises:
        InvalidInput: no directory with a tokenizer, one with the teacher's vocabulary, or a special token that is
            missing in either.
    """
    make = (
        f"make one first: AutoTokenizer.from_pretrained({teacher!r}).train_new_from_iterator(lines, vocab_size=5000)"
        ".save_pretrained(DIR), AlbertPlusConfig(vocab_size=len(tokenizer), …).save_pretrained(DIR), then --student DIR"
    )
    rule = f"--student of {method} must be a directory with a config.json and a tokenizer of its own"
    if not (Path(student) / "tokenizer_config.json").is_file():
        raise InvalidInput(rule, got=student, repair=make)
    tokenizers: dict[str, Any] = {
        source: open_tokenizer(path, rule=f"the {source} of {method} must have a tokenizer", repair=make)
        for source, path in (("student", student), ("teacher", teacher))
    }
    if tokenizers["student"].get_vocab() == tokenizers["teacher"].get_vocab():
        raise InvalidInput(rule, got=f"{student} with the vocabulary of {teacher}", repair=make)
    for source, tokenizer in tokenizers.items():
        for name in _SPECIALS:
            if getattr(tokenizer, name) is None:
                raise InvalidInput(
                    f"{method} needs {', '.join(_SPECIALS)} of student and teacher",
                    got=f"no {name} of the {source}",
                    repair="save the tokenizer of a masked language model, with all of them",
                )


__all__ = ["check_own_vocabulary"]
