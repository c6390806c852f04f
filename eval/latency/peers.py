"""The field's own ways to run the same weights, built and timed beside ours."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from transformers import PreTrainedModel

from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.errors import first_line, need
from hf_albert_plus.eval.latency.bench import time_engines
from hf_albert_plus.eval.latency.comparison import Comparison, PeerRow
from hf_albert_plus.eval.latency.timed_models import in_transformers, open_source
from hf_albert_plus.eval.measured_documents import Environment
from hf_albert_plus.eval.targets import Shape, check_shapes, sample_tensors
from hf_albert_plus.export.graph.tracing import export_graph, quiet_exporters, quiet_loggers, save_graph
from hf_albert_plus.export.openvino_ir import count_openvino_products, quantise_openvino, write_openvino
from hf_albert_plus.export.precision.input_ranges import find_ranges
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.precision.products import count_products
from hf_albert_plus.machine import physical_cores, use_threads
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.random_inputs import sample_inputs, whole_inputs
from hf_albert_plus.records.progress import steps

BASELINE = "transformers eager fp32"
_CALIBRATION = (16, 128)  # random examples: what is timed does not depend on them


@dataclass
class Peer:
    """One way to run the model.

    Attributes:
        run: named tensors -> anything.
        bytes: size of the file that it loads.
        quantised, products: weight products in int8, and in all, where a graph could be counted.
        cosine: cosine of its first output to the baseline's: whether it computes the model at all.
    """

    config: Any
    inputs: tuple[str, ...]
    run: Callable[..., Any]
    bytes: int | None = None
    quantised: int | None = None
    products: int | None = None
    cosine: float | None = None

    def __call__(self, **tensors: torch.Tensor) -> Any:
        return self.run(**tensors)


@dataclass
class _Workshop:
    """What the peers are built from, and where."""

    theirs: PreTrainedModel
    ours: PreTrainedModel
    folder: Path
    threads: int

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(sample_inputs(self.theirs))


def bench_peers(source: str, *, shapes: list[Shape], seconds: float = 3.0, threads: int | None = None) -> Comparison:
    """Builds every way that is installed and times them in turns against transformers' eager fp32.

    Args:
        source: a model directory, or the name of a variant, which gets random weights.

    Returns:
        A row for each way with its file, quantised products and timings; what could not be built
        is named with the reason.
    """
    cores = threads or physical_cores()
    use_threads(cores)
    ours = open_source(source)
    theirs = in_transformers(ours)
    check_shapes(shapes, theirs.config, name=source)
    peers: dict[str, Peer] = {}
    not_built: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, steps("build", total=len(_BUILDERS)) as begin:
        workshop = _Workshop(theirs, ours, Path(folder), cores)
        for label, build in _BUILDERS.items():
            begin(label)
            try:
                with quiet_exporters(), quiet_loggers("root"):
                    peer = build(workshop)
                    for shape in shapes:  # compilers fail at the first call
                        output = peer(**sample_tensors(peer.config, peer.inputs, shape))
                    peers[label] = peer
                    peer.cosine = _cosine(
                        output, peers[BASELINE](**sample_tensors(peer.config, peer.inputs, shapes[-1]))
                    )
            except Exception as error:  # other people's tools fail in their own ways; the table says how
                not_built[label] = f"{type(error).__name__}: {first_line(error)}"
        timings = time_engines(peers, shapes=shapes, baseline=BASELINE, seconds=seconds)
    return Comparison(
        kind="peers",
        source=source,
        model=type(theirs).__name__,
        baseline=BASELINE,
        loads=[str(shape) for shape in shapes],
        rows=[
            PeerRow(
                label=label,
                file_bytes=peer.bytes,
                quantised_products=peer.quantised,
                weight_products=peer.products,
                cosine=peer.cosine,
                loads=timings[label],
            )
            for label, peer in peers.items()
        ],
        not_built=not_built,
        environment=Environment.here(threads=cores),
    )


def _cosine(output: Any, expected: Any) -> float:
    """Between the first outputs of two ways."""
    one, other = (
        torch.as_tensor(each[0] if isinstance(each, list) else next(iter(each.values()))).double().flatten()
        for each in (output, expected)
    )
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0))


def _eager(work: _Workshop) -> Peer:
    return _of_torch(work, work.theirs)


def _bf16(work: _Workshop) -> Peer:
    import copy

    copied: Any = copy.deepcopy(work.theirs)
    return _of_torch(work, copied.to(torch.bfloat16))


def _compiled(work: _Workshop) -> Peer:
    return _of_torch(work, torch.compile(work.theirs, dynamic=False))


def _of_torch(work: _Workshop, model: Any) -> Peer:
    @torch.inference_mode()
    def run(**tensors: torch.Tensor) -> Any:
        return model(**tensors)

    size = sum(parameter.nbytes for parameter in work.theirs.parameters())
    return Peer(work.theirs.config, work.inputs, run, size)


def _exporters(work: _Workshop, *, int8: bool = False) -> Peer:
    from transformers.exporters.configs import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    options: dict[str, Any] = {}
    if int8:
        from transformers.exporters.quantizers.quantizer_onnxruntime import (
            OnnxRuntimeDynamicConfig,
            OnnxRuntimeQuantizer,
        )

        options = {"quantizer": OnnxRuntimeQuantizer(OnnxRuntimeDynamicConfig())}
    folder = work.folder / f"exporters{int8}"
    exported: Any = OnnxExporter().export(
        work.theirs, {**sample_inputs(work.theirs)}, config=OnnxConfig(dynamic=True, **options)
    )
    exported.save_pretrained(folder)
    work.theirs.eval()
    return _of_onnx(work, folder / "model.onnx")


def _torchscript(work: _Workshop) -> Path:
    """The old tracer's graph of a wrapper that returns a tensor."""
    import warnings

    names = list(work.inputs)

    class Positional(torch.nn.Module):
        def __init__(self, model: PreTrainedModel):
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> Any:
            return self.model(**dict(zip(names, tensors, strict=True)))[0]

    path = work.folder / "torchscript.onnx"
    if not path.is_file():
        axes = {name: {0: "batch", 1: "sequence"} for name in names}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Positional(work.theirs).eval(),
                tuple(sample_inputs(work.theirs).values()),
                str(path),
                input_names=names,
                output_names=["logits"],
                dynamic_axes={**axes, "logits": {0: "batch"}},
                opset_version=17,
                dynamo=False,
            )
    return path


