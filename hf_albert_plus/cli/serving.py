"""The verbs that serve, and that time a server."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInput
from ..optional import need
from ..serving.loopback import is_loopback
from . import options as o
from .console import notes, print_json, print_rows
from .stages import start

TOKEN = "ALBERT_PLUS_TOKEN"


def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR[:ENGINE]",
            help="A model, or a folder of some: NAME/ or NAME/VERSION/. ENGINE by default onnx-int8, else onnx, else torch.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on. Other machines reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    replicas: Annotated[int, typer.Option(min=1, help="Processes of each model.")] = 1,
    streams: Annotated[
        int | None, typer.Option(min=1, help="Batches at a time in a process. Default: the physical cores.")
    ] = None,
    token_budget: Annotated[int, typer.Option(help="Tokens a batch, padding included.")] = 512,
    wait_ms: Annotated[float, typer.Option(help="How long a text waits for others to share its batch.")] = 2.0,
    max_length: Annotated[int | None, typer.Option(help="Tokens of a text. Default: the model's positions.")] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut longer texts, and say so, instead of refusing them.")
    ] = False,
    max_body: Annotated[int, typer.Option(help="Bytes of a request.")] = 4 << 20,
    max_items: Annotated[int, typer.Option(help="Texts of a request.")] = 1024,
    max_waiting: Annotated[int, typer.Option(help="Tokens that may wait in a process before it answers 429.")] = 1
    << 17,
    deadline: Annotated[float, typer.Option(help="Seconds after which a request is answered 504.")] = 10.0,
    header_timeout: Annotated[
        float,
        typer.Option(help="Seconds for a request's headers to come; then its connection is closed."),
    ] = 10.0,
    body_timeout: Annotated[
        float, typer.Option(help="Seconds for a request's body to come; then it is answered 408.")
    ] = 30.0,
    drain: Annotated[float, typer.Option(help="Seconds to finish what was accepted, once told to stop.")] = 30.0,
    token_file: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help=f"File with the token that requests must bear. Or set {TOKEN}."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to join, as auto. Default: one of its own, on loopback.")
    ] = None,
) -> None:
    """Serve classifiers over HTTP: /classify, the Open Inference Protocol under /v2, /metrics, and a page of it all at /docs.

    A changed or new model in a folder takes over without a lost request. SIGTERM drains.
    """
    from hf_albert_plus.eval.targets import directory_and_runtime

    from ..serving.settings import ServeSettings

    directory, runtime = directory_and_runtime(target)
    settings = ServeSettings(
        token_budget=token_budget, wait_ms=wait_ms, streams=streams, max_length=max_length, truncate=truncate, max_body=max_body,
        max_items=max_items, max_waiting=max_waiting, deadline_s=deadline, header_timeout=header_timeout, body_timeout=body_timeout, drain_s=drain,
    )  # fmt: skip
    token = _token(token_file)
    need("fastapi", extra="serve")
    from ..serving.server import Place, Server

    place = Place(host=host, port=port, replicas=replicas, address=address, token=token)
    if token is None and not is_loopback(host):
        notes.print(f"--host {host} without a token: whoever reaches it may ask; give it a --token-file", markup=False)
    server = Server(
        Path(directory),
        runtime=runtime,
        settings=settings,
        place=place,
        tell=lambda text: notes.print(text, markup=False),
    )
    server.start()
    notes.print(f"ready: http://{host}:{port}/docs", markup=False)
    server.run()


def bench_serve(
    target: Annotated[str, typer.Argument(metavar="DIR[:ENGINE]", help="A classifier, as DIR:onnx-int8.")],
    data: o.Data,
    task: o.TaskName,
    texts: Annotated[int, typer.Option(help="Sentences of a request.")] = 64,
    clients: Annotated[int, typer.Option(help="That ask at a time.")] = 4,
    seconds: Annotated[float, typer.Option(help="Of each of the two measurements of latency.")] = 20.0,
    wait_ms: Annotated[float, typer.Option(help="The server's --wait-ms.")] = 2.0,
    max_length: o.MaxLength = 128,
    json_file: o.JsonFile = None,
) -> None:
    """Start a server and time it against the engine alone, in turns, on a task's sentences; then the latency of its requests."""
    from hf_albert_plus.eval.settings import ServedSettings

    ServedSettings(texts=texts, clients=clients, seconds=seconds, wait_ms=wait_ms, max_length=max_length)
    from hf_albert_plus.eval.served import BARE, SERVED, bench_served
    from hf_albert_plus.eval.targets import parse_target
    from hf_albert_plus.eval.traffic import Traffic

    from ..files import write_json
    from ..glue import get_task

    start(None)
    traffic = Traffic(data=data, task=get_task(task), max_length=max_length)
    document = bench_served(
        parse_target(target), traffic, texts=texts, clients=clients, seconds=seconds, wait_ms=wait_ms
    )
    if json_file is not None:
        write_json(json_file, document)
    throughput = document["throughput"]
    print_rows(
        ["throughput", "sentences/s", "of the engine", "95 %"],
        [
            [
                label, f"{cell['items_per_s']:,.0f}", f"{100 * cell['speedup']:.1f} %",
                "{:.1f}-{:.1f} %".format(*(100 * end for end in cell["speedup_interval"])),
            ]
            for label, cell in ((label, throughput[label]) for label in (BARE, SERVED))
        ],
        title=f"{texts} sentences a request, {clients} clients, {document['streams']} cores",
    )  # fmt: skip
    print_rows(
        ["requests", "p50 ms", "p95 ms", "p99 ms", "max ms"],
        [
            [name, *(f"{cell[column]:.2f}" for column in ("p50_ms", "p95_ms", "p99_ms", "max_ms"))]
            for name, cell in (
                ("one at a time", document["one_at_a_time"]),
                (f"{document['half_pace']['requests_per_s']:.1f} a second", document["half_pace"]),
            )
        ],
    )
    print_rows(["processor time"], [[part, f"{100 * share:.0f} %"] for part, share in document["cpu_split"].items()])
    notes.print(f"same label as the engine: {100 * document['label_agreement']:.2f} % of sentences", markup=False)


