"""Data that a stage made, known again by what the stages that read them wrote down of them."""

from pathlib import Path, PurePosixPath

from .files import data_hash
from .record import Parent, Record

# The order in which the splits of one's own data are hashed; those of a benchmark are hashed by name.
_SPLITS = ("train", "validation", "test")


def made_data(record: Record, folder: Path, read: Parent) -> bool:
    """Whether a stage made the data that another read: its record has files of that hash. Nothing is hashed again.

    Args:
        folder: the stage's directory, in which the data lie.
    """
    place = PurePosixPath(Path(read["path"]).relative_to(folder).as_posix())
    if (facts := record.files.get(str(place))) is not None:
        return read["sha256"] in (facts["sha256"], data_hash([(place.name, facts["sha256"])]))
    files = {name: facts["sha256"] for name, facts in record.files.items() if PurePosixPath(name).parent == place}
    rows = sorted((PurePosixPath(name).name, sha256) for name, sha256 in files.items() if name.endswith(".parquet"))
    return bool(rows) and read["sha256"] in (data_hash(rows), data_hash(sorted(rows, key=_split)))


def _split(file: tuple[str, str]) -> int:
    """Where the split of a file stands in their order."""
    return next((place for place, split in enumerate(_SPLITS) if file[0].startswith(split)), len(_SPLITS))
