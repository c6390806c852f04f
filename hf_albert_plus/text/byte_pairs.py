"""Vocabularies of byte-level BPE as RoBERTa's (Liu et al. 2019, section 4.4): pieces of bytes, so that no text has an unknown one."""

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import InvalidInput

# In RoBERTa's order. <mask> takes the space before it, as RoBERTa's does.
_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
# The smallest vocabulary: specials, and a piece of each byte.
LEAST_PIECES = len(_SPECIALS) + 256
# Bytes: a longer word, such as a line of a million dashes, has no pieces of its own, and would take hours to merge.
_LONGEST_WORD = 200


def train_byte_pairs(lines: Iterable[str], *, vocab_size: int, max_length: int = 512) -> Any:
    """A tokenizer that keeps letters and accents as they are. The same text gives the same vocabulary.

    A pair is `<s> A </s></s> B </s>`, as RoBERTa has it, with token types. Each text begins with a space, unlike RoBERTa's: corpora
    are cut into sentences before they are encoded, and a word has the same pieces at the beginning of one and within it.

    Raises:
        InvalidInput: there is no character in the lines that can be seen.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=True)
    mask = AddedToken("<mask>", lstrip=True, special=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[*_SPECIALS[:-1], mask],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer = Tokenizer(models.BPE())
    # Of words that are bytes already.
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_words(_with_text(lines), by_bytes), trainer)
    tokenizer.pre_tokenizer, tokenizer.decoder = by_bytes, decoders.ByteLevel()
    first, separator = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single="<s> $A </s>",
                pair="<s> $A </s> </s> $B:1 </s>:1",
                special_tokens=[("<s>", first), ("</s>", separator)],
            ),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=mask,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        model_max_length=max_length,
    )


def _words(lines: Iterable[str], by_bytes: Any) -> Iterator[str]:
    """The words of each line as bytes, with spaces between them."""
    for line in lines:
        words = (word for word, _ in by_bytes.pre_tokenize_str(line))
        yield " ".join(word for word in words if len(word) <= _LONGEST_WORD)


def _with_text(lines: Iterable[str]) -> Iterator[str]:
    """The lines, which must have text in them."""
    seen = False
    for line in lines:
        seen = seen or any(not letter.isspace() and letter.isprintable() and letter != "\ufffd" for letter in line)
        yield line
    if not seen:
        raise InvalidInput(
            "--corpus must hold text",
            got="none but spaces and control characters",
            repair="check the files, or name the --column of text",
        )
