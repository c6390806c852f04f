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


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
def test_a_browser_shows_what_the_model_says(served, exported_dir, tmp_path):
    """The page in headless Chromium: a text is typed and sent by the page's own code, and the answer is read from the document."""
    (_, _, page), answer = served.ask("GET", "/"), served.classify(inputs="a good film")[1]["predictions"][0]
    typed = b"""<script>addEventListener("load", () => {
      document.getElementById("text").value = "a good film"; document.getElementById("form").requestSubmit(); });</script></body>"""
    (tmp_path / "page.html").write_bytes(
        page.replace(b"</body>", typed).replace(
            b'fetch("classify"', b'fetch("http://127.0.0.1:%d/classify"' % served.port
        )
    )
    words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-web-security",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    done = subprocess.run(
        [BROWSER, *words, "--virtual-time-budget=8000", "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert f'<div id="said">{answer["label"]}</div>' in done.stdout
    assert f"{answer['tokens']} tokens" in done.stdout
    assert "film, version 1" in done.stdout


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


def test_requests_are_traced_where_opentelemetry_is_set_up(exported_dir):
    """By FastAPI itself, under the routes' own names."""
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("fastapi.telemetry")
    done = subprocess.run([sys.executable, "-c", TRACED, exported_dir], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "['POST /classify', 'POST /v2/models/{name}/infer']", done.stderr
