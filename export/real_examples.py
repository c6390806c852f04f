"""The real examples of an export: they show what activations look like, and parity and sensitivity are measured on them."""

from pathlib import Path
from typing import Any

import numpy
from transformers import PreTrainedConfig, PreTrainedModel

from hf_albert_plus.checkpoints import has_tokenizer
from hf_albert_plus.engines.text_tokens import characters_read
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.sample_texts import sample_rows
from hf_albert_plus.model_inputs import input_names, longest_input
from hf_albert_plus.random_inputs import whole_inputs
from hf_albert_plus.records.files import check_input_file
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode, load_tokenizer
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import Task

Example = dict[str, list[int]]
# Tokens of an example where nothing is known of the model's training.
LENGTH = 128


def as_arrays(example: Example, *, rank: int = 2) -> dict[str, numpy.ndarray]:
    """An example as a batch of one, int64 `[1, sequence]` each, or `[1, 1, sequence]` where inputs have three axes."""
    return {
        name: numpy.asarray(values, dtype=numpy.int64).reshape((1,) * (rank - 1) + (-1,))
        for name, values in example.items()
    }


def task_examples(
    directory: Path, config: PreTrainedConfig, *, data: str, task: str | Task, count: int, max_length: int = LENGTH
) -> list[Example]:
    """Examples of a GLUE task's training split as rows of token ids, drawn with a fixed seed."""
    chosen = get_task(task)
    rows = load_split(data, chosen, "train")
    rows = rows.shuffle(seed=0).select(range(min(count, len(rows))))
    tokenizer = load_tokenizer(directory, config)
    encoded = encode(rows, chosen, tokenizer, max_length=min(max_length, longest_input(config)))
    return [_example(row, tokenizer.model_input_names) for row in encoded.select(range(min(count, len(encoded))))]


def text_examples(
    directory: Path, config: PreTrainedConfig, *, texts: Path, count: int, max_length: int = LENGTH
) -> list[Example]:
    """The first lines of a text file; a tab separates the two texts of a pair.

    Raises:
        InvalidInput: no such file, not UTF-8, or nothing in it.
    """
    check_input_file(texts, what="--texts", form="a text file, one example a line")
    longest = min(max_length, longest_input(config))
    try:
        lines = [line.strip() for line in texts.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "--texts must be a text file in UTF-8, one example a line", got=f"{texts} ({error})", repair=f"convert it: iconv -f LATIN1 -t UTF-8 {texts}"
        ) from None  # fmt: skip
    most = characters_read(longest)
    rows = [[text[:most] for text in line.split("\t", 1)] for line in lines if line][:count]
    if not rows:
        raise InvalidInput("--texts must hold at least one line of text", got=str(texts), repair="use another file")
    tokenizer = load_tokenizer(directory, config)
    return [_example(tokenizer(*row, truncation=True, max_length=longest), tokenizer.model_input_names) for row in rows]


def sample_examples(directory: Path, model: PreTrainedModel, *, count: int, max_length: int = LENGTH) -> list[Example]:
    """Rows of the texts that come with this package; of random tokens where a directory has no tokenizer."""
    longest = min(max_length, longest_input(model.config))
    if not has_tokenizer(directory):
        lengths = [1 + (7 * row) % longest for row in range(count)]
        return [random_example(model.config, length=length, seed=seed) for seed, length in enumerate(lengths)]
    tokenizer = load_tokenizer(directory, model.config)
    rows = [tokenizer(*row, truncation=True, max_length=longest) for row in sample_rows(count)]
    return [_example(row, tokenizer.model_input_names) for row in rows]


def random_example(config: PreTrainedConfig, *, length: int, seed: int) -> Example:
    """A row of random tokens."""
    tensors = whole_inputs(config, input_names(config), batch=1, length=length, seed=seed)
    return {name: tensor.flatten().tolist() for name, tensor in tensors.items()}


def _example(row: Any, names: list[str]) -> Example:
    return {name: list(row[name]) for name in names}
