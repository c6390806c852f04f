"""Whether an answer depends on the texts that shared its batch: what the guide says of each engine."""

import numpy
import pytest

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.tasks.rows import load_tokenizer

ENGINES = ("onnx", "onnx-int8", "onnx-qdq", "openvino", "openvino-int8")
TEXT = "the plot is bad and the cast is not good at all"
NEIGHBOURS = ("no", "good good good bad", "a film to see twice, and the plot is a good one", "bad , bad , bad")


@pytest.fixture(scope="module")
def exports(classifier_dir, tmp_path_factory):
    for library in ("openvino", "nncf"):
        pytest.importorskip(library)
    directory = tmp_path_factory.mktemp("neighbours") / "model"
    texts = directory.parent / "texts.txt"
    texts.write_text("\n".join([TEXT, *NEIGHBOURS] * 8))
    settings = ExportSettings(texts=texts, examples=32)
    export(classifier_dir, to=list(ENGINES), output=directory, settings=settings)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [*ENGINES, "torch"])
def test_a_text_beside_others(exports, runtime):
    engine = Engine.load(exports, runtime, threads=1)
    tokenizer = load_tokenizer(exports, engine.config)

    def logits(*neighbours):
        """Of the text, in a batch of one width whatever is in it."""
        return engine(**tokenizer([TEXT, *neighbours], padding="max_length", max_length=32, return_tensors="pt")).logits[0].numpy()  # fmt: skip

    found = numpy.stack([logits(neighbour) for neighbour in NEIGHBOURS])
    assert float(numpy.ptp(found, axis=0).max()) < 1e-5
