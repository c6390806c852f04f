"""Costs of a model: its operations and parameters, the ceiling of the machine's products, and what it takes to load in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.flop_counter import FlopCounterMode

from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.engines.runtime_files import engine_file, weight_files
from hf_albert_plus.errors import InvalidInput, last_line
from hf_albert_plus.eval.latency import loading
from hf_albert_plus.eval.latency.timing import Call, elapsed_ms, time_calls
from hf_albert_plus.eval.measured_documents import Ceiling
from hf_albert_plus.eval.targets import Shape, Target, sample_tensors
from hf_albert_plus.heads import architecture_of, auto_class, head_of
from hf_albert_plus.model_inputs import longest_input

SIZE = 1024
_PAPERS_LENGTH = 128
_FLOPS = 2 * SIZE**3


class Arithmetic:
    """A model of a config on torch's meta device, where tensors have shapes and no content.

    Attributes:
        parameters: unique parameters, a shared block counted once.
        effective_parameters: a parameter counted as often as a forward pass calls its module: those of the model that
            computes the same with nothing shared.
        parts: part of the model -> (parameters, effective parameters).
    """

    def __init__(self, config: Any):
        head = head_of(architecture_of(config), option="the target")
        with torch.device("meta"):
            self.model = auto_class(head).from_config(config, attn_implementation="eager").eval()
        self.config = config
        self.parts = self._parts()
        self.parameters = sum(stored for stored, _ in self.parts.values())
        self.effective_parameters = sum(effective for _, effective in self.parts.values())

    def flops(self, shape: Shape) -> int:
        """Floating point operations of the matrix products of one batch; a multiplication and an addition are two."""
        with FlopCounterMode(display=False) as counter:
            self._run(shape.length)
        return shape.batch * int(counter.get_total_flops())

    @property
    def sequence_flops(self) -> int:
        """Those of one sequence of 128 tokens, as papers give them, or of as many as the model has positions."""
        return self.flops(Shape(1, min(_PAPERS_LENGTH, longest_input(self.config))))

    def _run(self, length: int) -> None:
        ids = sample_tensors(self.config, ["input_ids"], Shape(1, length))["input_ids"]
        with torch.no_grad():
            self.model(input_ids=ids.to("meta"))

    def _parts(self) -> dict[str, tuple[int, int]]:
        calls: dict[torch.nn.Module, int] = {}

        def count(module: torch.nn.Module, *_: Any) -> None:
            calls[module] = calls.get(module, 0) + 1

        hooks = [module.register_forward_hook(count) for module in self.model.modules()]
        self._run(8)
        for hook in hooks:
            hook.remove()
        parts: dict[str, tuple[int, int]] = {}
        seen: set[torch.nn.Parameter] = set()
        for path, module in self.model.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                part, size = _part(f"{path}.{name}"), parameter.numel()
                stored, effective = parts.get(part, (0, 0))
                # A tied decoder reads what the embeddings store.
                stored, effective = stored + (0 if parameter in seen else size), effective + size * calls.get(module, 1)
                parts[part] = (stored, effective)
                seen.add(parameter)
        return parts


def _part(name: str) -> str:
    """The part of a model that a parameter belongs to, by its name in any of transformers' encoders."""
    if "embedding_hidden" in name or "embeddings.projection" in name:
        return "embedding projection"
    if "embeddings" in name:
        return "embeddings"
    if "attention" in name:
        return "attention blocks"
    if "encoder" in name or "layer" in name:
        return "feed-forward blocks"
    return "pooler" if "pooler" in name else "head"


# A product that takes so many times as long as the fastest is computed in steps of something else: seconds a call, and no ceiling.
_EMULATED = 20


def _without_emulated(calls: dict[str, Call]) -> dict[str, Call]:
    """The calls that the processor has instructions for, by two looks at each."""
    taken = {label: min(elapsed_ms(call), elapsed_ms(call)) for label, call in calls.items()}
    return {label: call for label, call in calls.items() if taken[label] <= _EMULATED * min(taken.values())}


