"""Searches from end to end on tiny models: what they leave, that they go on where they were stopped, and that their commands make what they made."""

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import optuna
import pytest
from transformers import ElectraConfig, ElectraModel

from hf_albert_plus.config_files import load_config
from hf_albert_plus.configuration_albert_plus import DROPOUTS
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.record import fingerprint
from hf_albert_plus.search import workshop
from hf_albert_plus.search.settings import CompressSettings
from hf_albert_plus.search.stage import compress, picked_student, search
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.benches import planted_paces
from tests.support.command_line import invoke


@pytest.fixture(autouse=True)
def even_machine(short_benches, monkeypatch):
    """Speeds are planted, a search looks at few of them, and one proposal that improves nothing ends it."""
    monkeypatch.setattr("hf_albert_plus.search.hunt._IDLE", 1)
    monkeypatch.setattr("hf_albert_plus.search.descent._CLOSE", 2.0)
    with planted_paces():
        yield


QUICK = ("--epochs", "0.4", "--max-length", "32", "--precision", "fp32")


def settings(**given):
    return CompressSettings(**{"epochs": 0.4, "max_length": 32, "precision": "fp32", "time_budget": 1e6, **given})


def run(teacher, data, out, **given):
    return compress(str(teacher), data=str(data), task=get_task("sst2"), out=out, settings=settings(**given))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_search(teachers, data_dir, tmp_path, monkeypatch):
    out = tmp_path / "out"
    first = invoke("compress", teachers / "sst2", "--data", data_dir, "--task", "sst2", "--time-budget", "1s", *QUICK, "--out", out)  # fmt: skip
    assert "out/pick:onnx-int8" in first.stdout
    # A larger budget goes on, and what was made is not made again.
    before = {path: path.stat().st_mtime_ns for path in (out / "trials").rglob("record.json")}
    found = run(teachers / "sst2", data_dir, out)
    assert before.items() <= {path: path.stat().st_mtime_ns for path in (out / "trials").rglob("record.json")}.items()
    assert found.directory == out / "pick"
    Engine.load(out / "pick", found.runtime)
    assert (out / "pick" / "README.md").is_file()

    document = json.loads((out / "compress.json").read_text())
    done = [each for each in document["candidates"] if each["stopped"] is None]
    assert document["pick"] in {each["name"] for each in done}
    page = (out / "compress.html").read_text()
    assert len(done) < len(document["candidates"])
    assert all(each["stopped"] is None or each["stopped"] in html.unescape(page) for each in document["candidates"])
    for each in document["candidates"]:
        assert f'id="{each["name"]}"' in page
    assert set(re.findall(r'xlink:href="#([^"]+)"', page)) >= {each["name"] for each in done}
    study = optuna.load_study(study_name="albert-plus compress", storage=f"sqlite:///{out / 'optuna.db'}")
    named = {trial.user_attrs["name"]: trial for trial in study.trials if "name" in trial.user_attrs}
    taught = [each for each in done if each["name"] in named]
    assert taught
    assert load_config(teachers / "sst2", option="TEACHER").hidden_dropout_prob > 0
    for each in taught:
        learned = load_config(out / "trials" / each["name"] / "taught", option="a candidate")
        assert [getattr(learned, name) for name in DROPOUTS] == [0, 0, 0]
        assert named[each["name"]].values[0] == pytest.approx(each["score"])

    # The same call finds all of it done.
    def refuse(*args, **kwargs):
        raise AssertionError("a finished stage is done again")

    monkeypatch.setattr("hf_albert_plus.records.stage._prepare", refuse)
    again = run(teachers / "sst2", data_dir, out)
    assert json.loads((out / "compress.json").read_text()) == document
    (tmp_path / "page").mkdir()
    picked = picked_student(again.hunt, out=tmp_path / "page")
    assert (picked.tried.name, picked.holds) == (document["pick"], True)
    assert picked.page.is_file()
    assert json.loads((picked.page.parent / "compress.json").read_text()) == document
    assert (picked.directory / "model.safetensors").is_file()


