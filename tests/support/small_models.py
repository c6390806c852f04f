"""Configs, models and inputs that are small, with random weights."""

import torch
from transformers import AutoTokenizer

import hf_albert_plus

SMALL = {
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


def small_config(**fields) -> hf_albert_plus.AlbertPlusConfig:
    """A config of four layers of width 32."""
    return hf_albert_plus.AlbertPlusConfig(**{**SMALL, "embedding_size": 16, **fields})


def make_encoder(directory, tokenizer_dir):
    """Writes an encoder of two layers with its tokenizer, and says where."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    torch.manual_seed(0)
    config = small_config(vocab_size=len(tokenizer), num_hidden_layers=2)
    hf_albert_plus.AlbertPlusModel(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """Gives every parameter a random value, biases and LayerNorms too: at their initial zeros and ones a swapped pair
    would go unseen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def pair_inputs(vocab_size: int, *, batch: int = 3, length: int = 11) -> dict[str, torch.Tensor]:
    """Random pairs of sentences with padding."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(5, vocab_size, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, batch):
        mask[row, length - 2 * row :] = 0
    types = torch.zeros_like(ids)
    types[:, length // 2 :] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types * mask}
