"""Small taggers with random weights: one whose tags differ from token to token, and those of a task."""

import torch
from transformers import AutoTokenizer

from hf_albert_plus.modeling_albert_plus import AlbertPlusForTokenClassification
from tests.support.small_models import randomise, small_config

TEXTS = [
    "the doctor found the car in the garden last week .",
    "e\u0301te\u0301 Zürich 👩‍👩‍👧 o'clock",
    "no",
    "(a , b)!\u00a0東京の天気 שלום…",
]
TAGS = ("O", "B-who", "I-who", "B-what", "I-what")


def make_tagger(directory, tokenizer_dir):
    """Writes a tagger with its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    names = {"id2label": dict(enumerate(TAGS)), "label2id": {name: number for number, name in enumerate(TAGS)}}
    config = small_config(vocab_size=len(tokenizer), num_hidden_layers=2, **names)
    torch.manual_seed(0)  # of the weights that `randomise` adds to
    model = randomise(AlbertPlusForTokenClassification(config))
    with torch.no_grad():
        encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
        logits = model(**encoded).logits[encoded["attention_mask"].bool()]
        sizes = 3 / logits.std(dim=0)
        model.classifier.weight.mul_(sizes[:, None])
        model.classifier.bias.sub_(logits.mean(dim=0)).mul_(sizes)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model


def make_model_of(task, directory, tokenizer_dir, *, kind=AlbertPlusForTokenClassification):
    """Writes a model with a task's labels and its tokenizer, and says where."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    names = {"id2label": dict(enumerate(task.labels)), "label2id": {name: i for i, name in enumerate(task.labels)}}
    torch.manual_seed(0)
    randomise(kind(small_config(vocab_size=len(tokenizer), **names))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
