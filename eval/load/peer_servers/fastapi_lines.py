"""What one writes in an afternoon: FastAPI, tokenizers and onnxruntime."""

import json
import sys
from pathlib import Path

import numpy
import onnxruntime
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from tokenizers import Tokenizer

directory, graph, port = sys.argv[1:]
labels = json.loads((Path(directory) / "config.json").read_text())["id2label"]
tokenizer = Tokenizer.from_file(f"{directory}/tokenizer.json")
tokenizer.enable_padding()
tokenizer.enable_truncation(512)
session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
names = [node.name for node in session.get_inputs()]
app = FastAPI()


class Asked(BaseModel):
    inputs: list[str]


@app.post("/classify")
def classify(asked: Asked) -> dict[str, list[dict[str, object]]]:
    rows = tokenizer.encode_batch(asked.inputs)
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    arrays = {name: numpy.array([getattr(row, columns[name]) for row in rows]) for name in names}
    (logits,) = session.run(["logits"], arrays)
    powers = numpy.exp(logits - logits.max(-1, keepdims=True))
    scores = powers / powers.sum(-1, keepdims=True)
    best = scores.argmax(-1)
    return {
        "predictions": [
            {"label": labels[str(place)], "score": float(row[place])} for place, row in zip(best, scores, strict=True)
        ]
    }


uvicorn.run(app, port=int(port), log_level="warning")
