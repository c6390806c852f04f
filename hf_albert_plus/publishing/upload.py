"""Sends files to a repository of the Hub in one commit, so that nobody ever opens half a model.

A push that was killed goes on when it is given again: large files are stored by their content as they arrive, before the commit, and
what the Hub has is not sent a second time. That is what huggingface_hub's `create_commit` does, which `upload_folder` is made of too;
a folder of many commits (its way with thousands of files) would show readers a model without some of its files.
"""

import os
from dataclasses import dataclass

from ..errors import InvalidInput, first_line
from .contents import Contents

_AGAIN = "give the same command again: what has arrived is not sent a second time"
_LOGIN = "log in with hf auth login, or set HF_TOKEN to a token that may write"


@dataclass(frozen=True)
class Pushed:
    """What a push did.

    Attributes:
        url: of the repository.
        commit: its newest commit; the one before where nothing had changed.
        is_new: whether there was anything to commit.
    """

    url: str
    commit: str
    is_new: bool


def check_repository(repo_id: str, *, revision: str | None) -> None:
    """Refuses names that no repository or branch can have.

    Raises:
        InvalidInput: such a name.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InvalidInput("REPO_ID must be OWNER/NAME", got=repr(repo_id), repair=first_line(error)) from None
    if revision is not None and (not revision.strip("/") or any(c.isspace() for c in revision)):
        raise InvalidInput("--revision must be the name of a branch", got=repr(revision), repair="use --revision v2")


def push(
    contents: Contents, repo_id: str, *, private: bool = False, revision: str | None = None, message: str
) -> Pushed:
    """Makes the repository and the branch where they are not there, and commits the files.

    Raises:
        InvalidInput: no token, one that may not write, or a Hub that does not answer.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import OfflineModeIsEnabled

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise InvalidInput("push needs the Hub", got="HF_HUB_OFFLINE, which forbids it", repair="unset HF_HUB_OFFLINE")
    if get_token() is None:
        raise InvalidInput("push needs a token of the Hub", got="none", repair=_LOGIN)
    api = HfApi()
    operations = [
        CommitOperationAdd(file.name, file.source if isinstance(file.source, bytes) else str(file.source))
        for file in contents.files
    ]
    try:
        repository = api.create_repo(repo_id, private=private or None, exist_ok=True)
        if revision is not None:
            api.create_branch(repository.repo_id, branch=revision, exist_ok=True)
        before = api.model_info(repository.repo_id, revision=revision).sha
        done = api.create_commit(repository.repo_id, operations, commit_message=message, revision=revision)
    except OfflineModeIsEnabled as error:
        raise InvalidInput("push needs the Hub", got=first_line(error), repair="unset HF_HUB_OFFLINE") from error
    except Exception as error:
        known = _known(error, repo_id)
        if known is None:
            raise
        raise known from error
    return Pushed(url=str(repository), commit=done.oid, is_new=done.oid != before)


def _known(error: BaseException | None, repo_id: str) -> InvalidInput | None:
    """What a user can do about an error of the Hub's client; None for one that is none of the Hub's."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError

    while error is not None:
        if isinstance(error, HfHubHTTPError) and error.response is not None:
            return _refused(error.response.status_code, first_line(error), repo_id)
        if isinstance(error, HTTPError):
            said = first_line(error) if str(error) else type(error).__name__
            return InvalidInput("push needs a Hub that answers", got=said, repair=_AGAIN)
        error = error.__cause__
    return None


def _refused(status: int, said: str, repo_id: str) -> InvalidInput:
    if status == 401:
        return InvalidInput("push needs a token that the Hub knows", got=said, repair=_LOGIN)
    if status == 403:
        return InvalidInput(f"the token must be allowed to write to {repo_id}", got=said, repair=_LOGIN)
    if status == 404:
        return InvalidInput(
            f"{repo_id} must be yours to see and to write", got=said, repair=f"check the name, or {_LOGIN}"
        )
    return InvalidInput("push needs a Hub that takes the files", got=said, repair=_AGAIN)
