"""Which models are fit to serve, when that is said, and what serves in the place of one that is not."""

import json
import shutil
import socket
import subprocess
import sys

import numpy
import onnx
import pytest
from safetensors.torch import load_file, save_file

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.local_server import Running


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@pytest.fixture
def model_dir(exported_dir, tmp_path):
    """A copy to break, without the record that would tell of it."""
    shutil.copytree(exported_dir, tmp_path / "film")
    (tmp_path / "film" / "record.json").unlink()
    return tmp_path / "film"


def changed_graph(change):
    """Another model's graph: every matrix of its weights is changed."""

    def harm(directory):
        graph = onnx.load(directory / "onnx" / "model.onnx")
        for tensor in graph.graph.initializer:
            values = onnx.numpy_helper.to_array(tensor)
            if values.dtype == numpy.float32 and values.ndim == 2:
                tensor.CopyFrom(onnx.numpy_helper.from_array(numpy.ascontiguousarray(change(values)), tensor.name))
        onnx.save(graph, directory / "onnx" / "model.onnx")

    return harm


other_weights = changed_graph(lambda values: numpy.roll(values, 1, axis=0))
smaller_vocabulary = changed_graph(lambda values: values[:50] if len(values) > 100 else values)
graph_with_nan = changed_graph(lambda values: values * numpy.float32("nan"))


def weights_with_nan(directory):
    tensors = load_file(directory / "model.safetensors")
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    tensors[name][-1, -1] = float("nan")
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def three_labels(directory):
    config = json.loads((directory / "config.json").read_text())
    config["id2label"], config["label2id"] = {"0": "a", "1": "b", "2": "c"}, {"a": 0, "b": 1, "c": 2}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("harm", "runtime", "message"),
    [
        (smaller_vocabulary, "onnx", "model.onnx must compute what has 8 tokens, got"),
        (other_weights, "onnx", "must compute what the weights beside it do: outputs may differ by at most 0.0001"),
        (graph_with_nan, "onnx", "must give finite logits, got nan"),
        (weights_with_nan, "onnx", "weights must be finite, got NaN in albert_plus.embeddings"),
        (weights_with_nan, "torch", "weights must be finite, got NaN in albert_plus.embeddings"),
        (three_labels, "onnx", "must give 3 logits for a text, one for each label of its config, got shape [2, 2]"),
    ],
)  # fmt: skip
def test_a_model_that_answers_otherwise_than_its_weights_is_not_fit(model_dir, harm, runtime, message):
    from hf_albert_plus.serving.trial_process import try_model

    try_model(str(model_dir), runtime, None)
    harm(model_dir)
    with pytest.raises(InvalidInput) as refused:
        try_model(str(model_dir), runtime, None)
    assert message in str(refused.value)


def test_int8_is_tried_with_the_tolerance_of_its_export(exported_dir):
    from hf_albert_plus.serving.trial_process import try_model

    try_model(str(exported_dir), "onnx-int8", None)


def test_a_trial_tells_home_what_is_wrong_even_if_its_process_dies(model_dir, monkeypatch):
    from hf_albert_plus.serving import trial
    from hf_albert_plus.serving.repository import scan

    (served,) = scan(model_dir, runtime="onnx")
    graph_with_nan(model_dir)
    with pytest.raises(InvalidInput, match="must give finite logits, got nan"):
        trial.Trial(served, max_length=None).end()
    monkeypatch.setattr(trial, "_WORK", "tests.dies")
    with pytest.raises(InvalidInput, match=r"must open and compute on onnx, got .*tests.dies"):
        trial.Trial(served, max_length=None).end()


def write(name, content):
    return lambda directory: (directory / name).write_text(content)


def no_classifier(directory):
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "architectures": ["AlbertPlusForMaskedLM"]}))


