"""Which files of a folder are of which split, by their names."""

import re
from pathlib import Path

from ..errors import InvalidInput
from ..records.files import check_input_file
from .json_rows import JSON_SUFFIX
from .split_names import ALL_NAMES, names_of_splits
from .squad_json import of_one_version, version_of
from .tables import SUFFIXES
from .text_files import bare, form_of

# Behind the name of a split: which part of how many, or the version of SQuAD.
_NUMBERED = r"(-\d+-of-\d+(-[0-9a-f]+)?|-v\d+(\.\d+)?)?"


def split_sources(data: str) -> dict[str, list[Path]]:
    """Split -> its files, of a file or folder: `train.csv`, or with a beginning that all have, `de_gsd-ud-train.conllu`. A lone file, or files
    of no split's name, are `train`.

    Raises:
        InvalidInput: no file that can be read, or files of several kinds or of several versions for one split.
    """
    path = Path(data)
    if not path.is_dir():
        check_input_file(path, what="--data", repair="check the path")
        return {"train": [path]}
    found = _named(path)
    if not found and (beginning := _shared_beginning(path)):
        found = _named(path, beginning=beginning)
    if found:
        return found
    files = files_of_rows(path)
    if len(files) == 1:
        return {"train": files}
    there = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) or "nothing"
    raise InvalidInput(
        "a folder of --data must have files called train, and validation or test, or a single file",
        got=f"{path} with {there}",
        repair=f"rename them, as train.csv (known: {', '.join(SUFFIXES)}), or add --task NAME for a folder of GLUE",
    )


def _named(path: Path, *, beginning: str = "") -> dict[str, list[Path]]:
    """Split -> the files that are called so, behind a beginning."""
    found: dict[str, list[Path]] = {}
    stems = {bare(entry).stem.lower().removeprefix(beginning.lower()).partition("-")[0] for entry in path.iterdir()}
    for split, names in names_of_splits(stems).items():
        form = re.compile(f"{re.escape(beginning)}({'|'.join(names)}){_NUMBERED}", re.IGNORECASE)
        named = [file for file in sorted(path.iterdir()) if form.fullmatch(bare(file).stem)]
        files = [file for file in named if form_of(file) in SUFFIXES and not version_of(file)]
        folders = [folder for name in names for folder in (path / name,) if folder.is_dir()]
        files += [file for folder in folders for file in files_of_rows(folder)]
        files = files or of_one_version([file for file in named if form_of(file) == JSON_SUFFIX], split)
        if len({form_of(file) for file in files}) > 1:
            raise InvalidInput(
                f"the {split} split must be of one kind of file",
                got=", ".join(file.name for file in files),
                repair="remove or rename all but one",
            )
        for file in files:
            check_input_file(file, what=f"{file.name} of --data", repair="remove it, or point --data elsewhere")
        if files:
            found[split] = files
    return found


def _shared_beginning(path: Path) -> str:
    """What stands before the names of splits, where it is the same in all of them and one is the training split's; else empty."""
    form = re.compile(f"(.+[-_.])({'|'.join(ALL_NAMES)}){_NUMBERED}", re.IGNORECASE)
    found = [named for file in files_of_rows(path) if (named := form.fullmatch(bare(file).stem))]
    beginnings = {named[1].lower() for named in found}
    if len(beginnings) != 1 or not any(named[2].lower().startswith("train") for named in found):
        return ""
    return beginnings.pop()


def files_of_rows(folder: Path) -> list[Path]:
    """The files of tables in a folder, in the order of their names."""
    return sorted(file for file in folder.iterdir() if file.is_file() and form_of(file) in SUFFIXES)


def all_files(path: Path) -> list[Path]:
    """A file, or all files of tables in a folder; of one that `albert-plus score` wrote, its scores.

    Raises:
        InvalidInput: none, or files of several kinds.
    """
    if not path.is_dir():
        check_input_file(path, what="--unlabelled", repair="check the path")
        return [path]
    folder = path / "scores" if (path / "scores").is_dir() else path
    files = files_of_rows(folder)
    if len({form_of(file) for file in files}) != 1:
        there = ", ".join(file.name for file in files[:12]) or "none"
        raise InvalidInput(
            "a folder of --unlabelled must hold files of one kind", got=f"{there} in {path}", repair=f"name a file, or use one of {', '.join(SUFFIXES)}"
        )  # fmt: skip
    return files
