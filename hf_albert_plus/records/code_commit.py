"""The commit of this package's code that runs, read from files alone: git itself need not be there."""

import json
import re
from functools import cache
from importlib import metadata
from pathlib import Path

# The distribution, and where this file's package lies.
NAME = "hf-albert-plus"
_PACKAGE = Path(__file__).parents[1]
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@cache
def code_commit() -> str | None:
    """The commit of the code, as it was when this process first asked; None where it cannot be known. Whether a file was changed since that
    commit is not looked at."""
    return commit_of(_PACKAGE)


def commit_of(package: Path) -> str | None:
    """The commit of a package: what is checked out in the folder that it lies in, where that is a checkout; else the one that it was installed
    from, as pip notes it (PEP 610). A dirty checkout has the commit that it began from.

    Args:
        package: its directory.
    """
    return checked_out(package.parent) or _installed_from(package)


def checked_out(folder: Path) -> str | None:
    """The commit of a folder with a `.git`, a worktree's too; None without one, and where it cannot be read."""
    try:
        git = _git_directory(folder / ".git")
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        name = head.removeprefix("ref:").strip()
        return _hash_in(head) if name == head else _commit_of_branch(git, name)
    except (OSError, ValueError):
        return None


def _git_directory(path: Path) -> Path:
    """The directory that a `.git` is, or that it names where it is a file: a worktree's or a submodule's."""
    if not path.is_file():
        return path
    return path.parent / path.read_text(encoding="utf-8").strip().removeprefix("gitdir:").strip()


def _commit_of_branch(git: Path, name: str) -> str | None:
    """The commit of a branch: of its own file, or of the list of those that were packed, which worktrees share."""
    shared = git / "commondir"
    common = git / shared.read_text(encoding="utf-8").strip() if shared.is_file() else git
    for folder in (git, common):
        if (folder / name).is_file():
            return _hash_in((folder / name).read_text(encoding="utf-8"))
    packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
    lines = [line.partition(" ") for line in packed]
    return next((_hash_in(commit) for commit, _, branch in lines if branch == name), None)


def _installed_from(package: Path) -> str | None:
    """The commit of the repository that a distribution was installed from, where it is the one that has this package."""
    try:
        distribution = metadata.distribution(NAME)
        if Path(str(distribution.locate_file(package.name))).resolve() != package.resolve():
            return None
        noted = json.loads(distribution.read_text("direct_url.json") or "{}")
        return _hash_in(str(noted["vcs_info"]["commit_id"]))
    except (metadata.PackageNotFoundError, OSError, ValueError, LookupError, TypeError):
        return None


def _hash_in(text: str) -> str | None:
    """The commit that a text is, None where it is something else."""
    return text.strip() if _HASH.fullmatch(text.strip()) else None
