"""The Open Inference Protocol, version 2, over HTTP: requests and responses as JSON, and with tensors as bytes behind it (the binary
data extension that tritonclient uses)."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy
import orjson
from pydantic import BaseModel, ConfigDict, Field

from ..engines.text_answers import ModelFacts, TextAnswers
from .inference_outputs import TEXTS, outputs_of
from .json_problems import read_body
from .refusals import RequestError, TooLarge, Unusable

HEADER_LENGTH = "Inference-Header-Content-Length"
_TYPES: dict[str, numpy.dtype[Any]] = {"INT64": numpy.dtype("<i8"), "INT32": numpy.dtype("<i4")}
_DIMS = 2
# Characters of a name that is wrong which a message repeats.
_QUOTED = 40


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class TensorParameters(_Message):
    binary_data_size: int | None = Field(default=None, ge=0)
    binary_data: bool = False


class InputTensor(_Message):
    name: str
    shape: list[Annotated[int, Field(ge=1, lt=2**31)]] = Field(min_length=1, max_length=_DIMS)
    datatype: Literal["BYTES", "INT64", "INT32"]
    parameters: TensorParameters = TensorParameters()
    data: list[Any] | None = None


class WantedTensor(_Message):
    name: str
    parameters: TensorParameters = TensorParameters()


class RequestParameters(_Message):
    truncate: bool | None = None
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    binary_data_output: bool = False


class InferRequest(_Message):
    id: str | None = None
    parameters: RequestParameters = RequestParameters()
    inputs: list[InputTensor] = Field(min_length=1, max_length=8)
    outputs: list[WantedTensor] = Field(default=[], max_length=8)


def read_request(
    body: bytes, header_length: int | None, facts: ModelFacts
) -> tuple[InferRequest, dict[str, numpy.ndarray]]:
    """A request and its tensors by name: texts as arrays of `str` `[n]`, ids as int64 `[n, S]`.

    Args:
        facts: of the model, which say what tensors it takes.

    Raises:
        RequestError: anything that is not what the protocol says.
    """
    size = len(body)
    if header_length is not None:
        if header_length > len(body):
            raise RequestError(f"{HEADER_LENGTH} must be a number of bytes of the body, which has {len(body)}")
        size = header_length
    request = read_body(InferRequest, body[:size])
    tensors: dict[str, numpy.ndarray] = {}
    rest = memoryview(body)[size:]
    for given in request.inputs:
        _check_known(given, facts.inputs)
        if given.name in tensors:
            raise Unusable(f"inputs has {given.name} twice")
        length = given.parameters.binary_data_size
        if length is not None:
            if given.data is not None or length > len(rest):
                raise Unusable(f"{given.name} must have {length} bytes behind the JSON, or data, and not both")
            tensors[given.name], rest = _from_bytes(given, rest[:length]), rest[length:]
        else:
            tensors[given.name] = _from_json(given)
    if len(rest):
        raise RequestError(f"{len(rest)} bytes are left behind the tensors")
    return request, tensors


def texts_of(tensors: Mapping[str, numpy.ndarray]) -> list[str | tuple[str, str]] | None:
    """The texts, or pairs, of a request; None of one with token ids.

    Raises:
        Unusable: texts beside ids, or pairs of unlike length.
    """
    if "text" not in tensors:
        if "text_pair" in tensors:
            raise Unusable("text_pair needs text beside it")
        return None
    others = sorted(set(tensors) - set(TEXTS))
    if others:
        raise Unusable(f"a request has texts or token ids, and this one has text and {', '.join(others)}")
    first = tensors["text"].tolist()
    if "text_pair" not in tensors:
        return list(first)
    second = tensors["text_pair"].tolist()
    if len(first) != len(second):
        raise Unusable(f"text and text_pair must have as many elements, and have {len(first)} and {len(second)}")
    return list(zip(first, second, strict=True))


def write_response(
    answers: TextAnswers, facts: ModelFacts, request: InferRequest, *, name: str, version: int
) -> tuple[bytes, dict[str, str]]:
    """The body of a response, and its headers.

    Raises:
        Unusable: an output, or a threshold, that the model does not have.
    """
    available = outputs_of(answers, facts, threshold=request.parameters.threshold)
    wanted = [(one.name, one.parameters.binary_data) for one in request.outputs]
    wanted = wanted or [(output, request.parameters.binary_data_output) for output in available]
    tensors, blobs = [], []
    for output, binary in wanted:
        if output not in available:
            raise Unusable(f"{name} has no output {_quoted(output)}; it has {', '.join(available)}")
        datatype, values = available[output]
        tensor: dict[str, Any] = {"name": output, "shape": list(values.shape), "datatype": datatype}
        if binary:
            blobs.append(_to_bytes(values))
            tensor["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            tensor["data"] = values.ravel().tolist()
        tensors.append(tensor)
    content = {"model_name": name, "model_version": str(version), "outputs": tensors}
    if request.id is not None:
        content["id"] = request.id
    head = orjson.dumps(content)
    if not blobs:
        return head, {"content-type": "application/json"}
    return b"".join([head, *blobs]), {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(head))}


def check_items(tensors: Mapping[str, numpy.ndarray], *, most: int) -> None:
    """Refuses more rows than a request may have.

    Raises:
        TooLarge: it has.
    """
    for name, values in tensors.items():
        if len(values) > most:
            raise TooLarge(f"{name} has {len(values)} rows; a request may have {most}")


def _check_known(given: InputTensor, ids: Sequence[str]) -> None:
    """Refuses a tensor that a model does not take, or takes in another datatype.

    Raises:
        Unusable: it is one.
    """
    if given.name not in (*TEXTS, *ids):
        raise Unusable(f"an input must be one of {', '.join((*TEXTS, *ids))}, got {_quoted(given.name)}")
    wanted = ("BYTES",) if given.name in TEXTS else tuple(_TYPES)
    if given.datatype not in wanted:
        raise Unusable(f"{given.name} must be {' or '.join(wanted)}, got {given.datatype}")


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _QUOTED else name[:_QUOTED] + "…")


def _from_json(given: InputTensor) -> numpy.ndarray:
    values = _flat(given.data or [])
    if given.datatype == "BYTES":
        if not all(isinstance(value, str) for value in values):
            raise Unusable(f"{given.name} is BYTES: its data must be strings")
        return _shaped(given, numpy.array(values, dtype=object))
    if not all(type(value) is int and -(2**31) <= value < 2**31 for value in values):
        raise Unusable(f"{given.name} is {given.datatype}: its data must be whole numbers below 2^31")
    return _shaped(given, numpy.array(values, dtype=numpy.int64))


def _flat(values: list[Any]) -> list[Any]:
    """Data may be flat or a list of rows."""
    if values and all(isinstance(value, list) for value in values):
        return [value for row in values for value in row]
    return values


def _from_bytes(given: InputTensor, blob: memoryview) -> numpy.ndarray:
    if given.datatype in _TYPES:
        dtype = _TYPES[given.datatype]
        if len(blob) % dtype.itemsize:
            raise Unusable(f"{given.name} has {len(blob)} bytes, no multiple of {dtype.itemsize}")
        return _shaped(given, numpy.frombuffer(blob, dtype=dtype).astype(numpy.int64))
    values, place = [], 0
    while place < len(blob):
        end = place + 4
        end += int.from_bytes(blob[place:end], "little") if end <= len(blob) else len(blob)
        if end > len(blob):
            raise Unusable(f"{given.name} has an element that is longer than its bytes")
        try:
            values.append(str(blob[place + 4 : end], "utf-8"))
        except UnicodeDecodeError:
            raise Unusable(f"{given.name} must be UTF-8") from None
        place = end
    return _shaped(given, numpy.array(values, dtype=object))


def _shaped(given: InputTensor, values: numpy.ndarray) -> numpy.ndarray:
    """Texts `[n]`, which may come as `[n, 1]`, and ids `[n, S]`."""
    is_text = given.datatype == "BYTES"
    fits = math.prod(given.shape) == len(values)
    if not fits or (is_text and len(given.shape) == _DIMS and given.shape[1] != 1):
        raise Unusable(f"{given.name} has shape {given.shape} and {len(values)} elements")
    if not is_text and len(given.shape) != _DIMS:
        raise Unusable(f"{given.name} must have shape [rows, tokens]")
    return values if is_text else values.reshape(given.shape)


def _to_bytes(values: numpy.ndarray) -> bytes:
    if values.dtype == numpy.bool_:
        return values.tobytes()
    if values.dtype == numpy.int64:
        return values.astype("<i8").tobytes()
    if values.dtype != object:
        return values.astype("<f4").tobytes()
    encoded = [str(value).encode() for value in values.ravel()]
    return b"".join(len(one).to_bytes(4, "little") + one for one in encoded)
