"""The verb that serves."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidInput
from .console import notes

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

    from ..serving import Place, Server, ServeSettings

    directory, runtime = directory_and_runtime(target)
    settings = ServeSettings(
        token_budget=token_budget, wait_ms=wait_ms, streams=streams, max_length=max_length, truncate=truncate, max_body=max_body,
        max_items=max_items, max_waiting=max_waiting, deadline_s=deadline, drain_s=drain,
    )  # fmt: skip
    place = Place(host=host, port=port, replicas=replicas, address=address, token=_token(token_file))
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


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "--token-file must be a readable text file", got=str(error), repair="check the path"
        ) from None
    if not token or not token.isascii():
        raise InvalidInput(
            "--token-file must hold a token of ASCII characters", got="none", repair="write one: openssl rand -hex 32"
        )
    return token


__all__ = ["serve"]
