"""Lineages: every stage once, the nearest first, as far as what was read is still what it was."""

import json
import shutil
from functools import cache

import pytest

from hf_albert_plus.demo.data import make_data
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records import lineage
from hf_albert_plus.records.files import file_sha256
from hf_albert_plus.records.lineage import VERSIONS, ancestors, stage_facts
from hf_albert_plus.records.made_data import made_data
from hf_albert_plus.records.record import (
    carried_calibrations,
    carried_record,
    file_parent,
    fingerprint,
    open_record,
    parent,
    versions,
)
from hf_albert_plus.records.stage import run_stage
from hf_albert_plus.search.made_up_texts import make_up_texts
from hf_albert_plus.search.set_aside import set_aside
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task, own_parent, texts_parent
from hf_albert_plus.tasks.splits import data_parent

HUB = {"path": "google-bert/bert-base-uncased", "sha256": "hub"}


def made(output, stage="finetune", *, settings=None, result=None, **parents):
    """Runs a stage that writes a file and reads the directories that it is given."""

    def work(directory):
        (directory / "weights").write_text(f"{stage} {output.name}")
        return result or {}

    read = {name: value if isinstance(value, dict) else parent(value) for name, value in parents.items()}
    run_stage(stage, output, settings=settings or {"seed": 7}, parents=read, work=work)
    return output


def lineage_of(directory, **how):
    """The stages behind a directory, as a card has them."""
    return [stage_facts(each) for each in ancestors(directory, **how)]


def stages_of(directory):
    return [each["stage"] for each in lineage_of(directory)]


@pytest.fixture
def chain(tmp_path):
    """A teacher from the Hub's encoder, a student of it, the student pruned beside the same teacher, and an export."""
    teacher = made(tmp_path / "teacher", model=HUB)
    student = made(tmp_path / "student", "distill", teacher=teacher)
    pruned = made(tmp_path / "pruned", "prune", settings={"heads": 0.5}, model=student, teacher=teacher)
    made(tmp_path / "exported", "export", result={"trained": carried_record(pruned)}, model=pruned)
    return tmp_path


def test_every_stage_stands_once_the_nearest_first(chain):
    found = lineage_of(chain / "exported")
    assert [each["stage"] for each in found] == ["export", "prune", "distill", "finetune"]
    export, prune, _, finetune = found
    assert prune["read"] == {
        "model": {"path": "student", "sha256": fingerprint(chain / "student")},
        "teacher": {"path": "teacher", "sha256": fingerprint(chain / "teacher")},
    }
    assert finetune["read"] == {"model": HUB}
    assert [each["made"]["sha256"] for each in found] == [fingerprint(chain / name) for name in ("exported", "pruned", "student", "teacher")]  # fmt: skip
    assert (finetune["seed"], prune["settings"], "seed" in prune) == (7, {"heads": 0.5}, False)
    known = versions()
    assert export["versions"] == {name: known[name] for name in VERSIONS if name in known}
    assert export["finished"] == open_record(chain / "exported").finished
    assert json.loads(json.dumps(found)) == found


def test_no_folder_of_this_machine_is_named(chain):
    record = json.loads((chain / "exported" / "record.json").read_text())
    (chain / "exported" / "record.json").write_text(json.dumps({**record, "command": f"albert-plus export {chain}/pruned --out={chain}/x"}))  # fmt: skip
    found = lineage_of(chain / "exported")
    assert str(chain) not in json.dumps(found)
    assert found[0]["command"] == "albert-plus export pruned --out=x"


def test_each_directory_is_hashed_once(chain, monkeypatch):
    hashed = []
    monkeypatch.setattr(
        lineage, "fingerprint", lambda directory: hashed.append(directory.name) or fingerprint(directory)
    )
    assert len(lineage_of(chain / "exported")) == 4
    assert sorted(hashed) == ["pruned", "student", "teacher"]
    hashed.clear()
    remembers = cache(lineage.fingerprint)
    for name in ("exported", "pruned", "student"):
        lineage_of(chain / name, fingerprint_of=remembers)
    assert sorted(hashed) == ["pruned", "student", "teacher"]


