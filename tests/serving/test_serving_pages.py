"""What people look at: the page at `/`, the dashboard of the metrics, and what an image that only serves installs."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.documents import ROOT
from tests.support.local_server import Running
from tests.support.questions import make_answerer
from tests.support.taggers import make_tagger

DASHBOARD = ROOT / "examples" / "grafana" / "dashboard.json"
BROWSER = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def served(exported_dir):
    model = QueuedModel(exported_dir, "onnx-int8", ServeSettings())
    running = Running(Catalogue({"film": {1: model}}), ServeSettings(), Gate())
    yield running
    running.stop()


def test_the_page_loads_nothing_and_needs_no_token(served, exported_dir):
    status, headers, page = served.ask("GET", "/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert not re.search(rb"(src|href)=[\"'](https?:)?//", page)
    model = served.classify(inputs="a")
    assert model[0] == 200


@pytest.fixture(scope="module")
def of_every_kind(exported_dir, vectors_dir, tokenizer_dir, tmp_path_factory):
    """A classifier, a tagger, a model of spans and an encoder behind one server."""
    tagger, answerer = (tmp_path_factory.mktemp(name) for name in ("tagger", "answerer"))
    make_tagger(tagger, tokenizer_dir)
    make_answerer(answerer, tokenizer_dir)
    paths = {"film": exported_dir, "tags": tagger, "answers": answerer, "vectors": vectors_dir}
    settings = ServeSettings(cores=1)
    running = Running(
        Catalogue({name: {1: QueuedModel(path, "torch", settings)} for name, path in paths.items()}), settings, Gate()
    )
    yield running
    running.stop()


def shown_by_a_browser(served, folder, **typed):
    """The document of the page in headless Chromium, after a text was typed and sent by the page's own code."""
    page = served.ask("GET", "/")[2].decode()
    typing = "".join(f"document.getElementById({name!r}).value = {value!r};" for name, value in typed.items())
    script = f"""<script>addEventListener("load", () => {{ {typing} document.getElementById("form").requestSubmit(); }});</script>"""
    sent = page.replace("</body>", f"{script}</body>").replace("fetch(", f"fetch('http://127.0.0.1:{served.port}/' + ")
    assert sent.count("/' + route,") == 1
    (folder / "page.html").write_text(sent)
    words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-web-security",
        f"--user-data-dir={folder / 'profile'}",
    ]
    done = subprocess.run(
        [BROWSER, *words, "--virtual-time-budget=8000", "--dump-dom", (folder / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
@pytest.mark.parametrize("name", ["film", "tags", "answers", "vectors"])
def test_a_browser_shows_what_the_model_says(of_every_kind, name, tmp_path):
    """Of every kind of model, though the page asks for labels first."""
    text, context = "who sold the lamp ?", "the sailor sold the lamp in the harbour ." if name == "answers" else ""
    asked = {
        "film": ("/classify", text),
        "tags": ("/tag", text),
        "answers": ("/answer", {"question": text, "context": context}),
        "vectors": ("/embed", text),
    }
    route, inputs = asked[name]
    _, _, content = of_every_kind.ask("POST", route, {"inputs": inputs, "model": name})
    (answer,) = content["predictions"]
    expected = {
        "film": lambda: answer["label"],
        "tags": lambda: ", ".join(f"{each['text']} ({each['label']})" for each in answer["entities"]) or "no entities",
        "answers": lambda: answer["answer"],
        "vectors": lambda: f"a vector of {len(answer['vector'])} numbers",
    }
    shown = shown_by_a_browser(of_every_kind, tmp_path, text=text, pair=context, model=name)
    assert f'<div id="said">{expected[name]()}</div>' in shown
    assert f"{answer['tokens']} tokens" in shown
    assert f"{name}, version 1" in shown
    assert '<div id="wrong" role="alert"></div>' in shown


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
def test_a_browser_shows_why_it_was_refused(of_every_kind, tmp_path):
    """Which of the models is meant, and a question without a context."""
    assert "vectors" in shown_by_a_browser(of_every_kind, tmp_path, text="a").partition('id="wrong"')[2]
    assert (
        "context" in shown_by_a_browser(of_every_kind, tmp_path, text="a", model="answers").partition('id="wrong"')[2]
    )


def test_the_dashboard_asks_for_metrics_that_there_are(served):
    served.classify(inputs=["a", "b"])
    families = text_string_to_metric_families(served.ask("GET", "/metrics")[2].decode())
    kept = {sample.name for family in families for sample in family.samples}
    # Samples that appear with the first fault.
    kept |= {"hf_albert_plus_refused_versions", "hf_albert_plus_not_finite_total"}
    dashboard = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for one in panel["targets"]
        for name in re.findall(r"hf_albert_plus_\w+", one["expr"])
    }
    assert asked <= kept
    assert {"hf_albert_plus_requests_total", "hf_albert_plus_request_seconds_bucket"} <= asked
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_an_image_that_only_serves_asks_for_the_versions_that_the_package_does():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {
        *project["dependencies"],
        *(one for name in ("cpu", "serve") for one in project["optional-dependencies"][name]),
    }
    lines = (ROOT / "examples" / "serving-requirements.txt").read_text().splitlines()
    lean = {
        line.partition(" #")[0].strip().replace('"', "'") for line in lines if line.strip() and not line.startswith("#")
    }
    assert lean <= {one.replace('"', "'") for one in asked}
    assert set(project["optional-dependencies"]["serve"]) <= lean
    assert not {name for name in lean if name.startswith(("torch", "transformers"))}


TRACED = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.settings import ServeSettings
from tests.support.local_server import Running
from tests.support.questions import make_answerer
from tests.support.taggers import make_tagger
spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
model = QueuedModel(sys.argv[1], "onnx", ServeSettings())
running = Running(Catalogue({"film": {1: model}}), ServeSettings(), Gate())
running.classify(inputs="a good film")
running.ask("POST", "/v2/models/film/infer", {"inputs": []})
running.stop()
print(sorted(span.name for span in spans.get_finished_spans() if span.kind is trace.SpanKind.SERVER))
"""


@pytest.mark.slow
def test_requests_are_traced_where_opentelemetry_is_set_up(exported_dir):
    """By FastAPI itself, under the routes' own names."""
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("fastapi.telemetry")
    done = subprocess.run([sys.executable, "-c", TRACED, exported_dir], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "['POST /classify', 'POST /v2/models/{name}/infer']", done.stderr
