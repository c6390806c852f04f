"""The config of a classifier of texts or of their words, or of an encoder, read without transformers where config.json says everything itself.

A process that serves an ONNX graph needs no more of it, and importing transformers takes longer than all else that such a process does.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..heads import gives_labels, is_bare_encoder

# Models without token types, whose configs say nothing of them.
_WITHOUT_TYPES = {"distilbert", "mpnet"}
_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")


@dataclass(frozen=True)
class PlainConfig:
    """What serving asks of a config, under the names that transformers' configs have for it; `hidden_size` of encoders alone."""

    model_type: str
    architectures: list[str]
    id2label: dict[int, str]
    problem_type: str | None
    label_thresholds: list[float] | None
    longest_answer: int | None
    no_answer_threshold: float | None
    vocab_size: int
    type_vocab_size: int
    max_position_embeddings: int
    pad_token_id: int | None
    hidden_size: int | None
    matryoshka_dims: list[int] | None

    @property
    def num_labels(self) -> int:
        return len(self.id2label)


def read_plain_config(directory: Path) -> PlainConfig | None:
    """The config of a classifier or of an encoder; None where transformers must read it, or say what is wrong with it."""
    try:
        said = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        # What transformers leaves out of config.json.
        names = said.get("id2label", {number: f"LABEL_{number}" for number in range(said.get("num_labels", 2))})
        labels = {int(number): name for number, name in names.items()}
        types = 0 if said["model_type"] in _WITHOUT_TYPES else said["type_vocab_size"]
        config = PlainConfig(
            model_type=said["model_type"],
            architectures=said["architectures"],
            id2label=labels,
            problem_type=said.get("problem_type"),
            label_thresholds=said.get("label_thresholds"),
            longest_answer=said.get("longest_answer"),
            no_answer_threshold=said.get("no_answer_threshold"),
            vocab_size=said["vocab_size"],
            type_vocab_size=types,
            max_position_embeddings=said["max_position_embeddings"],
            pad_token_id=said["pad_token_id"],
            hidden_size=said.get("hidden_size", said.get("dim")),
            matryoshka_dims=said.get("matryoshka_dims"),
        )
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return None
    return config if _is_sound(config) and _names_agree(config, said) else None


def _is_sound(config: PlainConfig) -> bool:
    pad = config.pad_token_id
    return (
        isinstance(config.model_type, str)
        and isinstance(config.architectures, list)
        and len(config.architectures) == 1
        and (gives_labels(config) or is_bare_encoder(config))
        and sorted(config.id2label) == list(range(len(config.id2label)))
        and len(config.id2label) > 0
        and all(isinstance(name, str) for name in config.id2label.values())
        and config.problem_type in (None, *_PROBLEMS)
        and all(type(count) is int and count > 0 for count in _counts(config))
        and type(config.type_vocab_size) is int
        and (pad is None or (type(pad) is int and 0 <= pad < config.vocab_size))
    )


def _counts(config: PlainConfig) -> list[int | None]:
    """The numbers of a config that must be above 0."""
    counts = [config.vocab_size, config.max_position_embeddings]
    return [*counts, config.hidden_size] if is_bare_encoder(config) else [*counts]


def _names_agree(config: PlainConfig, said: dict[str, Any]) -> bool:
    """Whether what a config says twice of its labels is the same."""
    numbers = {name: number for number, name in config.id2label.items()}
    return said.get("label2id") in (None, numbers) and said.get("num_labels") in (None, config.num_labels)
