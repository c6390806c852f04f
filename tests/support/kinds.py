"""A small classifier of each kind: one of its labels, several of them, a number."""

import torch
from transformers import AutoTokenizer

from hf_albert_plus.engines.parity import TOLERANCES
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from tests.support.small_models import randomise, small_config

TEXTS = ["a good film", "no", "the plot is bad and the cast is not good at all", "great", "bad bad bad", "the cast"]
PAIR = ("a good film", "the cast is not good")
NAMES = ("toxic", "rude", "spam")
# How far logits of the same model lie apart in other batches and runtimes, as an export in fp32 may: these models' are large.
CLOSE = TOLERANCES["fp32"]
THRESHOLDS = [0.6, 0.45, 0.35]
SEVERAL = "multi_label_classification"
KINDS = {
    "one of three": {"problem_type": "single_label_classification"},
    "unsaid": {"problem_type": None},
    "several": {"problem_type": SEVERAL},
    "several, own thresholds": {"problem_type": SEVERAL, "label_thresholds": THRESHOLDS},
    "several of one": {"problem_type": SEVERAL, "names": ("spam",)},
    "a number": {"problem_type": "regression", "names": ("similarity",)},
    "numbers": {"problem_type": "regression"},
}


def make_classifier(directory, tokenizer_dir, *, names=NAMES, **fields):
    """Writes a classifier whose labels differ from text to text, with its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
    torch.manual_seed(0)
    model = randomise(AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer), **labels, **fields)))
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
        # The fifth text has no label, and others lie around it: some have several, and none two that are as probable as each other.
        sizes = 2 / logits.std(dim=0)
        model.classifier.weight.mul_(sizes[:, None])
        model.classifier.bias.sub_(logits[4]).mul_(sizes).add_(torch.linspace(-1.0, -1.4, len(names)))
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model
