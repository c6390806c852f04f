"""TensorRT engines from typed ONNX graphs, built by Polygraphy on the machine with the GPU that will run them."""

import importlib.util
import platform
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.errors import InvalidInput, shown
from hf_albert_plus.export.inputs import input_rank, longest_input
from hf_albert_plus.export.runtimes import RUNTIMES

CHOICES = (1, 4, 8)


@dataclass(frozen=True)
class Profile:
    """Shapes, batch and length, that an engine takes, and that it is fastest at."""

    minimum: tuple[int, int] = (1, 1)
    optimum: tuple[int, int] = (8, 128)
    maximum: tuple[int, int] = (32, 512)

    def fitted(self, longest: int) -> "Profile":
        """The profile within a model's positions."""
        shapes = ((batch, min(length, longest)) for batch, length in (self.minimum, self.optimum, self.maximum))
        return Profile(*shapes)

    def shapes(self, rank: int = 2) -> list[tuple[int, ...]]:
        """Minimum, optimum and maximum with the axis of choices, where inputs have one."""
        corners = (self.minimum, self.optimum, self.maximum)
        return [
            (batch, length) if rank == 2 else (batch, choices, length)
            for (batch, length), choices in zip(corners, CHOICES, strict=True)
        ]

    def allows(self, shape: Any) -> bool:
        """Whether an engine with this profile takes a shape."""
        low, _, high = self.shapes(len(shape))
        return all(least <= size <= most for least, size, most in zip(low, shape, high, strict=True))


def parse_profile(text: str) -> Profile:
    """`"1x1,8x128,32x512"` -> the profile with these minimum, optimum and maximum shapes.

    Raises:
        InvalidInput: another form, or shapes that do not grow.
    """
    parts = [part.strip().split("x") for part in text.split(",")]
    good = len(parts) == 3 and all(
        len(part) == 2 and all(n.isdecimal() and len(n) < 10 and int(n) > 0 for n in part) for part in parts
    )
    corners = [(int(part[0]), int(part[1])) for part in parts] if good else []
    if not good or any(a > b for low, high in pairwise(corners) for a, b in zip(low, high, strict=True)):
        raise InvalidInput(
            "--profile must be the smallest, best and largest BATCHxLENGTH, none smaller than the one before",
            got=shown(text),
            repair="use --profile 1x1,8x128,32x512",
        )
    return Profile(*corners)


def check_tensorrt(source: Path, *, graph: str, profile: Profile) -> None:
    """Refuses to begin where an engine cannot be built.

    Raises:
        InvalidInput: no TensorRT, Polygraphy or GPU; it says which, and how to build the engine elsewhere.
    """
    missing = [name for name in ("tensorrt", "polygraphy") if importlib.util.find_spec(name) is None]
    lacking = [f"no {name}" for name in missing] + ([] if torch.cuda.is_available() else ["no NVIDIA GPU"])
    if not lacking:
        return
    from hf_albert_plus.checkpoints import load_config
    from hf_albert_plus.glue import reads_token_types

    config = load_config(source, option="DIR")
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if reads_token_types(config) else [])]
    line = trtexec_line(
        Path("OUT") / RUNTIMES[graph].file,
        names,
        profile=profile.fitted(longest_input(config)),
        rank=input_rank(config),
    )
    raise InvalidInput(
        "a TensorRT engine is built by TensorRT on the GPU that will run it",
        got=" and ".join(lacking),
        repair="on a machine that has both, run the same command after pip install 'hf-albert-plus[tensorrt]'; or here "
        f"albert-plus export {source} --to {graph} --out OUT, and there {line}",
    )


def trtexec_line(graph: Path, names: list[str], *, profile: Profile, rank: int = 2) -> str:
    """The command of TensorRT's own tool that builds the same engine. Graphs carry their types, which release 11 always
    follows, and release 10 with this flag."""
    shapes = ["x".join(str(size) for size in shape) for shape in profile.shapes(rank)]
    options = [
        f"--{which}Shapes={','.join(f'{name}:{shape}' for name in names)}"
        for which, shape in zip(("min", "opt", "max"), shapes, strict=True)
    ]
    return " ".join(
        [
            "trtexec",
            f"--onnx={graph.as_posix()}",
            *options,
            "--stronglyTyped",
            "--timingCacheFile=timing.cache",
            "--saveEngine=model.plan",
        ]
    )


def build_plan(graph: Path, target: Path, *, profile: Profile, timing_cache: Path | None) -> dict[str, Any]:
    """Builds and writes an engine.

    Args:
        graph: an ONNX graph whose types are the engine's.
        timing_cache: read if it is there, and written.

    Returns:
        What the engine belongs to, for the record: TensorRT's release, the GPU, the profile.

    Raises:
        InvalidInput: the graph holds what TensorRT's parser does not list.
    """
    import onnx
    import tensorrt
    from polygraphy.backend.trt import CreateConfig, EngineBytesFromNetwork, NetworkFromOnnxPath
    from polygraphy.backend.trt import Profile as TensorRtProfile

    from hf_albert_plus.export.tensorrt_operators import unsupported

    proto = onnx.load(graph)
    findings = unsupported(proto)
    if findings:
        raise InvalidInput(
            "a graph for TensorRT holds only what its parser lists", got="; ".join(findings), repair="report this graph"
        )
    rank = len(proto.graph.input[0].type.tensor_type.shape.dim)
    shapes = TensorRtProfile()
    low, best, high = profile.shapes(rank)
    for value in proto.graph.input:
        shapes.add(value.name, min=low, opt=best, max=high)
    cache = str(timing_cache) if timing_cache is not None else None
    engine = EngineBytesFromNetwork(
        NetworkFromOnnxPath(str(graph), strongly_typed=True),
        config=CreateConfig(profiles=[shapes], load_timing_cache=cache if cache and Path(cache).is_file() else None),
        save_timing_cache=cache,
    )()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(bytes(engine))
    return {
        "tensorrt": tensorrt.__version__,
        "gpu": torch.cuda.get_device_name(),
        "compute_capability": ".".join(str(number) for number in torch.cuda.get_device_capability()),
        "cuda": torch.version.cuda,
        "system": platform.platform(),
        "profile": {"min": low, "opt": best, "max": high},
    }


__all__ = ["Profile", "build_plan", "check_tensorrt", "parse_profile", "trtexec_line"]
