"""The verb that sends a model directory to the Hub."""

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .console import notes, print_json, print_rows, printable, quiet_libraries


def push(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory, with its exports and its card.")],
    repo_id: Annotated[
        str, typer.Argument(metavar="REPO_ID", help="OWNER/NAME on the Hub; made where it is not there.")
    ],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Send nothing, ask nobody: print what would go, and what stays here and why."),
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository that you alone can see.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch to commit to; made where it is not there. Default: main.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="Also send files that the directory's record does not name, by a pattern; repeat for several."
        ),
    ] = None,
    licence: o.Licence = None,
    language: o.Language = None,
    base_model: o.BaseModel = None,
    datasets: o.HubData = None,
    message: Annotated[str, typer.Option(help="First line of the commit.")] = "Push a model with albert-plus",
    as_json: o.JsonOut = False,
) -> None:
    """Send a model directory to the Hub in one commit: model, exports, card and record, never checkpoints, logs or machine paths.

    Give the same command again to go on where a push was stopped. The token is that of hf auth login, or HF_TOKEN.
    """
    quiet_libraries()
    from hf_albert_plus.eval.reporting.hub_metadata import check_hub_words
    from hf_albert_plus.eval.reporting.pushed_card import card_to_push

    from ..publishing.contents import check_directory, contents_of
    from ..publishing.upload import check_repository
    from ..publishing.upload import push as send

    check_repository(repo_id, revision=revision)
    said = check_hub_words(licence=licence, language=language, base_model=base_model, datasets=datasets)
    check_directory(directory)
    contents = contents_of(directory, replaced=card_to_push(directory, repo_id, said=said), include=include or ())
    listed = {
        "repo_id": repo_id,
        "revision": revision or "main",
        "files": [{"name": file.name, "bytes": file.size} for file in contents.files],
        "bytes": contents.size,
        "left_out": [{"name": file.name, "bytes": file.size, "reason": file.reason} for file in contents.left_out],
    }
    if dry_run:
        if as_json:
            print_json({**listed, "pushed": False})
            return
        print_rows(["goes", "bytes"], [[file.name, f"{file.size:,}"] for file in contents.files])
        if contents.left_out:
            print_rows(
                ["stays", "bytes", "why"], [[file.name, f"{file.size:,}", file.reason] for file in contents.left_out]
            )
        typer.echo(f"{len(contents.files)} files, {contents.size / 1e6:.1f} MB would go to {printable(repo_id)}")
        return
    done = send(contents, repo_id, private=private, revision=revision, message=message)
    if as_json:
        print_json({**listed, "pushed": done.is_new, "commit": done.commit, "url": done.url})
        return
    notes.print(
        f"{len(contents.files)} files, {contents.size / 1e6:.1f} MB" + ("" if done.is_new else ": all there already")
    )
    typer.echo(f"{done.url} at {done.commit}")
