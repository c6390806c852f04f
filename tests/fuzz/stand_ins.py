"""What a warm process imports beforehand, and what it replaces: clusters, servers and clocks, which start only after all has been checked."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def warm() -> None:
    """Imports everything, computes nothing (threads would not survive a fork), and puts the stand-ins in place."""
    import gc
    import importlib
    import pkgutil
    import warnings

    import torch

    import hf_albert_plus

    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(hf_albert_plus.__path__, "hf_albert_plus."):
            if not module.name.endswith("__main__"):
                _imported(module.name)
        for name in _LIBRARIES:
            importlib.import_module(name)
    from hf_albert_plus.cli.console import quiet_libraries

    quiet_libraries()
    tempfile.tempdir = None
    _replace()
    gc.collect()
    gc.freeze()


# What they import only when they are called.
_LIBRARIES = (
    "onnx", "onnxruntime", "onnxruntime.quantization", "onnxscript", "torch.onnx", "torch.onnx._internal.exporter._core", "torch.export", "torch._dynamo",
    "torch.utils.flop_counter", "datasets", "pandas", "pyarrow.parquet", "pyarrow.dataset", "safetensors.torch", "sentencepiece", "tokenizers", "accelerate",
    "matplotlib.pyplot", "matplotlib.backends.backend_svg", "pydantic", "scipy.stats", "transformers.models.bert.modeling_bert",
    "transformers.models.albert.modeling_albert", "transformers.trainer", "transformers.models.auto.tokenization_auto", "rich.markup", "typer.rich_utils",
    "ray", "ray.data", "yaml", "jinja2",
)  # fmt: skip


def _imported(name: str) -> None:
    import importlib

    from hf_albert_plus.errors import AlbertPlusError

    with suppress(ImportError, AlbertPlusError):  # of an extra that is not installed: what needs it says so
        importlib.import_module(name)


def _replace() -> None:
    from hf_albert_plus.batch_scoring import stage as scoring
    from hf_albert_plus.cli import pipeline
    from hf_albert_plus.demo import data
    from hf_albert_plus.eval.latency import bench as latency
    from hf_albert_plus.eval.latency import costs as arithmetic
    from hf_albert_plus.eval.latency import cuda, pass_gains, peers, pretraining_step, timing
    from hf_albert_plus.eval.load import served, server_process
    from hf_albert_plus.eval.measured_documents import Ceiling
    from hf_albert_plus.search import hunt
    from hf_albert_plus.serving import fleet, server
    from tests.fuzz.inputs import PROCESS

    data.SIZES.update(train=24, validation=16)
    data.PRETRAINING_PAIRS = 400
    timing._METHOD.set(timing.Method(rounds=4, patience=0, settle_s=0.0))
    ceilings = {name: Ceiling(gops_per_s=100.0, library="torch") for name in ("fp32", "bf16", "int8")}
    for module in (arithmetic, latency, pretraining_step):
        module.measure_ceilings = lambda *args, **options: ceilings  # type: ignore[attr-defined]
    latency.measure_process = lambda target, **options: arithmetic.ProcessCosts(**PROCESS)
    # Every tool of the field's, every pass, and a GPU: minutes, or not here.
    peers.bench_peers = pass_gains.bench_passes = cuda.bench_cuda = _accepted
    # Servers that run until they are told to stop, and other people's that must be installed.
    server.Trial = fleet.Fleet.start = served.PeerProcess = _accepted  # type: ignore[misc, assignment, method-assign]
    server_process.ServerProcess.__enter__ = _accepted  # type: ignore[method-assign]
    pipeline._Run.distill = hunt.Hunt.run = _accepted  # type: ignore[method-assign]
    scoring.cluster, scoring.score_parts = _here, _scored  # type: ignore[assignment]


def _accepted(*args: Any, **options: Any) -> Any:
    raise SystemExit(0)


@contextmanager
def _here(place: Any) -> Iterator[Any]:
    yield place


def _scored(parts: Any, job: Any, place: Any) -> Iterator[tuple[int, float]]:
    """Scores parts in this process."""
    from hf_albert_plus.batch_scoring.distribution import PartScorer, as_item, outcomes

    scorer = PartScorer(job, 1)
    return outcomes(scorer({"part": [as_item(part)["part"]]}) for part in parts)


__all__ = ["warm"]
