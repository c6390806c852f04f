"""Settings, collators and command lines of small pretraining runs."""

from hf_albert_plus.pretraining.batches import PretrainingCollator
from hf_albert_plus.pretraining.masking import Masking, Spans
from tests.support.small_models import SMALL

WIDTH = 32
CONFIG = {**{name: SMALL[name] for name in SMALL if name != "vocab_size"}, "embedding_size": 16}
SETTINGS = {
    "epochs": 1,
    "batch_size": 16,
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "precision": "fp32",
    "evaluations": 2,
}


def words(corpus, out, *more):
    """The command line of a pretraining of a small model."""
    sizes = [f"{name}={value}" for name, value in CONFIG.items()]
    return [
        "pretrain", "--corpus", corpus, "--threads", 1, "--out", out, "--epochs", 3, "--batch-size", 8, "--optimizer", "lamb",
        "--learning-rate", 0.01, "--precision", "fp32", "--evaluations", 4,
        *(word for size in sizes for word in ("--set", size)), "--set", "hidden_dropout_prob=0.1", *more,
    ]  # fmt: skip


def make_collator(tokenizer, *, packed, **options):
    """A collator that masks spans, of packed rows or of padded ones."""
    masking = Masking(tokenizer, chooser=Spans(tokenizer), seed=0)
    return PretrainingCollator(tokenizer, masking=masking, width=WIDTH if packed else None, **options)
