"""The server's application on a socket of its own, in this process."""

import http.client
import json
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager

import uvicorn

from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.serving.application import build_app
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.header_limits import limited_protocol
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings


class Running:
    """An application on a socket of its own."""

    def __init__(self, catalogue, settings, gate):
        protocol = limited_protocol(header_s=settings.header_timeout)
        config = uvicorn.Config(build_app(catalogue, settings, gate), http=protocol, port=0, log_level="critical")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def ask(self, method, path, body=None, **headers):
        """Status, headers and content, JSON where it is."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, path, content, {"Content-Type": "application/json", **named})
            answer = connection.getresponse()
            data = answer.read()
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, dict(answer.getheaders()), json.loads(data) if is_json else data

    def classify(self, **body):
        status, _, content = self.ask("POST", "/classify", body)
        return status, content

    def stop(self):
        self.server.should_exit = True
        self.thread.join()


@contextmanager
def servers(directory):
    """Starts applications over a model, the directory's own in fp32 unless told otherwise, and stops them."""
    started = []

    def run(model=None, **settings):
        settings = ServeSettings(**{"wait_ms": 100, "cores": 1, **settings})
        model = model or QueuedModel(directory, "onnx", settings)
        started.append(Running(Catalogue({"film": {1: model}}), settings, Gate()))
        return started[-1]

    yield run
    for server in started:
        server.stop()


class InProcess(Running):
    """In place of a server process of a target."""

    def __init__(self, target, *options):
        chosen, settings = parse_target(target), ServeSettings()
        model = QueuedModel(chosen.directory, chosen.runtime, settings)
        super().__init__(Catalogue({"film": {1: model}}), settings, Gate())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    ready_s = 0.0

    def memory_mb(self):
        return None

    def cpu_seconds(self):
        return Counter({"client": time.process_time()})
