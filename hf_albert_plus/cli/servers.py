"""The verbs that serve, and that plan how many servers a load needs."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_albert_plus.eval.settings import PlanSettings

from ..errors import InvalidInput
from ..serving.loopback import is_loopback
from ..serving.settings import ServeSettings
from . import options as o
from .console import notes, print_json, print_rows
from .settings_options import with_settings

if TYPE_CHECKING:
    from ..serving.fleet import Fleet

TOKEN = "ALBERT_PLUS_TOKEN"


@with_settings
def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR[:ENGINE]",
            help="A model, or a folder of some: NAME/ or NAME/VERSION/. The default of ENGINE is onnx-int8, else onnx-int8-exits, onnx, torch.",
        ),
    ],
    settings: ServeSettings,
    host: Annotated[str, typer.Option(help="Address to listen on. Other machines reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help=f"File with the token that requests must bear. Or set {TOKEN}."),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Processes that share the port, and the cores.")] = 1,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Run the models on Ray Serve, in processes and on machines of their own.")
    ] = False,
    replicas: Annotated[int | None, typer.Option(min=1, help="With --cluster: processes of each model. [1]")] = None,
    address: Annotated[
        str | None,
        typer.Option(help="With --cluster: Ray cluster to join, as auto. Default: one of its own, on loopback."),
    ] = None,
) -> None:
    """Serve classifiers and encoders over HTTP: /classify, /tag, /answer, /embed, OpenAI's /v1/embeddings, the Open Inference Protocol under /v2, and /docs.

    A changed or new model in a folder takes over without a lost request. SIGTERM drains.
    """
    from ..engines.artefacts import directory_and_runtime

    directory, runtime = directory_and_runtime(target)
    token = _token(token_file)
    if not cluster and (replicas is not None or address is not None):
        raise InvalidInput(
            "--replicas and --address are of a cluster",
            got="one of them without --cluster",
            repair="add --cluster, or leave them out to serve from this process",
        )
    if cluster and processes > 1:
        raise InvalidInput(
            "--processes are of a server without a cluster",
            got=processes,
            repair="use --replicas, or leave --cluster out",
        )
    from ..serving.server import Cluster, Hosting, Server

    of_cluster = Cluster(replicas=replicas or 1, address=address) if cluster else None
    hosting = Hosting(host=host, port=port, cluster=of_cluster, token=token)
    if token is None and not is_loopback(host):
        notes.print(f"--host {host} without a token: whoever reaches it may ask; give it a --token-file", markup=False)
    asked: Any = {"runtime": runtime, "settings": settings, "hosting": hosting, "tell": _tell}
    server: Fleet | Server
    if processes > 1:
        from ..serving import fleet

        server = fleet.Fleet(Path(directory), processes=processes, **asked)
    else:
        server = Server(Path(directory), **asked)
    server.start()
    _tell(f"ready: http://{host}:{port}/")
    server.run()


@with_settings
def capacity(
    measured: Annotated[
        list[Path],
        typer.Argument(dir_okay=False, help="Documents of bench serve --json, of requests of several sizes."),
    ],
    settings: PlanSettings,
    as_json: o.JsonOut = False,
) -> None:
    """Plan how many servers a load needs, each at half its pace, from what one was measured to do."""
    from hf_albert_plus.eval.load.capacity import LOAD, Capacity, read_measured

    rate, texts = settings.rate, settings.texts
    known = Capacity([read_measured(path) for path in measured])
    servers = known.servers(rate=rate, texts=texts)
    plan: dict[str, Any] = {
        "core_ms_of_a_request": round(1e3 * known.core_s(texts), 3),
        "requests_per_s_of_a_server": round(LOAD * known.requests_per_s(texts), 2),
        "p50_ms_alone": round(known.alone_ms(texts), 2),
        "p99_ms": round(known.half_p99_ms(texts), 2),
        "servers": servers,
        "cores": servers * known.cores,
    }
    checks = [
        {"texts": point.texts, "measured": round(point.requests_per_s, 2), "planned": round(said, 2)}
        for point, said in known.checks()
    ]
    if as_json:
        print_json({**plan, "checks": checks})
        return
    rows = [[name.replace("_", " "), f"{value:,}"] for name, value in plan.items()]
    print_rows(["plan", ""], rows, title=f"{rate:,.0f} requests/s of {texts} texts, servers of {known.cores} cores")
    if checks:
        print_rows(
            ["texts", "requests/s measured", "as the other sizes say"],
            [[str(value) for value in check.values()] for check in checks],
        )


def _tell(text: str) -> None:
    """A log that cannot be written stops no server."""
    with contextlib.suppress(OSError):
        notes.print(text, markup=False)


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
