"""MLServer with its adaptive batching. `python FILE MODEL_DIRECTORY GRAPH PORT` starts it on this file's own runtime."""

import json
import os
import socket
import sys
import tempfile
from pathlib import Path

import numpy
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse
from tokenizers import Tokenizer

COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class Classifier(MLModel):
    async def load(self) -> bool:
        asked = self.settings.parameters.extra
        self.labels = json.loads((Path(asked["directory"]) / "config.json").read_text())["id2label"]
        self.tokenizer = Tokenizer.from_file(f"{asked['directory']}/tokenizer.json")
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(512)
        self.session = onnxruntime.InferenceSession(asked["graph"], providers=["CPUExecutionProvider"])
        self.names = [node.name for node in self.session.get_inputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = self.tokenizer.encode_batch(StringCodec.decode_input(payload.inputs[0]))
        arrays = {name: numpy.array([getattr(row, COLUMNS[name]) for row in rows]) for name in self.names}
        (logits,) = self.session.run(["logits"], arrays)
        labels = [self.labels[str(place)] for place in logits.argmax(-1)]
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("label", labels)])


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def main(directory: str, graph: str, port: str) -> None:
    folder = Path(tempfile.mkdtemp())
    cores = os.cpu_count() or 1
    grpc_port, metrics_port = free_ports(2)
    server = {
        "host": "127.0.0.1",
        "http_port": int(port),
        "grpc_port": grpc_port,
        "metrics_port": metrics_port,
        "parallel_workers": cores,
    }
    model = {
        "name": "film",
        "implementation": f"{Path(__file__).stem}.Classifier",
        "max_batch_size": 32,
        "max_batch_time": 0.002,
        "parameters": {"extra": {"directory": directory, "graph": graph}},
    }
    (folder / "settings.json").write_text(json.dumps({**server, "debug": False}))
    (folder / "model-settings.json").write_text(json.dumps(model))
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    os.execv(Path(sys.executable).with_name("mlserver"), ["mlserver", "start", str(folder)])


if __name__ == "__main__":
    main(*sys.argv[1:])
