"""A classifier with its tokenizer, as serving and batch scoring use it: texts in, token ids and logits out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import PreTrainedConfig

from hf_albert_plus.errors import InvalidInput, first_line
from hf_albert_plus.export.batching import pad_rows
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.export.inputs import longest_input
from hf_albert_plus.export.runtimes import get_runtime
from hf_albert_plus.glue import load_tokenizer
from hf_albert_plus.heads import architecture_of

from .answers import Facts, Text

Ids = Mapping[str, list[int]]
# More than any tokenizer makes one token of; what is beyond is refused or cut before it costs a tokenizer's time.
_CHARACTERS_A_TOKEN = 64

_WARM_LENGTHS = (8, 32, 128)


@dataclass(frozen=True)
class Encoded:
    """Token ids of texts, in their order.

    Attributes:
        rows: no longer than the model takes.
        tokens: that each text has; of one with far too many characters, those that were read.
        truncated: which were cut.
    """

    rows: list[Ids]
    tokens: list[int]
    truncated: list[bool]


class TextModel:
    """
    Attributes:
        streams: batches that the engine computes at a time.
        characters: of a text that are read.
    """

    def __init__(self, directory: str | Path, runtime: str, *, cores: int, max_length: int | None):
        """Opens.

        Raises:
            InvalidInput: no such engine, no classifier, or one with fewer positions than `max_length`.
        """
        # A batch on each core, where the runtime can.
        threads, self.streams = (1, cores) if get_runtime(runtime).concurrent else (cores, 1)
        self.engine = Engine.load(directory, runtime, threads=threads)
        config = self.engine.config
        self.facts = Facts(
            labels=labels_of(config),
            inputs=self.engine.inputs,
            max_length=length_taken(config, directory, max_length=max_length),
            runtime=runtime,
            problem_type=problem_type_of(config),
        )
        self.characters = characters_read(self.facts.max_length)
        self.tokenizer: Any = load_tokenizer(Path(directory), config)

    def logits(self, rows: Sequence[Ids]) -> numpy.ndarray:
        """`[rows, labels]` of rows of token ids, fp32, as the engine gives them."""
        found: numpy.ndarray = self.engine(**pad_rows([dict(row) for row in rows], self.tokenizer))["logits"].numpy()
        return found

    def compute(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Logits `[rows, labels]` of a model that was not tried before.

        Raises:
            InvalidInput: the engine fails, or its logits are no finite number for each label of each row.
        """
        rows, tokens = tensors["input_ids"].shape
        file, labels = self.engine.file, len(self.facts.labels)
        repair = "check that it belongs to the config beside it, or make it again"
        try:
            logits: torch.Tensor = self.engine(**tensors)["logits"]
        except InvalidInput:
            raise
        except Exception as error:  # each runtime raises classes of its own, none of them public
            rule = f"{file} must compute what has {tokens} tokens"
            raise InvalidInput(rule, got=first_line(error), repair=repair) from error
        if logits.shape != (rows, labels):
            raise InvalidInput(
                f"{file} must give {labels} logits for a text, one for each label of its config",
                got=f"shape {list(logits.shape)} for {rows} texts",
                repair=repair,
            )
        if not torch.isfinite(logits).all():
            raise InvalidInput(
                f"{file} must give finite logits",
                got=f"{logits[~torch.isfinite(logits)][0]} for {tokens} tokens",
                repair="check that the weights it was made from are finite, and make it again",
            )
        return logits

    def warm_up(self) -> None:
        """Computes rows of several lengths, from the first token of the vocabulary to the last.

        Raises:
            InvalidInput: the engine fails, or its logits are no finite number for each label.
        """
        last = self.engine.config.vocab_size - 1
        for length in _WARM_LENGTHS:
            wanted = min(length, self.facts.max_length)
            values = {"input_ids": torch.linspace(0, last, wanted).long(), "attention_mask": torch.ones(wanted).long()}
            row = {name: values.get(name, torch.zeros(wanted).long()) for name in self.facts.inputs}
            self.compute({name: torch.stack([value, value]) for name, value in row.items()})

    def encode(self, texts: Sequence[Text]) -> Encoded:
        """Tokenises, and cuts what is too long. One thread at a time: a tokenizer keeps what it was last told of truncation."""
        longest = self.facts.max_length
        shortened = [_shortened(text, self.characters) for text in texts]
        rows = self._tokenised(shortened)
        tokens = [len(row["input_ids"]) for row in rows]
        too_long = [place for place, length in enumerate(tokens) if length > longest]
        cut = self._tokenised([shortened[place] for place in too_long], truncation=True, max_length=longest)
        for place, row in zip(too_long, cut, strict=True):
            rows[place] = row
        truncated = [
            length > longest or text is not given for length, text, given in zip(tokens, shortened, texts, strict=True)
        ]
        return Encoded(rows, tokens, truncated)

    def _tokenised(self, texts: Sequence[Text], **cut: Any) -> list[Ids]:
        rows: list[Ids] = [{}] * len(texts)
        for is_pair in (False, True):
            places = [place for place, text in enumerate(texts) if isinstance(text, tuple) == is_pair]
            if not places:
                continue
            chosen: Any = [texts[place] for place in places]
            columns = [list(column) for column in zip(*chosen, strict=True)] if is_pair else [chosen]
            encoded = self.tokenizer(*columns, **{"truncation": False, **cut}, verbose=False)
            for number, place in enumerate(places):
                rows[place] = {name: encoded[name][number] for name in self.facts.inputs}
        return rows


def labels_of(config: Any) -> tuple[str, ...]:
    return tuple(str(config.id2label[number]) for number in range(config.num_labels))


def problem_type_of(config: Any) -> str:
    if config.problem_type is not None:
        return str(config.problem_type)
    return "regression" if config.num_labels == 1 else "single_label_classification"


def length_taken(config: PreTrainedConfig, directory: str | Path, *, max_length: int | None) -> int:
    """Tokens of a text that a classifier takes, all of its positions unless told otherwise.

    Raises:
        InvalidInput: no classifier, or one with fewer positions.
    """
    if not architecture_of(config).endswith("ForSequenceClassification"):
        raise InvalidInput(
            "texts are classified by sequence classifiers",
            got=f"{architecture_of(config)} in {directory}",
            repair="fine-tune one: albert-plus finetune",
        )
    longest = longest_input(config)
    if max_length is not None and max_length > longest:
        raise InvalidInput(
            f"--max-length must not exceed the {longest} positions of {directory}",
            got=max_length,
            repair=f"use --max-length {longest}",
        )
    return max_length or longest


def characters_read(max_length: int) -> int:
    """Characters of a text that could matter to so many tokens."""
    return _CHARACTERS_A_TOKEN * max_length


def _shortened(text: Text, characters: int) -> Text:
    """A text, or each of a pair, with no more characters than could matter; the very same one where it has no more."""
    if isinstance(text, str):
        return text if len(text) <= characters else text[:characters]
    return text if max(map(len, text)) <= characters else (text[0][:characters], text[1][:characters])


__all__ = ["Encoded", "Ids", "TextModel", "characters_read", "labels_of", "length_taken", "problem_type_of"]