def test_a_changed_parent_is_a_name_and_a_hash(chain):
    read = fingerprint(chain / "student")
    (chain / "student" / "weights").write_text("trained further")
    found = lineage_of(chain / "exported")
    assert [each["stage"] for each in found] == ["export", "prune", "finetune"]
    assert found[1]["read"]["model"] == {"path": "student", "sha256": read}


def test_a_removed_parent_is_a_name_and_a_hash(chain):
    shutil.rmtree(chain / "student")
    assert stages_of(chain / "exported") == ["export", "prune", "finetune"]
    shutil.rmtree(chain / "teacher")
    assert stages_of(chain / "exported") == ["export", "prune"]


@pytest.mark.parametrize("damage", ["removed", "changed", "no record", "another record"])
def test_the_training_that_an_export_carries_stands_for_a_directory_that_is_not_followed(chain, damage):
    {
        "removed": lambda: shutil.rmtree(chain / "pruned"),
        "changed": lambda: (chain / "pruned" / "weights").write_text("other"),
        "no record": lambda: (chain / "pruned" / "record.json").unlink(),
        "another record": lambda: (chain / "pruned" / "record.json").write_text("{}"),
    }[damage]()
    found = lineage_of(chain / "exported")
    assert [each["stage"] for each in found] == ["export", "prune", "distill", "finetune"]
    assert "made" not in found[1]
    assert [each["settings"] for each in found[1:2]] == [{"heads": 0.5}]


def test_what_two_stages_carry_stands_once(chain):
    """The training before an export of a calibrated model is two steps behind it, wherever a directory is gone."""
    pruned = chain / "pruned"
    calibrated = made(chain / "calibrated", "calibrate", result={"trained": carried_record(pruned)}, model=pruned)
    exported = made(chain / "again", "export", result={"trained": carried_record(calibrated)}, model=calibrated)
    whole = ["export", "calibrate", "prune", "distill", "finetune"]
    assert stages_of(exported) == whole
    shutil.rmtree(pruned)
    assert stages_of(exported) == whole
    shutil.rmtree(calibrated)
    assert stages_of(exported) == ["export", "prune", "distill", "finetune"]


def test_a_copy_tells_of_the_calibrations_before_it(chain):
    """Those of the exits and of the scores since the training, wherever their directories are gone."""
    pruned = chain / "pruned"

    def carried(model):
        return {"trained": carried_record(model), "calibrated": carried_calibrations(model)}

    first = made(chain / "first", "calibrate", result={"found_on": {"rows": 9}, **carried(pruned)}, model=pruned)
    second = made(chain / "second", "calibrate-scores", result={"rows": 8, **carried(first)}, model=first)
    exported = made(chain / "last", "export", result=carried(second), model=second)
    whole = ["export", "calibrate-scores", "calibrate", "prune"]
    assert stages_of(exported) == [*whole, "distill", "finetune"]
    shutil.rmtree(second)
    assert stages_of(exported) == [*whole, "distill", "finetune"]
    shutil.rmtree(first)
    found = ancestors(exported)
    assert [each.record["stage"] for each in found] == [*whole, "distill", "finetune"]
    assert [each.record["result"] for each in found[1:3]] == [{"rows": 8}, {"found_on": {"rows": 9}}]
    read = json.loads((exported / "record.json").read_text())["parents"]["model"]
    assert (found[1].made, found[2].made) == (read, found[1].record["parents"]["model"])


def test_a_copy_is_no_second_stage(chain):
    copy = shutil.copytree(chain / "teacher", chain / "copy")
    student = made(chain / "two", "distill", teacher=chain / "teacher", general_teacher=copy)
    assert stages_of(student) == ["distill", "finetune"]


def test_a_directory_without_a_record_has_no_lineage(tmp_path):
    assert lineage_of(tmp_path) == []
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(InvalidInput, match="the record of a stage must have the shape of one"):
        lineage_of(tmp_path)


