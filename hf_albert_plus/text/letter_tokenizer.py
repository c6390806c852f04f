"""The tokenizer of towers that read letter trigrams: the bytes of a text, with a boundary mark before each word."""

from typing import Any

from ..configuration_albert_plus import LETTER_SPECIALS


def letter_tokenizer() -> Any:
    """A tokenizer that gives the bytes of lower-cased words, a space before each, between `[CLS]` and `[SEP]`.

    Words are what stands between spaces. It learns nothing and knows every text; saved, it is a tokenizer.json like any other.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    vocabulary = {name: number for number, name in enumerate(LETTER_SPECIALS)}
    vocabulary |= {letter: len(LETTER_SPECIALS) + byte for byte, letter in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=LETTER_SPECIALS[1]))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), LETTER_SPECIALS, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
