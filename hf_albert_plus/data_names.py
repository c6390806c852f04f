"""What data are called in reports, in cards, and on the Hub."""

import re
from pathlib import Path

# Of data on the Hub, `OWNER/NAME`.
HUB_ID = r"[\w.-]+/[\w.-]+"
# What the Hub does not take in a name.
_OTHERS = re.compile(r"[^\w.-]+")


def name_of_data(data: str) -> str:
    """The name of a file or folder without this machine's folders; what lies on the Hub is called as there, without its configuration."""
    return Path(data).resolve().name if Path(data).exists() else data.partition(":")[0]


def is_hub_id(name: str) -> bool:
    """Whether a name has the form that data have on the Hub, `OWNER/NAME`."""
    return re.fullmatch(HUB_ID, name) is not None


def as_dataset_type(name: str) -> str:
    """A name as the Hub takes it for the type of a data set in a model index."""
    return name if is_hub_id(name) else _OTHERS.sub("-", name).strip("-")
