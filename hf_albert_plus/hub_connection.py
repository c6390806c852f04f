"""Whether a directory or Hub id can be opened from here, told within seconds.

The Hub's client tries an address that does not answer again and again, for half a minute; a mistyped path is no reason to wait so long.
So the first look, once a process, is a short one. This module opens no library.
"""

import os
import re
import threading
from pathlib import Path
from typing import Literal

from .errors import InvalidInput

_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_TRUE = {"1", "ON", "YES", "TRUE"}
# How long the first look takes where nobody says otherwise.
_PATIENCE_S = 2.0
Kind = Literal["model", "dataset"]
# Address of a Hub -> why it cannot be asked, None where it can: looked at once.
_answers: dict[str, str | None] = {}


def check_model(source: str | Path, *, option: str) -> None:
    """Refuses what is neither a directory here nor a model that the Hub could have.

    Raises:
        InvalidInput: the path is not there, and the Hub cannot be asked.
    """
    rule = f"{option} must be a model directory that from_pretrained opens, or a Hub id"
    check_source(source, rule=rule, repair="check the path, or the network if you mean the Hub")


def check_data(source: str) -> None:
    """Refuses what is neither a folder here nor a data set that the Hub could have.

    Raises:
        InvalidInput: the path is not there, and the Hub cannot be asked.
    """
    check_source(
        source if Path(source).exists() else source.partition(":")[0],
        rule="--data must be a file or folder here, or a data set on the Hub, as nyu-mll/glue",
        repair="check the path, or the network if you mean the Hub",
        kind="dataset",
    )


def check_source(source: str | Path, *, rule: str, repair: str, kind: Kind = "model") -> None:
    """Refuses what is neither here nor on a Hub that answers.

    Raises:
        InvalidInput: the path is not there, and the Hub cannot be asked.
    """
    problem = _problem(str(source), kind)
    if problem is not None:
        raise InvalidInput(rule, got=f"{str(source)!r} ({problem})", repair=repair)


def _problem(source: str, kind: Kind) -> str | None:
    if os.path.lexists(source):
        return None
    if not _ID.fullmatch(source):
        return "no such path"
    if _is_cached(source, kind):
        return None
    if any(os.environ.get(name, "").upper() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")):
        return "no such path, and not in the Hub's cache, which is all there is offline"
    page = f"datasets/{source}/resolve/main/README.md" if kind == "dataset" else f"{source}/resolve/main/config.json"
    silence = _silence(os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/"), page)
    return None if silence is None else f"no such path, and {silence}"


def _is_cached(source: str, kind: Kind) -> bool:
    """Whether the Hub's caches have anything of a repository."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    hub = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or home / "hub"
    places = [Path(hub) / f"{kind}s--{source.replace('/', '--')}"]
    if kind == "dataset":
        places.append(Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets") / source.replace("/", "___"))
    return any(place.expanduser().exists() for place in places)


def _silence(endpoint: str, page: str) -> str | None:
    """Why the Hub cannot be asked; None where it answers, whatever it says. Names are looked up without a limit of their own, so a
    thread does it all."""
    if endpoint not in _answers:
        patience_s = float(os.environ.get("HF_HUB_ETAG_TIMEOUT") or _PATIENCE_S)
        outcome: list[str | None] = []
        asking = threading.Thread(target=lambda: outcome.append(_ask(f"{endpoint}/{page}", patience_s)), daemon=True)
        asking.start()
        asking.join(patience_s)
        _answers[endpoint] = outcome[0] if outcome else f"{endpoint} does not answer within {patience_s:g} s"
    return _answers[endpoint]


def _ask(url: str, patience_s: float) -> str | None:
    import ssl
    import urllib.error
    import urllib.request

    if any(os.environ.get(name) for name in ("ALL_PROXY", "all_proxy")):
        return None  # a proxy of a kind that this client does not know
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=patience_s):
            return None
    except urllib.error.HTTPError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        # What the client makes of a certificate or an address is its own to say.
        return None if isinstance(reason, ssl.SSLError | ValueError) else f"the Hub cannot be reached: {reason}"