def test_records_that_name_each_other_end(tmp_path):
    made(tmp_path / "a"), made(tmp_path / "b", model=tmp_path / "a")
    record = json.loads((tmp_path / "a" / "record.json").read_text())
    record["parents"] = {"model": parent(tmp_path / "b")}
    (tmp_path / "a" / "record.json").write_text(json.dumps(record))
    assert stages_of(tmp_path / "b") == ["finetune", "finetune"]


def test_a_record_of_an_earlier_version_says_less(chain):
    """No commit, and what an export of it carries has no date."""
    record = json.loads((chain / "exported" / "record.json").read_text())
    del record["result"]["trained"]["finished"]
    record["versions"] = {"torch": "2.9"}
    (chain / "exported" / "record.json").write_text(json.dumps(record))
    shutil.rmtree(chain / "pruned")
    export, prune, *_ = lineage_of(chain / "exported")
    assert (export["versions"], prune["finished"]) == ({"torch": "2.9"}, "not recorded")


# Data that stages made


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    from hf_albert_plus.demo.data import SIZES

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SIZES, "train", 120)
        patch.setitem(SIZES, "validation", 20)
        folder = tmp_path_factory.mktemp("demo") / "data"
        make_data(folder, tasks=("sst2", "mrpc"))
    return folder


@pytest.mark.slow
def test_data_that_a_stage_made_are_followed_through_what_was_made_of_them(demo, tmp_path):
    task = get_task("sst2")
    rows, _ = set_aside(str(demo), task=task, output=tmp_path / "rows", seed=1)
    texts, _ = make_up_texts(rows, output=tmp_path / "texts", seed=1)
    student = made(
        tmp_path / "student",
        "distill",
        data=data_parent(str(rows.data), rows.task),
        unlabelled=texts_parent(str(texts)),
    )
    found = lineage_of(student)
    assert [each["stage"] for each in found] == ["distill", "set-aside", "made-up-texts", "demo-data"]
    assert found[1]["made"] == {"path": "sst2", "sha256": data_parent(str(rows.data), rows.task)["sha256"]}
    encoder = made(tmp_path / "encoder", "pretrain", text=file_parent(demo / "pretraining.txt"))
    assert stages_of(encoder) == ["pretrain", "demo-data"]


def test_data_of_ones_own_that_a_stage_made_are_followed(tmp_path):
    lines = [f"text number {number},{['good', 'bad', 'plain'][number % 3]}" for number in range(120)]
    (tmp_path / "my.csv").write_text("\n".join(["text,label", *lines]))
    task = find_task(str(tmp_path / "my.csv"))
    rows, record = set_aside(str(tmp_path / "my.csv"), task=task, output=tmp_path / "rows", seed=1)
    read = own_parent(str(rows.data))
    assert made_data(record, tmp_path / "rows", read)
    assert stages_of(made(tmp_path / "tuned", data=read)) == ["finetune", "set-aside"]
    assert not made_data(record, tmp_path / "rows", {**read, "sha256": "0" * 64})
    # Other data stand there now, which nobody read.
    shutil.rmtree(tmp_path / "rows")
    set_aside(str(tmp_path / "my.csv"), task=task, output=tmp_path / "rows", seed=2)
    assert stages_of(tmp_path / "tuned") == ["finetune"]


def test_text_that_no_stage_made_is_a_name_and_a_hash(tmp_path):
    (tmp_path / "text.txt").write_text("a text")
    student = made(tmp_path / "student", "distill", text=file_parent(tmp_path / "text.txt"), data={"path": "nyu-mll/glue sst2", "sha256": "hub"})  # fmt: skip
    (only,) = lineage_of(student)
    assert only["read"] == {
        "text": {"path": "text.txt", "sha256": file_sha256(tmp_path / "text.txt")},
        "data": {"path": "nyu-mll/glue sst2", "sha256": "hub"},
    }
    assert len(ancestors(student)) == 1
