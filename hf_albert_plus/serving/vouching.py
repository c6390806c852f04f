"""Whether an export was held against its weights when it was made, and both are still what they were."""

from pathlib import Path

from ..engines.artefacts import WEIGHTS, Runtime
from ..engines.runtime_files import weight_files
from ..records.files import file_sha256
from ..records.record import RECORD, Record, open_record

_EXPORT = "export"


def was_compared(directory: Path, runtime: Runtime) -> bool:
    """Whether nothing is left to compare: there are no weights beside an export, or the record of its export names both by their hashes."""
    if runtime.target is None:
        return False
    if not (directory / WEIGHTS).is_file():
        return True
    if not (directory / RECORD).is_file():
        return False
    record = open_record(directory)
    files = [directory / WEIGHTS, directory / "config.json", *weight_files(directory / runtime.file)]
    return record.stage == _EXPORT and all(_is_recorded(file, directory, record) for file in files)


def _is_recorded(file: Path, directory: Path, record: Record) -> bool:
    facts = record.files.get(file.relative_to(directory).as_posix())
    return facts is not None and file.is_file() and facts["sha256"] == file_sha256(file)
