"""LitServe with its own batching, a worker a core, as its guide says for models on a CPU."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import litserve
import numpy
import onnxruntime
from tokenizers import Tokenizer

directory, graph, port = sys.argv[1:]
COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class Classifier(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self.labels = json.loads((Path(directory) / "config.json").read_text())["id2label"]
        self.tokenizer = Tokenizer.from_file(f"{directory}/tokenizer.json")
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(512)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.names = [node.name for node in self.session.get_inputs()]

    def decode_request(self, request: dict[str, Any]) -> list[str]:
        texts: list[str] = request["inputs"]
        return texts

    def predict(self, requests: list[list[str]]) -> list[list[dict[str, object]]]:
        rows = self.tokenizer.encode_batch([text for texts in requests for text in texts])
        arrays = {name: numpy.array([getattr(row, COLUMNS[name]) for row in rows]) for name in self.names}
        (logits,) = self.session.run(["logits"], arrays)
        powers = numpy.exp(logits - logits.max(-1, keepdims=True))
        scores = iter(powers / powers.sum(-1, keepdims=True))
        return [[self._answer(next(scores)) for _ in texts] for texts in requests]

    def _answer(self, scores: numpy.ndarray) -> dict[str, object]:
        place = int(scores.argmax())
        return {"label": self.labels[str(place)], "score": float(scores[place])}

    def encode_response(self, answers: list[dict[str, object]]) -> dict[str, object]:
        return {"predictions": answers}


if __name__ == "__main__":
    server = litserve.LitServer(
        Classifier(max_batch_size=16, batch_timeout=0.002),
        accelerator="cpu",
        workers_per_device=os.cpu_count() or 1,
    )
    server.run(port=int(port), log_level="warning", generate_client_file=False)
