"""Many clients at a time, whose texts share batches: each text gets the answer that it gets alone, in int8 too."""

import shutil
import time

import pytest

from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.graphs import quantise_dynamically
from tests.support.local_server import Running
from tests.support.storm import MAX_BODY, TOLERANCE, Storm, logits_of

CLIENTS = 32
# A storm lasts so long, and longer where a slow machine has answered too few in that time, but not for ever.
SECONDS, AT_MOST_S = 6, 120
KINDS = ("classify", "infer")
WORDS = ["a", "the", "film", "plot", "cast", "is", "was", "not", "good", "bad", "and", "of", "no", "very", "twice"]
TEXTS = [" ".join(WORDS[(first * step) % len(WORDS)] for step in range(1, 2 + first)) for first in range(40)]


def storm_at(directory):
    """What 32 clients were told in good and bad requests, of one text to many."""
    settings = ServeSettings(max_body=MAX_BODY, deadline_s=60)
    model = QueuedModel(directory, "onnx-int8", settings)
    running = Running(Catalogue({"film": {1: model}}), settings, Gate())
    alone = logits_of(directory, "onnx-int8", TEXTS)
    try:
        with Storm(running.port, TEXTS, alone, tolerance=TOLERANCE["onnx-int8"], clients=CLIENTS) as storm:
            start = time.monotonic()
            while (took := time.monotonic() - start) < SECONDS or (
                took < AT_MOST_S and any(storm.counts[kind, 200] <= CLIENTS for kind in KINDS)
            ):
                time.sleep(0.1)
    finally:
        running.stop()
    return storm


@pytest.mark.slow
def test_each_of_32_clients_gets_the_answer_that_its_texts_get_alone(exported_dir):
    storm = storm_at(exported_dir)
    assert storm.wrong == []
    for kind in KINDS:
        assert storm.counts[kind, 200] > CLIENTS


@pytest.mark.slow
def test_a_dynamic_graph_is_found_out(exported_dir, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(exported_dir, directory)
    (directory / "record.json").unlink()
    quantise_dynamically(directory / "onnx" / "model.onnx", directory / "onnx" / "model_int8.onnx")
    assert any("scores are off" in each for each in storm_at(directory).wrong)
