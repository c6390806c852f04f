"""The export stage: a model directory in, the same directory with its exports out."""

import shutil
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput, suggest
from hf_albert_plus.export.engines import FILES
from hf_albert_plus.progress import steps
from hf_albert_plus.records import RECORD, Record, parent, read_record, run_stage

EXPORTS = ("onnx", "onnx-int8")
# Config, weights, tokenizer and the code that opens them. Older exports and whatever training left stay behind.
_COPIED = {".json", ".safetensors", ".txt", ".model", ".py"}


def export(source: Path, *, to: list[str], output: Path) -> Record:
    """Exports a model directory of any head, each graph verified before the directory gets its name.

    Args:
        to: any of `onnx` and `onnx-int8`.
        output: the directory to make: config, weights and tokenizer of `source`, the graphs under `onnx/`, record.json.

    Raises:
        InvalidInput: an unknown export, or a source that is no model directory.
        ParityError: an output of the fp32 graph differs from the model's by more than 1e-4.
        QuantisationError: the int8 graph has a weight product in fp32.
    """
    for name in to:
        if name not in EXPORTS:
            raise InvalidInput("--to must be a known export", got=repr(name), repair=suggest(name, list(EXPORTS)))
    if not (source / "config.json").is_file():
        raise InvalidInput(
            "export needs a model directory",
            got=f"{source} without config.json",
            repair="give a directory that finetune or distill made",
        )
    wanted = sorted(set(to))
    return run_stage(
        "export",
        output,
        settings={"to": wanted},
        parents={"model": parent(source)},
        work=lambda directory: _export(source, wanted, directory),
    )


def _export(source: Path, wanted: list[str], directory: Path) -> dict[str, Any]:
    import onnx

    from hf_albert_plus.checkpoints import open_as_trained
    from hf_albert_plus.export.graph import export_graph, save_graph
    from hf_albert_plus.export.int8 import quantise
    from hf_albert_plus.export.parity import check_parity, differences, largest
    from hf_albert_plus.export.products import count_products

    with steps(f"export {source.name}", total=3 + 2 * ("onnx-int8" in wanted)) as begin:
        begin("trace")
        model = open_as_trained(source, option="DIR")
        unique_bytes = sum(parameter.nbytes for parameter in model.parameters())
        graph = export_graph(model)
        begin("write fp32")
        fp32 = directory / FILES["onnx"]
        save_graph(graph, fp32)
        proto = onnx.load(fp32)
        onnx.checker.check_model(proto)
        begin("check fp32")
        result: dict[str, Any] = {
            "parameters": model.num_parameters(),
            "unique_parameter_bytes": unique_bytes,
            "trained": _training_of(source),
            "exports": {},
        }
        difference = check_parity(model, fp32)
        if "onnx" in wanted:
            result["exports"]["onnx"] = {
                "file": FILES["onnx"],
                "bytes": fp32.stat().st_size,
                "max_abs_difference": difference,
                "weight_products": count_products(proto.graph).total,
            }
        if "onnx-int8" in wanted:
            begin("quantise")
            int8 = directory / FILES["onnx-int8"]
            counts = quantise(fp32, int8)
            begin("check int8")
            result["exports"]["onnx-int8"] = {
                "file": FILES["onnx-int8"],
                "bytes": int8.stat().st_size,
                "max_abs_difference": largest(differences(model, int8)),
                **counts,
            }
        if "onnx" not in wanted:
            fp32.unlink()
    for path in source.iterdir():
        if path.is_file() and path.suffix in _COPIED and path.name != RECORD:
            shutil.copyfile(path, directory / path.name)
    return result


def _training_of(source: Path) -> dict[str, Any] | None:
    """What the source's record says of its training, for the card of the directory that leaves the house."""
    if not (source / RECORD).is_file():
        return None
    record = read_record(source)
    return {"stage": record.stage, "settings": record.settings, "result": record.result}


__all__ = ["EXPORTS", "export"]
