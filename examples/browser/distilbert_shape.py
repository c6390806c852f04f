"""Writes a classifier of DistilBERT's shape with random weights: as large and as fast as those that pages load today, and it knows nothing.

    python examples/browser/distilbert_shape.py distilbert/distilbert-base-uncased work/distilbert
    albert-plus export work/distilbert --to web --out work/distilbert-web

The first argument is a tokenizer with BERT's vocabulary, a directory or a Hub id.
"""

import sys

import torch
from transformers import AutoTokenizer, DistilBertConfig, DistilBertForSequenceClassification


def write_shape(tokenizer: str, output: str) -> None:
    torch.manual_seed(0)
    labels = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    DistilBertForSequenceClassification(DistilBertConfig(**labels)).save_pretrained(output)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_shape(*sys.argv[1:])
