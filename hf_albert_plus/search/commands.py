"""The commands that make a candidate of a search again, for its report."""

import shlex
from pathlib import Path

from ..records.record import RECORD, read_record
from .time_left import is_of_exits
from .tried import has_learned_on, has_only_begun, name_of_shape, shape_before
from .workshop import Workshop

# The directories of a candidate before it gets exits or is exported, in their order.
_STAGES = ("cut", "smaller", "begun", "taught")
# What a record calls an option of its verb, by stage.
_OPTIONS = {
    "prune": ("heads", "columns", "depth", "examples", "max_length", "seed", "precision"),
    "distill": ("method", "epochs", "learning_rate", "batch_size", "max_length", "seed", "precision"),
    "calibrate": ("criterion", "max_drop", "max_length", "seed"),
}


def commands_of(name: str, shop: Workshop) -> str:
    """The commands that make a candidate, stage by stage, as its records have them."""
    base, exits, ending = name.partition("-exits")
    before = _commands_before(base, shop) if has_learned_on(base) else []
    has_begun = has_only_begun(base)
    folder = shop.out / name_of_shape(base)
    stages = [*_STAGES, "exits", f"calibrated{ending}", f"leaves-early{ending}"] if exits else [*_STAGES, "model"]
    if has_begun:
        stages = [*_STAGES[:-1], "begun-model"]
    wanted = [name for name in stages if (folder / name / RECORD).is_file()]
    return "\n".join([*before, *(_command(folder / name, data=shop.rows.data) for name in wanted)])


def _commands_before(longer: str, shop: Workshop) -> list[str]:
    """Those that make what a candidate learned on from."""
    folder = shop.out / shape_before(longer)
    source = Path(read_record(shop.out / longer / _STAGES[-1]).parents["student"]["path"]).name
    stages = _STAGES[: _STAGES.index(source) + 1]
    return [_command(folder / name, data=shop.rows.data) for name in stages if (folder / name / RECORD).is_file()]


def _command(directory: Path, *, data: Path) -> str:
    record = read_record(directory)
    parents = {name: facts["path"] for name, facts in record.parents.items()}
    words = ["albert-plus", record.stage]
    if record.stage in ("export", "convert"):
        words += [parents.get("model") or parents["source"]]
    else:
        for name in ("model", "teacher", "student", "unlabelled"):
            words += [f"--{name}", parents[name]] if name in parents else []
    if "data" in parents:
        # A record names the task's own folder there, and the option the one above it.
        words += ["--data", str(data)]
        words += ["--task", str(record.settings["task"])] if "task_rows" not in record.settings else []
    for name in _OPTIONS.get(record.stage, ()):
        if record.settings.get(name) is not None:
            words += [f"--{name.replace('_', '-')}", str(record.settings[name])]
    if record.stage == "distill" and is_of_exits(record):
        words += ["--phases", "exits"]
    for export in record.settings.get("to") or [] if record.stage == "export" else []:
        words += ["--to", export]
    overrides = record.settings.get("overrides") or {} if record.stage in ("convert", "distill") else {}
    for name, value in overrides.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "--out", str(directory)])