def capacity(
    measured: Annotated[
        list[Path],
        typer.Argument(dir_okay=False, help="Documents of bench-serve --json, of requests of several sizes."),
    ],
    rate: Annotated[float, typer.Option(min=0, help="Requests a second to answer.")] = 1000.0,
    texts: Annotated[int, typer.Option(min=1, help="Texts of a request.")] = 1,
    as_json: o.JsonOut = False,
) -> None:
    """Plan how many servers a load needs, each at half its pace, from what one was measured to do."""
    from hf_albert_plus.eval.capacity import LOAD, Capacity, read_measured
    from hf_albert_plus.eval.settings import PlanSettings

    PlanSettings(rate=rate, texts=texts)
    found = Capacity([read_measured(path) for path in measured])
    servers = found.servers(rate=rate, texts=texts)
    plan: dict[str, Any] = {
        "core_ms_of_a_request": round(1e3 * found.core_s(texts), 3),
        "requests_per_s_of_a_server": round(LOAD * found.requests_per_s(texts), 2),
        "p50_ms_alone": round(found.alone_ms(texts), 2),
        "p99_ms": round(found.half_p99_ms(texts), 2),
        "servers": servers,
        "cores": servers * found.cores,
    }
    checks = [
        {"texts": point.texts, "measured": round(point.requests_per_s, 2), "planned": round(said, 2)}
        for point, said in found.checks()
    ]
    if as_json:
        print_json({**plan, "checks": checks})
        return
    rows = [[name.replace("_", " "), f"{value:,}"] for name, value in plan.items()]
    print_rows(["plan", ""], rows, title=f"{rate:,.0f} requests/s of {texts} texts, servers of {found.cores} cores")
    if checks:
        print_rows(
            ["texts", "requests/s measured", "as the other sizes say"],
            [[str(value) for value in check.values()] for check in checks],
        )


def _token(file: Path | None) -> str | None:
    if file is None:
        given = os.environ.get(TOKEN)
        return None if given is None else _checked(given.strip(), option=TOKEN)
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "--token-file must be a readable text file", got=str(error), repair="check the path"
        ) from None
    return _checked(token, option="--token-file")


def _checked(token: str, *, option: str) -> str:
    """
    Raises:
        InvalidInput: no token, or one that no header can carry.
    """
    if not token or not token.isascii() or not token.isprintable():
        repair = "write one: openssl rand -hex 32"
        raise InvalidInput(
            f"{option} must hold a token of printable ASCII characters",
            got="other characters" if token else "nothing",
            repair=repair if option != TOKEN else f"{repair}; or unset {TOKEN} to serve without one",
        )
    return token


__all__ = ["bench_serve", "capacity", "serve"]
