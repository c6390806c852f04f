"""The verbs as the command line declares them, and a command line of each that works on the tiny inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from tests.support.command_line import commands

_TRAIN = "--task sst2 --data {in}/glue-sst2 --epochs 0.5 --batch-size 8 --max-length 16 --precision fp32 --threads 1 --out out"
_ARCHITECTURE = "--set num_hidden_layers=1 --set hidden_size=16 --set num_attention_heads=2 --set intermediate_size=16 --set embedding_size=8"
# `{in}` is the folder of `inputs`.
VERBS: dict[str, list[str]] = {
    "demo": ["--out out --stop-after data --threads 1"],
    "run": [
        "--teacher {in}/encoder --data {in}/glue-sst2 --task sst2 --out out --max-length 16 --teacher-epochs 0.5 --student-epochs 0.5 "
        "--batch-size 8 --shapes 1x8 --seconds 0.01 --precision fp32 --threads 1 --pooling mean --head-learning-rate 1e-3"
    ],
    "variants": ["--json"],
    "convert": ["{in}/encoder --out out", "{in}/classifier --set num_hidden_layers=1 --layers 1 --out out"],
    "finetune": [
        f"--model {{in}}/encoder {_TRAIN}",
        "--model {in}/encoder --data {in}/rows.parquet --text-column sentence --label-column label --epochs 0.5 --batch-size 8 "
        "--max-length 16 --precision fp32 --threads 1 --pooling mean --head-learning-rate 1e-3 --out out",
    ],
    "distill": [
        f"--teacher {{in}}/classifier --learning-rate 1e-4 {_TRAIN}",
        f"--teacher {{in}}/classifier --method tinybert --student {{in}}/classifier --text {{in}}/texts.tsv --general-teacher {{in}}/encoder {_TRAIN}",
        "--method embeddings --teacher {in}/vectors --text {in}/text.txt --set matryoshka_dims=4 --epochs 0.1 --batch-size 8 --max-length 16 "
        "--precision fp32 --threads 1 --out out",
    ],
    "augment": [
        "--data {in}/glue-sst2 --task sst2 --masked-lm {in}/masked-lm --word-vectors {in}/vectors.txt --copies 1 --threads 1 --out out"
    ],
    "floor": [
        "--data {in}/glue-sst2 --task sst2 --teacher {in}/encoder --threads 1 --out out",
        "--data {in}/rows.parquet --text-column sentence --label-column label --threads 1 --out out",
    ],
    "prune": [f"--model {{in}}/classifier --examples 8 {_TRAIN}"],
    "calibrate": ["--model {in}/exits --data {in}/glue-sst2 --task sst2 --max-length 16 --threads 1 --out out"],
    "calibrate-scores": [
        "{in}/classifier --data {in}/glue-sst2 --task sst2 --max-length 16 --folds 2 --threads 1 --out out"
    ],
    "sparsify": [f"--model {{in}}/classifier {_TRAIN}"],
    "trim": ["--model {in}/classifier --data {in}/glue-sst2 --task sst2 --corpus {in}/text.txt --threads 1 --out out"],
    "compress": [
        "{in}/classifier --data {in}/glue-sst2 --task sst2 --unlabelled {in}/rows.txt --max-drop 100 --time-budget 1s --max-length 16 --epochs 0.5 --precision fp32 --threads 1 --out out"
    ],
    "qat": [
        f"--model {{in}}/classifier {_TRAIN}",
        f"--model {{in}}/classifier --bits 2,4 --budget 0.02 --draws 2 --examples 4 {_TRAIN}",
    ],
    "export": [
        "{in}/classifier --to onnx --threads 1 --out out",
        "{in}/exported --to onnx-qdq --texts {in}/texts.tsv --examples 4 --threads 1 --out out",
    ],
    "eval": [
        "{in}/exported:onnx-int8 --task sst2 --data {in}/glue-sst2 --max-length 32 --threads 1 --save-predictions out --json result.json",
        "{in}/exported --task sst2 --data {in}/glue-sst2 --max-length 32 --batching file:4 --rounds 2 --threads 1",
        "--predictions {in}/predictions.tsv --task sst2 --data {in}/glue-sst2 --json result.json",
    ],
    "inspect": [
        "{in}/classifier {in}/encoder --data {in}/glue-sst2 --task sst2 --rows 8 --max-length 16 --threads 1 --out out",
        "{in}/classifier --text {in}/rows.txt --max-length 16 --threads 1 --json",
    ],
    "retrieve": [
        "{in}/twin --task mrpc --data {in}/glue-mrpc --max-length 32 --threads 1 --index index.safetensors --json result.json",
        "{in}/vectors:onnx --task mrpc --data {in}/glue-mrpc --max-length 32 --threads 1 --json result.json",
        "--static {in}/encoder --task mrpc --data {in}/glue-mrpc --threads 1 --json result.json",
    ],
    "submit": ["sst2={in}/exported:onnx --data {in}/glue-sst2 --max-length 32 --threads 1 --out out.zip"],
    "bench targets": [
        "{in}/exported:onnx-int8 --baseline {in}/exported --shapes 1x8 --seconds 0.01 --threads 1 --json result.json",
        "{in}/exported:onnx --baseline {in}/exported --data {in}/glue-sst2 --task sst2 --scenario offline --max-length 16 --seconds 0.01 "
        "--threads 1 --json result.json",
    ],
    "bench peers": ["{in}/exported --shapes 1x8 --seconds 0.01 --threads 1 --json result.json"],
    "bench passes": ["{in}/exported --shapes 1x8 --seconds 0.01 --threads 1 --json result.json"],
    "bench self-check": ["{in}/exported:onnx --shapes 1x8 --seconds 0.01 --threads 1 --json result.json"],
    "bench gpu": ["--device cpu --small --plan --out out"],
    "bench cuda": ["{in}/exported --shapes 1x8 --seconds 0.01 --json result.json"],
    "report": ["--scores {in}/scores-carded.json --bench {in}/latency-carded.json --out out"],
    "card": ["carded", "carded --scores {in}/scores-carded.json --bench {in}/latency-carded.json", "carded --check"],
    "push": ["{in}/classifier user/model --license mit --dry-run", "{in}/exported user/model --dry-run --json"],
    "pretrain": [
        f"--corpus {{in}}/corpus --out out {_ARCHITECTURE} --batch-size 8 --epochs 0.1 --evaluations 1 --precision fp32 --threads 1",
        f"--corpus {{in}}/text.txt --tokenizer {{in}}/tokenizer --language none --max-length 16 --held-out 0.2 --out out {_ARCHITECTURE} "
        "--batch-size 8 --epochs 0.1 --evaluations 1 --precision fp32 --threads 1",
    ],
    "bench-pretrain": [
        f"--corpus {{in}}/corpus {_ARCHITECTURE} --batch-size 1 --seconds 0.01 --precision fp32 --threads 1 --json result.json"
    ],
    "bench pretrain": [
        f"--corpus {{in}}/corpus {_ARCHITECTURE} --batch-size 1 --seconds 0.01 --precision fp32 --threads 1 --json result.json"
    ],
    "serve": ["{in}/exported:onnx-int8 --port 18765 --cores 1 --token-file {in}/token.txt"],
    "bench invariance": [
        "{in}/exported:onnx-int8 --baseline {in}/exported:onnx --data {in}/glue-sst2 --task sst2 --rows 4 --batches 2 --clients 0 --threads 1 --json result.json"
    ],
    "bench-serve": [
        "{in}/exported:onnx-int8 --data {in}/glue-sst2 --task sst2 --texts 4 --clients 1 --seconds 1 --max-length 16 --json result.json"
    ],
    "bench serve": [
        "{in}/exported:onnx-int8 --data {in}/glue-sst2 --task sst2 --texts 4 --clients 1 --seconds 1 --max-length 16 --json result.json"
    ],
    "capacity": ["{in}/served-1.json {in}/served-51.json --rate 490 --texts 11 --json"],
    "score": [
        "--input {in}/rows.parquet --text-column sentence --keep label=gold --engine {in}/exported:onnx-int8 --cores 1 --output out",
        "--input {in}/rows.jsonl --input {in}/rows.txt --engine {in}/classifier:torch --max-length 16 --part-rows 8 --logits --cores 1 --output out",
    ],
    "embed": [
        "--input {in}/rows.parquet --text-column sentence --keep label=gold --engine {in}/vectors:onnx --max-length 16 --cores 1 --output out"
    ],
    "tokenizer train": [
        "--corpus {in}/text.txt --kind wordpiece --vocab-size 200 --out out",
        "--corpus {in}/rows.jsonl --vocab-size 60 --out out",
    ],
    "tokenizer import": ["{in}/spiece.model --out out"],
    "corpus build": [
        "--corpus {in}/text.txt --tokenizer {in}/tokenizer --max-length 32 --language none --held-out 0.2 --workers 1 --out out"
    ],
}
# Inputs of which a verb gets a copy in the directory that it runs in: it writes there, or finds it by that name.
COPIED = {"report": ["carded"], "card": ["carded"]}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verb.

    Attributes:
        words: that name it; none for an argument.
        kind: of one value, without list and None: int, float, bool, str, Path, a Literal or an Enum.
    """

    name: str
    words: tuple[str, ...]
    kind: Any

    @property
    def label(self) -> str:
        return self.words[0] if self.words else self.name.upper()

    @property
    def is_flag(self) -> bool:
        return self.kind is bool

    @property
    def choices(self) -> list[str]:
        if get_origin(self.kind) is Literal:
            return list(get_args(self.kind))
        is_enum = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        return [choice.value for choice in self.kind] if is_enum else []