def _commands_on_page(page, name):
    """Those whose outputs are a candidate's own."""
    ours = f"trials/{name.removesuffix('-begun')}/"
    return [line for line in re.findall(r"albert-plus [^<\n]+", page.read_text()) if ours in line.split("--out ")[-1]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_a_candidate_make_it(teachers, data_dir, tmp_path):
    """In a file that has no room for all of the vocabulary, from more texts than the task's."""
    out, texts = tmp_path / "out", tmp_path / "more.txt"
    texts.write_text(
        "".join(f"{text}\n" for text in load_split(str(data_dir), get_task("sst2"), "train")["sentence"][:8])
    )
    given = {"exits": False, "max_drop": 100.0, "max_size": 45e3, "unlabelled": str(texts)}
    found = run(teachers / "sst2", data_dir, out, **given)
    assert fingerprint(out / "pick")
    assert (out / "pick" / "onnx" / "model_int8.onnx").stat().st_size <= 45e3
    untrained = [each.name for each in found.hunt.tried[:2]]
    assert untrained == ["teacher", "trimmed"]
    assert any(each.name.endswith("-shared16") for each in found.hunt.tried)
    sizes = {each.name: each.measured.file_bytes for each in found.hunt.tried if each.measured is not None}
    assert sizes["trimmed"] < sizes["teacher"]
    assert sizes["teacher"] > 45e3
    # All hold after their first passes, and the one that leads learned the rest.
    waiting = next(name for name in sizes if name.endswith("-begun"))
    whole = next(name for name in sizes if name not in untrained and not name.endswith("-begun"))
    assert load_config(out / "small" / "trials" / whole / "taught", option="a candidate").vocab_size < 634
    of_waiting, of_whole = (_commands_on_page(out / "compress.html", name) for name in (waiting, whole))
    assert [shlex.split(line)[1] for line in of_waiting] == ["prune", "distill", "export"]
    assert [shlex.split(line)[1] for line in of_whole][-3:] == ["distill", "distill", "export"]
    assert "--examples 512 " in of_waiting[0]
    for number, line in enumerate(of_whole):
        words = shlex.split(line.replace("&#39;", "'").replace("&#34;", '"'))[1:]
        made = tmp_path / f"again-{number}"
        source, words[-1] = words[-1], made
        invoke(*words)
        if words[0] != "export":
            assert (made / "model.safetensors").read_bytes() == (out.parent / source / "model.safetensors").read_bytes()
        else:
            graph = "onnx/model_int8.onnx"
            assert (made / graph).read_bytes() == (out.parent / source / graph).read_bytes()


@pytest.mark.slow
def test_a_student_that_is_given(teachers, encoder_dir, data_dir, tmp_path):
    """It learns the task and is measured like any candidate; one that cannot learn from this teacher is refused before anything is made."""
    convert(str(encoder_dir), output=tmp_path / "general", overrides={"num_hidden_layers": 1})
    given = {"min_speedup": 1e4, "exits": False}
    found = run(teachers / "sst2", data_dir, tmp_path / "out", student=(str(tmp_path / "general"),), **given)
    (name,) = found.hunt.workshop.students
    (tried,) = (each for each in found.hunt.tried if each.name == name)
    assert tried.words == "the student general"
    assert load_config(found.hunt.workshop.students[name], option="a student").num_hidden_layers == 1
    assert f"--student {tmp_path / 'general'}" in html.unescape((tmp_path / "out" / "compress.html").read_text())
    with pytest.raises(InvalidInput, match="--student must be an ALBERT-plus model"):
        run(teachers / "sst2", data_dir, tmp_path / "other", student=(str(teachers / "sst2"),), **given)
    assert not (tmp_path / "other" / "trials").exists()


def test_a_student_has_the_whole_vocabulary_and_no_file_that_is_too_small_for_it(teachers, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match=r"--student must have a --max-size .*, got 0.045 MB; leave one of them out"):
        run(teachers / "sst2", data_dir, tmp_path / "out", student=(str(teachers / "sst2"),), max_size=45e3)
    assert not (tmp_path / "out" / "small").exists()


_SHORTENED = """
from hf_albert_plus.cli.app import main
from tests.support.benches import planted_paces, shortened_benches

with shortened_benches(), planted_paces():
    main()
"""


def started(teacher, data, out):
    command = [sys.executable, "-c", _SHORTENED, "compress", teacher, "--data", data, "--task", "sst2", *QUICK, "--threads", "1", "--out", out]  # fmt: skip
    return subprocess.Popen(
        list(map(str, command)), stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
    )


def wait_for(process, words):
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_is_stopped(how, teachers, data_dir, tmp_path):
    """By kill -9 it goes on where it was; by Ctrl-C it ends with the best until then."""
    out = tmp_path / "out"
    with started(teachers / "sst2", data_dir, out) as process:
        wait_for(process, "after a quarter of its passes")
        time.sleep(0.3)
        process.send_signal(how)
        process.stderr.read()
        process.wait(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 0
        assert json.loads((out / "compress.json").read_text())["ended"] == "it was stopped"
        assert (out / "pick").is_dir()
        return
    assert process.returncode != 0
    before = {path: path.stat().st_mtime_ns for path in (out / "trials").rglob("record.json")}
    assert any(path.parent.name == "begun" for path in before)
    search(
        str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), out=out, settings=settings(jobs=2), threads=1
    )
    assert before.items() <= {path: path.stat().st_mtime_ns for path in (out / "trials").rglob("record.json")}.items()


def test_a_family_whose_parts_cannot_be_removed(data_dir, tmp_path, tokenizer_dir):
    ElectraModel(ElectraConfig(vocab_size=99, embedding_size=16, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)).save_pretrained(tmp_path / "m")  # fmt: skip
    with pytest.raises(InvalidInput, match="TEACHER must be of one of the architectures .*, got electra"):
        run(tmp_path / "m", data_dir, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_where_a_search_is_interrupted_before_anything(teachers, data_dir, tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(workshop, "export", stop)
    with pytest.raises(InvalidInput, match="must not be stopped before its first candidate"):
        run(teachers / "sst2", data_dir, tmp_path / "out")