def other_content_than_recorded(directory):
    record = {
        "stage": "export", "settings": {}, "parents": {}, "result": {}, "versions": {}, "platform": "", "finished": "", "seconds": 0,
        "files": {"onnx/model.onnx": {"bytes": 1, "sha256": "0" * 64}},
    }  # fmt: skip
    (directory / "record.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (write("config.json", "{"), "config.json of a model to serve must be a JSON file"),
        (write("config.json", "[1]"), "config.json (Input should be an object); correct config.json"),
        (write("config.json", "[" * 10_000), "config.json (it nests too deeply); correct config.json"),
        (write("config.json", '{"model_type": "unheard-of"}'), "a model to serve must be a model directory"),
        (no_classifier, "texts are classified by sequence classifiers, their words by token classifiers, and questions answered by models of spans, got AlbertPlusForMaskedLM"),
        (write("tokenizer.json", "{"), "a model directory must hold its tokenizer, got"),
        (write("tokenizer.json", "{}"), "a model directory must hold its tokenizer, got"),
        (lambda directory: (directory / "tokenizer.json").unlink(), "a model directory must hold its tokenizer"),
        (lambda directory: (directory / "onnx" / "model.onnx").unlink(), "must hold onnx/model.onnx to be run by onnx, got no such file"),
        (other_content_than_recorded, "must be the file that"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_directory_is_said_before_anything_starts(model_dir, harm, message, monkeypatch):
    server = pytest.importorskip("hf_albert_plus.serving.server")

    def starts(*args, **options):
        raise AssertionError("something was started")

    monkeypatch.setattr(server, "Trial", starts)
    monkeypatch.setattr(server, "Listener", starts)
    harm(model_dir)
    hosting = server.Hosting(port=free_port())
    found = server.Server(model_dir, runtime="onnx", settings=ServeSettings(), hosting=hosting)
    with pytest.raises(InvalidInput) as refused:
        found.start()
    assert message in str(refused.value)


# What only a server that starts needs, or a model that opens.
HEAVY = ("datasets", "fastapi", "ray", "transformers.modeling_utils", "uvicorn")
START = """
import sys
from pathlib import Path
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.serving.server import Hosting, Server
from hf_albert_plus.serving.settings import ServeSettings
try:
    Server(Path(sys.argv[1]), runtime="onnx", settings=ServeSettings(), hosting=Hosting()).start()
except InvalidInput as error:
    print(error)
print([name for name in sys.argv[2:] if name in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "message", "more"),
    [
        (write("config.json", "{"), "config.json of a model to serve must be a JSON file", ("accelerate",)),
        (no_classifier, "texts are classified by sequence classifiers", ()),
        (other_content_than_recorded, "must be the file that", ()),
        (lambda directory: (directory / "onnx" / "model.onnx").unlink(), "got no such file", ("torch", "transformers")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_libraries_that_take_seconds_are_imported(model_dir, harm, message, more):
    harm(model_dir)
    words = [sys.executable, "-c", START, str(model_dir), *HEAVY, *more]
    done = subprocess.run(words, capture_output=True, text=True)
    said, imported = done.stdout.splitlines()
    assert message in said
    assert imported == "[]"


def test_files_are_hashed_again_only_where_they_are_others(exported_dir, tmp_path, monkeypatch):
    from hf_albert_plus.engines import text_model
    from hf_albert_plus.serving import trial_process
    from hf_albert_plus.serving.repository import scan

    shutil.copytree(exported_dir, tmp_path / "film")
    (served,) = scan(tmp_path / "film", runtime="onnx")
    hashed = []
    monkeypatch.setattr(text_model, "check_hashes", lambda directory, runtime: hashed.append(runtime.name))
    words = (str(served.directory), served.runtime)
    trial_process.main(*words, served.content)
    assert hashed == []
    (served.directory / "onnx" / "model.onnx").touch()
    trial_process.main(*words, served.content)
    assert hashed == ["onnx"]


def test_longer_texts_than_positions_are_said_before_anything_starts(exported_dir, monkeypatch):
    server = pytest.importorskip("hf_albert_plus.serving.server")
    monkeypatch.setattr(server, "Trial", None)
    hosting = server.Hosting(port=free_port())
    found = server.Server(exported_dir, runtime="onnx", settings=ServeSettings(max_length=65), hosting=hosting)
    with pytest.raises(InvalidInput, match="must be from 1 to the 64 positions of .*, got 65; use --max-length 64"):
        found.start()


class FakeHost:
    """A host whose models are names: which were opened and closed, and which of them requests find."""

    def __init__(self, server, monkeypatch, folder):
        self.told, self.closed, self.opened = [], [], []
        self.server = server.Server(
            folder, runtime="onnx", settings=ServeSettings(), hosting=server.Hosting(), tell=self.told.append
        )
        self.server._host = self

        class Trial:
            def __init__(self, model, *, max_length):
                self.end = lambda: None

        monkeypatch.setattr(server, "Trial", Trial)

    def open(self, model):
        self.opened.append(model.application)
        if (model.directory / "unfit").exists():
            raise InvalidInput("it must be fit", got="unfit", repair="mend it")
        return model

    def close(self, model):
        self.closed.append(model.application)

    def versions(self):
        catalogue = self.server._catalogue
        return {name: sorted(versions) for name, versions in catalogue.models.items()}, {
            name: dict(versions) for name, versions in catalogue.refused.items()
        }


def test_a_refused_version_stays_out_until_it_changes(exported_dir, tmp_path, monkeypatch):
    server = pytest.importorskip("hf_albert_plus.serving.server")
    fake = FakeHost(server, monkeypatch, tmp_path)
    shutil.copytree(exported_dir, tmp_path / "film" / "1")
    assert fake.server.refresh()
    assert fake.versions() == ({"film": [1]}, {})
    shutil.copytree(exported_dir, tmp_path / "film" / "2")
    (tmp_path / "film" / "2" / "unfit").touch()
    assert fake.server.refresh()
    assert fake.versions() == ({"film": [1]}, {"film": {2: "it must be fit, got unfit; mend it"}})
    assert fake.told[1:] == ["film 2 is refused: it must be fit, got unfit; mend it"]
    shutil.copytree(exported_dir, tmp_path / "film" / "3")
    (tmp_path / "film" / "3" / "tokenizer.json").unlink()
    assert fake.server.refresh()
    assert "film/3 without" in fake.versions()[1]["film"][3] or "film/3" in fake.versions()[1]["film"][3]
    assert len(fake.opened) == 2
    assert [fake.server.refresh() for _ in range(3)] == [False] * 3
    # The old one goes on as long as there is nothing fit in its place.
    shutil.rmtree(tmp_path / "film" / "1")
    fake.server.refresh()
    assert fake.versions()[0] == {"film": [1]}
    assert fake.closed == []
    (tmp_path / "film" / "2" / "unfit").unlink()
    (tmp_path / "film" / "2" / "config.json").touch()
    assert fake.server.refresh()
    assert fake.versions()[0] == {"film": [2]}
    assert len(fake.closed) == 1


def test_a_refused_version_is_not_ready_and_says_why(exported_dir):
    catalogue = Catalogue({"film": {1: QueuedModel(exported_dir, "onnx", ServeSettings())}})
    catalogue.refused = {"film": {2: "it must be fit"}, "plot": {1: "no tokenizer"}}
    server = Running(catalogue, ServeSettings(), Gate())
    try:
        assert server.ask("GET", "/v2/models/film")[2]["parameters"]["refused"] == {"2": "it must be fit"}
        assert server.ask("GET", "/v2/models/film/ready")[0] == 200
        assert server.classify(inputs="a")[1]["version"] == "1"
        status, _, content = server.ask("GET", "/v2/models/film/versions/2/ready")
        assert (status, content["ready"]) == (503, False)
        for method, path in (("GET", "/v2/models/film/versions/2"), ("POST", "/v2/models/film/versions/2/infer")):
            status, _, content = server.ask(method, path)
            assert (status, content["error"]) == (503, "film 2 does not serve: it must be fit")
        assert server.ask("GET", "/v2/models/plot")[2]["error"] == "plot 1 does not serve: no tokenizer"
        line = 'hf_albert_plus_refused_versions{model="film",reason="it must be fit",version="2"} 1.0'
        assert line in server.ask("GET", "/metrics")[2].decode()
    finally:
        server.stop()


def test_weights_that_are_missing_come_from_a_training_and_not_from_an_export(model_dir):
    from hf_albert_plus.serving.repository import scan

    (model_dir / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"must hold model.safetensors .*; make it: albert-plus finetune"):
        scan(model_dir, runtime="torch")
