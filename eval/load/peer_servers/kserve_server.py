"""KServe's Python server over a model of one's own."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy
import onnxruntime
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer
from tokenizers import Tokenizer

directory, graph, port = sys.argv[1:]
COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class Classifier(Model):
    def load(self) -> bool:
        self.labels = json.loads((Path(directory) / "config.json").read_text())["id2label"]
        self.tokenizer = Tokenizer.from_file(f"{directory}/tokenizer.json")
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(512)
        self.session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        self.names = [node.name for node in self.session.get_inputs()]
        self.ready = True
        return self.ready

    def predict(self, payload: InferRequest, *_: Any, **__: Any) -> InferResponse:
        texts = [text.decode() if isinstance(text, bytes) else text for text in payload.inputs[0].data]
        rows = self.tokenizer.encode_batch(texts)
        arrays = {name: numpy.array([getattr(row, COLUMNS[name]) for row in rows]) for name in self.names}
        (logits,) = self.session.run(["logits"], arrays)
        labels = [self.labels[str(place)] for place in logits.argmax(-1)]
        output = InferOutput("label", [len(labels)], "BYTES", data=labels)
        return InferResponse(response_id=payload.id or "", model_name=self.name, infer_outputs=[output])


if __name__ == "__main__":
    model = Classifier("film")
    model.load()
    ModelServer(http_port=int(port), enable_grpc=False, enable_docs_url=False).start([model])
