"""WordPiece vocabularies, with BERT's normalisation."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..errors import InvalidInput

_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PREFIX = "##"
# Longer words are unknown to the tokenizer, whatever its vocabulary.
_LONGEST_WORD = 100
# Characters, at the beginning of words and within them; rarer ones are unknown.
_LARGEST_ALPHABET = 2000


def train_wordpiece(lines: Callable[[], Iterable[str]], *, vocab_size: int, max_length: int = 512) -> Any:
    """A lower-casing tokenizer that gives pairs token types. The same text gives the same vocabulary.

    Args:
        lines: gives the text anew each time it is called.

    Raises:
        InvalidInput: there are no words in it.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    normalizer, pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()

    def words() -> Iterator[list[str]]:
        for line in lines():
            split = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(line))
            yield [word for word, _ in split if len(word) <= _LONGEST_WORD]

    counts: Counter[str] = Counter()
    for line in words():
        counts.update(piece for word in line for piece in _characters(word))
    if not counts:
        raise InvalidInput(
            "--corpus must hold text", got="no words", repair="check the files, or name the --column of text"
        )
    frequent = sorted(counts, key=lambda piece: (-counts[piece], piece))[:_LARGEST_ALPHABET]
    # The trainer numbers what it meets in no fixed order, and merges pairs of the same count by number: it gets the
    # characters' numbers from here, and no others.
    known = set(frequent)
    learner = Tokenizer(models.WordPiece(unk_token=_SPECIALS[1]))
    learner.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*_SPECIALS, *sorted(known)], show_progress=False
    )
    spellable = (" ".join(word for word in line if known.issuperset(_characters(word))) for line in words())
    learner.train_from_iterator(spellable, trainer)

    tokenizer = Tokenizer(models.WordPiece(vocab=learner.get_vocab(), unk_token=_SPECIALS[1]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    first, separator = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", first), ("[SEP]", separator)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        model_max_length=max_length,
    )


def _characters(word: str) -> list[str]:
    return [word[0], *(_PREFIX + character for character in word[1:])]


__all__ = ["train_wordpiece"]
