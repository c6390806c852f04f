"""Small masked language models whose likely words are known, and their tokenizers."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from tests.support.small_models import SMALL, randomise

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDPIECES = [*SPECIAL, "[unused0]", "the", "film", "movie", "story", "good", "great", "bad", "was", "##s", "##ness", ".", ","]  # fmt: skip
SENTENCEPIECES = [*SPECIAL, "▁the", "▁film", "▁movie", "▁story", "film", "ness", "▁", "s", "▁good", ".", "▁good."]
RANKING = ["##s", "[SEP]", "film", ".", "[unused0]", "movie", "good", "story", "the", "great"]


def _wrapped(tokenizer) -> PreTrainedTokenizerFast:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, SPECIAL, strict=True)))


def wordpiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(WORDPIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return _wrapped(tokenizer)


def sentencepiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in SENTENCEPIECES], unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return _wrapped(tokenizer)


def byte_level() -> PreTrainedTokenizerFast:
    pieces = [*SPECIAL, "a", "t", "Ġ", "Ġa", "at", "Ġat"]
    merges = [("a", "t"), ("Ġ", "at"), ("Ġ", "a")]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _wrapped(tokenizer)


def save_masked_lm(directory: Path, tokenizer: PreTrainedTokenizerFast, **fields) -> BertForMaskedLM:
    torch.manual_seed(0)
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer), **fields}, pad_token_id=0)
    model = randomise(BertForMaskedLM(config))
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model


def save_biased_lm(directory: Path, tokenizer: PreTrainedTokenizerFast, ranking: list[str]) -> None:
    """A masked LM that expects the same at every place: its head sees zeros, and the bias ranks the pieces."""
    model = save_masked_lm(directory, tokenizer)
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.zero_()
        model.cls.predictions.transform.LayerNorm.bias.zero_()
        model.cls.predictions.bias.fill_(-100.0)
        for rank, piece in enumerate(ranking):
            model.cls.predictions.bias[tokenizer.convert_tokens_to_ids(piece)] = -float(rank)
    model.save_pretrained(directory)