def declared() -> dict[str, list[Parameter]]:
    """Every verb of the command line with its parameters."""
    return {name: list(_parameters(command)) for name, command in commands().items()}


def occurrences(words: list[str], parameter: Parameter, parameters: list[Parameter]) -> list[int]:
    """Places in a verb's words of the values of a parameter."""
    by_word = {word: one for one in parameters for word in one.words}
    places, position = [], 0
    while position < len(words):
        option = by_word.get(words[position])
        if option is None:
            places += [] if parameter.words else [position]
            position += 1
        elif option.is_flag:
            position += 1
        else:
            places += [position + 1] if option is parameter else []
            position += 2
    return places


def _parameters(command: Any) -> Iterator[Parameter]:
    from typer.utils import get_params_from_function

    annotations = {name: meta.annotation for name, meta in get_params_from_function(command.callback).items()}
    for parameter in command.params:
        words = () if parameter.param_type_name == "argument" else tuple(parameter.opts)
        yield Parameter(parameter.name, words, _of_one(annotations[parameter.name]))


def _of_one(annotation: Any) -> Any:
    """list[Path] | None -> Path."""
    if get_origin(annotation) is Literal:
        return annotation
    inner = [kind for kind in get_args(annotation) if kind is not type(None)]
    return _of_one(inner[0]) if inner else annotation


__all__ = ["COPIED", "VERBS", "Parameter", "Path", "declared", "occurrences"]
