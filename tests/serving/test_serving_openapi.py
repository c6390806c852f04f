"""What /openapi.json promises, held against the server by a fuzzer of APIs."""

import subprocess
import sys

import pytest

from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.local_server import Running
from tests.support.questions import make_answerer

TOKEN = "of-the-test"
# Whether a tensor's data fit its shape, and its ids the model, is nothing that a JSON schema can say.
CONFIG = """
[parameters]
name = "film"
version = "1"

[[operations]]
include-path-regex = "/infer$"

[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "422"]

# Nor whether the model that is asked gives tags, answers or vectors, nor of which widths.
[[operations]]
include-path-regex = "/(tag|answer|embed|embeddings)$"

[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "404", "422"]
"""


@pytest.fixture(scope="module")
def server(exported_dir):
    settings = ServeSettings(max_body=20_000, max_items=8, deadline_s=30)
    running = Running(
        Catalogue({"film": {1: QueuedModel(exported_dir, "onnx", settings)}}), settings, Gate(token=TOKEN)
    )
    yield running
    running.stop()


def fuzz(server, folder, *words):
    """Exit status and output of schemathesis, with every check it has."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    # Its report is of one process; the same seed makes the same requests.
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{server.port}/openapi.json", "--checks", "all",
         # The API keeps nothing from one request to the next.
         "--phases", "examples,coverage,fuzzing",
         "--seed", "1", "--header", f"Authorization: Bearer {TOKEN}", *words],
        cwd=folder, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_every_request_is_answered_as_described(server, tmp_path):
    status, output = fuzz(server, tmp_path, "--max-examples", "10")
    assert status == 0, output
    assert "15 selected" in output


@pytest.mark.slow
def test_requests_for_vectors_are_answered_as_described(vectors_dir, tmp_path):
    settings = ServeSettings(max_body=20_000, max_items=8, deadline_s=30)
    models = {"film": {1: QueuedModel(vectors_dir, "onnx", settings)}}
    running = Running(Catalogue(models), settings, Gate(token=TOKEN))
    status, output = fuzz(running, tmp_path, "--include-path-regex", "/embed", "--max-examples", "10")
    running.stop()
    assert status == 0, output
    assert "2 selected" in output


@pytest.mark.slow
def test_questions_are_answered_as_described(tokenizer_dir, tmp_path):
    make_answerer(tmp_path / "answers", tokenizer_dir, no_answer_threshold=0.0)
    settings = ServeSettings(max_body=20_000, max_items=8, deadline_s=30, cores=1)
    running = Running(
        Catalogue({"film": {1: QueuedModel(tmp_path / "answers", "torch", settings)}}), settings, Gate(token=TOKEN)
    )
    status, output = fuzz(running, tmp_path, "--include-path-regex", "/answer", "--max-examples", "10")
    running.stop()
    assert status == 0, output
    assert "1 selected" in output


def test_the_description_has_the_token_and_no_open_ends(server):
    _, _, found = server.ask("GET", "/openapi.json", Authorization=f"Bearer {TOKEN}")
    assert found["security"] == [{"token": []}]
    closed = {
        path for path, methods in found["paths"].items() for method in methods.values() if "security" not in method
    }
    assert set(found["paths"]) - closed == {"/v2/health/live", "/v2/health/ready"}

    def references(part):
        if isinstance(part, dict):
            yield from ([part["$ref"]] if "$ref" in part else [])
            part = list(part.values())
        if isinstance(part, list):
            for one in part:
                yield from references(one)

    lists = {
        "ClassifyRequest": "inputs",
        "TagRequest": "inputs",
        "AnswerRequest": "inputs",
        "EmbedRequest": "inputs",
        "EmbeddingsRequest": "input",
    }
    for schema, field in lists.items():
        forms = found["components"]["schemas"][schema]["properties"][field]["anyOf"]
        assert [form.get("maxItems") for form in forms if form.get("type") == "array"] == [8]
    named = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert {"#/components/schemas/InferRequest"} <= set(references(found)) <= named