def measure_ceilings(folder: Path, *, threads: int, seconds: float = 0.5) -> dict[str, Ceiling]:
    """The fastest product of two 1024 x 1024 matrices that these libraries reach here, one stream.

    Returns:
        fp32, bf16 and int8 -> operations a second (in 1e9) and which library reached them. int8 is 8-bit integers
        added up in 32 bits. A precision that no library multiplies natively here has none.
    """
    calls = _without_emulated({**_torch_calls(), **_onnx_calls(folder, threads=threads)})
    timings = time_calls(
        calls, baseline=next(iter(calls)), seconds=seconds, description="products' ceiling", patience=0
    )
    ceilings: dict[str, Ceiling] = {}
    for label, blocks in timings.rounds.items():
        precision, library = label.split()
        # The best round's median: noise only ever slows.
        best_ms = min(float(numpy.median(block)) for block in blocks)
        rate = round(_FLOPS / best_ms / 1e6, 1)
        if precision not in ceilings or rate > ceilings[precision].gops_per_s:
            ceilings[precision] = Ceiling(gops_per_s=rate, library=library)
    return ceilings


def _torch_calls() -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        a, b = (torch.rand(SIZE, SIZE).to(dtype) for _ in range(2))
        calls[f"{precision} torch"] = partial(torch.mm, a, b)
    a, b = (torch.randint(-9, 9, (SIZE, SIZE), dtype=torch.int8) for _ in range(2))
    calls["int8 torch"] = partial(torch._int_mm, a, b)
    return calls


def _onnx_calls(folder: Path, *, threads: int) -> dict[str, Call]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    calls: dict[str, Call] = {}
    generator = numpy.random.default_rng(0)
    for precision, operator, left, right, result in (
        ("fp32", "MatMul", numpy.float32, numpy.float32, TensorProto.FLOAT),
        ("int8", "MatMulInteger", numpy.uint8, numpy.int8, TensorProto.INT32),
    ):
        values = generator.integers(0, 9, (SIZE, SIZE)).astype(left)
        graph = helper.make_graph(
            [helper.make_node(operator, ["a", "b"], ["c"])],
            operator,
            [helper.make_tensor_value_info("a", helper.np_dtype_to_tensor_dtype(numpy.dtype(left)), [SIZE, SIZE])],
            [helper.make_tensor_value_info("c", result, [SIZE, SIZE])],
            [numpy_helper.from_array(generator.integers(-9, 9, (SIZE, SIZE)).astype(right), "b")],
        )
        path = folder / f"{operator}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        session = open_session(path, threads=threads)
        calls[f"{precision} onnxruntime"] = partial(session.run, None, {"a": values})
    return calls


@dataclass(frozen=True)
class ProcessCosts:
    """What a target takes in a process of its own.

    Attributes:
        load_ms: to open it once the libraries are imported.
        load_mb: that opening it adds.
        peak_rss_mb: of the whole process, libraries included.
    """

    load_ms: float
    load_mb: float
    peak_rss_mb: float


def measure_process(target: Target, *, shapes: list[Shape], threads: int) -> ProcessCosts:
    """Loads a target in a process of its own, its files dropped from the system's cache where the system lets us, and
    runs each shape.

    Raises:
        InvalidInput: it does not load.
    """
    for path in weight_files(engine_file(target.directory, target.runtime)):
        _drop_from_cache(str(path))
    done = subprocess.run(
        [
            sys.executable, "-m", loading.__name__, str(target.directory), target.runtime, str(threads),
            ",".join(map(str, shapes)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise InvalidInput(
            f"{target.label} must load in a process of its own",
            got=last_line(done.stderr),
            repair="try albert-plus eval on it",
        )
    return ProcessCosts(**json.loads(done.stdout.strip().splitlines()[-1]))


def _drop_from_cache(path: str) -> None:
    if not hasattr(os, "posix_fadvise"):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
