"""A classifier that knows what it says, trained in seconds: rounding errors of another runtime move none of its answers."""

from pathlib import Path

import torch
from transformers import AutoTokenizer

from hf_albert_plus.demo.data import SIZES, write_task
from hf_albert_plus.heads import albert_plus_class
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import small_config


def train_sst2(output: Path, tokenizer_dir: Path, *, work: Path) -> None:
    """Writes a classifier of the demo's films.

    Args:
        work: where its data and its start are written.
    """
    data, start = work / "data", work / "start"
    data.mkdir(parents=True)
    assert SIZES["train"] == 6000
    write_task(data, "sst2", seed=0)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    fields = {"hidden_size": 128, "embedding_size": 64, "intermediate_size": 256, "num_hidden_layers": 2}
    free = {"attention_sharing": "none", "ffn_sharing": "none", "pooling": "mean", "pooler": "none"}
    torch.manual_seed(0)
    albert_plus_class("Model")(small_config(vocab_size=len(tokenizer), **fields, **free)).save_pretrained(start)
    tokenizer.save_pretrained(start)
    settings = TrainSettings(epochs=2, batch_size=32, learning_rate=1e-3, max_length=32, precision="fp32")
    output.parent.mkdir(parents=True, exist_ok=True)
    finetune(str(start), data=str(data), task=get_task("sst2"), output=output, settings=settings)