def _quantize_dynamic(work: _Workshop, *, after_preprocessing: bool) -> Peer:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source = _torchscript(work)
    if after_preprocessing:
        prepared = work.folder / "prepared.onnx"
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        source = prepared
    target = work.folder / f"dynamic{after_preprocessing}.onnx"
    quantize_dynamic(source, target, per_channel=after_preprocessing, weight_type=QuantType.QInt8)
    return _of_onnx(work, target)


def _of_onnx(work: _Workshop, path: Path) -> Peer:
    return graph_peer(path, config=work.theirs.config, inputs=work.inputs, threads=work.threads)


def graph_peer(path: Path, *, config: Any, inputs: tuple[str, ...], threads: int) -> Peer:
    """A graph in an onnxruntime session with default options but for the number of threads."""
    session = open_session(path, threads=threads)
    names = [node.name for node in session.get_inputs()]

    def run(**tensors: torch.Tensor) -> Any:
        return session.run(None, {name: tensors[name].numpy() for name in names})

    products = count_products(onnx.load(path).graph)
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}.data")) if file.is_file())
    return Peer(config, inputs, run, size, len(products.quantised), products.total)


def _openvino(work: _Workshop, *, int8: bool) -> Peer:
    """OpenVINO from the graph of transformers.exporters, as it comes: precision and hints are the library's."""
    openvino = need("openvino", extra="openvino")
    source = work.folder / "exportersFalse" / "model.onnx"
    if not source.is_file():
        _exporters(work)
    model = openvino.convert_model(source)
    path = work.folder / f"openvino{int8}.xml"
    if int8:
        nncf = need("nncf", extra="openvino")
        names = [port.get_any_name() for port in model.inputs]
        data = nncf.Dataset([{name: row[name].numpy() for name in names} for row in _random_rows(work)])
        model = nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=_CALIBRATION[0])
    openvino.save_model(model, path, compress_to_fp16=False)
    return _of_openvino(work, path)


def _of_openvino(work: _Workshop, path: Path) -> Peer:
    openvino = need("openvino", extra="openvino")
    core = openvino.Core()
    model = core.read_model(path)
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": work.threads})
    names = [port.get_any_name() for port in compiled.inputs]
    request = compiled.create_infer_request()

    def run(**tensors: torch.Tensor) -> Any:
        return request.infer({name: tensors[name].numpy() for name in names}, share_inputs=True)

    names_of_products, floating = count_openvino_products(model)
    size = sum(file.stat().st_size for file in (path, path.with_suffix(".bin")))
    total = len(names_of_products)
    return Peer(work.theirs.config, work.inputs, run, size, total - len(floating), total)


def _random_rows(work: _Workshop) -> list[dict[str, torch.Tensor]]:
    config = work.theirs.config
    count, length = _CALIBRATION[0], min(_CALIBRATION[1], longest_input(config))
    return [whole_inputs(config, work.inputs, batch=1, length=length, seed=row) for row in range(count)]


def _our_graph(work: _Workshop) -> Path:
    path = work.folder / "ours.onnx"
    if not path.is_file():
        save_graph(export_graph(work.ours), path)
    return path


def _our_int8(work: _Workshop) -> Peer:
    graph = _our_graph(work)
    rows = [{name: tensor.numpy() for name, tensor in row.items()} for row in _random_rows(work)]
    quantise(graph, work.folder / "ours_int8.onnx", ranges=find_ranges(graph, rows))
    return _of_onnx(work, work.folder / "ours_int8.onnx")


def _our_openvino(work: _Workshop, *, int8: bool) -> Peer:
    path = work.folder / f"ours_openvino{int8}.xml"
    if int8:
        rows = [{name: tensor.flatten().tolist() for name, tensor in row.items()} for row in _random_rows(work)]
        quantise_openvino(_our_graph(work), path, examples=rows)
    else:
        write_openvino(_our_graph(work), path)
    return _of_openvino(work, path)


_BUILDERS: dict[str, Callable[[_Workshop], Peer]] = {
    BASELINE: _eager,
    "transformers eager bf16": _bf16,
    "torch.compile fp32": _compiled,
    "transformers.exporters onnx fp32": _exporters,
    "transformers.exporters onnx int8": lambda work: _exporters(work, int8=True),
    "quantize_dynamic": lambda work: _quantize_dynamic(work, after_preprocessing=False),
    "quantize_dynamic after pre-processing": lambda work: _quantize_dynamic(work, after_preprocessing=True),
    "OpenVINO": lambda work: _openvino(work, int8=False),
    "OpenVINO + NNCF": lambda work: _openvino(work, int8=True),
    "ours: onnx": lambda work: _of_onnx(work, _our_graph(work)),
    "ours: onnx-int8": _our_int8,
    "ours: openvino": lambda work: _our_openvino(work, int8=False),
    "ours: openvino-int8": lambda work: _our_openvino(work, int8=True),
}
