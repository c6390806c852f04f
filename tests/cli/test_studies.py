"""The studies: every word of their scripts is known where it is read, and each reads what it made."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from hf_albert_plus.distillation.methods import get_method
from hf_albert_plus.records.record import read_record
from tests.support.corpora import as_text, make_text
from tests.support.pretraining import CONFIG
from tests.support.study_calls import EXAMPLES, calls_of


def calls_by_verb(script, *arguments, folder):
    """Verb -> the options of each call, in their order."""
    calls = {}
    for verb, found in calls_of(script, *arguments, folder=folder):
        calls.setdefault(verb, []).append(found)
    return calls


@pytest.mark.slow
def test_the_study_of_sharing_trains_each_encoder_and_fine_tunes_it_twice(tmp_path):
    calls = calls_by_verb("sharing-study.sh", "study", "nyu-mll/glue", "a.txt", "b.txt", folder=tmp_path)
    assert {verb: len(found) for verb, found in calls.items()} == {
        "tokenizer": 1, "corpus": 3, "pretrain": 10, "finetune": 20, "eval": 2, "card": 10,
    }  # fmt: skip
    corpora = {Path(found["out"]).name for found in calls["corpus"]}
    assert {Path(found["corpus"][0]).name for found in calls["pretrain"]} == corpora
    assert len({(*found["set_"], *found["corpus"]) for found in calls["pretrain"]}) == 10
    encoders = {str(found["out"]) for found in calls["pretrain"]}
    assert {(str(found["model"]), found["task"]) for found in calls["finetune"]} == {
        (encoder, task) for encoder in encoders for task in ("sst2", "mrpc")
    }
    for found in calls["eval"]:
        tuned = [str(each["out"]) for each in calls["finetune"] if each["task"] == found["task"]]
        assert set(found["targets"]) == {f"{Path(out).name.removesuffix('-' + found['task'])}={out}" for out in tuned}
    assert {str(found["sources"][0]) for found in calls["card"]} == encoders


@pytest.fixture
def pretraining_study(tmp_path, monkeypatch):
    """The calls of the study of pretraining, by verb, where every record says the same."""
    facts = {"held_out_mlm_accuracy": 0.25, "held_out_order_accuracy": 0.75, "steps": 10, "parameters": 1000}
    result = {"train_tokens": 2000, "held_out_mlm_loss": 5.5, **facts, "row torch": {"accuracy": 80.0, "f1": 70.0}}
    monkeypatch.setenv("RECORD", json.dumps({"result": result}))
    monkeypatch.setenv("TOKENS", "5000")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("text\n")

    def run(**environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return calls_by_verb("pretraining-study.sh", "study", "nyu-mll/glue", "a.txt", "b.txt", folder=tmp_path)

    return run, tmp_path / "study"


@pytest.mark.slow
def test_the_study_of_pretraining_makes_each_run_once_and_reads_what_it_made(pretraining_study):
    run, folder = pretraining_study
    calls = run(SEEDS="4 5", JOBS="1")
    # Of each seed 23 encoders; two are asked the other task, and with that of no task taught two more than these.
    assert {verb: len(found) for verb, found in calls.items()} == {
        "tokenizer": 1, "corpus": 7, "pretrain": 2 * (23 + 2 + 4), "finetune": 2 * 4 * 2, "eval": 2 * 4 * 2,
    }  # fmt: skip
    corpora = {str(found["out"]) for found in calls["corpus"]}
    made = {str(found["out"]) for found in calls["pretrain"]}
    assert len(made) == len(calls["pretrain"])
    for found in calls["pretrain"]:
        assert found["corpus"][0] in corpora
        assert str(found["out"]).endswith(f"-{found['seed']}")
        assert found["model"] is None or found["model"] in made
        if found["model"] is None:
            assert found["epochs"] == 2.5
    first = [found["seed"] for found in calls["pretrain"]]
    assert first == sorted(first)
    trained = [found for found in calls["pretrain"] if found["model"] is None]
    facts = ("corpus", "set_", "batch_size", "optimizer", "learning_rate", "copies", "seed")
    assert len({json.dumps([found[fact] for fact in facts]) for found in trained}) == len(trained)
    assert {found["model"] for found in calls["finetune"]} <= made
    assert {found["targets"][0].partition("=")[2] for found in calls["eval"]} == {
        str(found["out"]) for found in calls["finetune"]
    }
    # All tables are full.
    tables = json.loads((folder / "study.json").read_text())
    summaries = [summary for rows in tables.values() for figures in rows.values() for summary in figures.values()]
    assert {tuple(summary["seeds"]) for summary in summaries} == {("4", "5")}
    assert "not measured" not in (folder / "study.md").read_text()
    assert run() == {}


def test_the_study_of_pretraining_makes_what_is_asked_for_and_begins_nothing_too_late(pretraining_study):
    run, folder = pretraining_study
    calls = run(PARTS="masks dropout", SEEDS="1")
    assert {Path(found["out"]).name for found in calls["corpus"]} == {"corpus-few", "corpus-sentence-order"}
    assert {Path(found["out"]).name for found in calls["pretrain"]} == {
        "masks-new-1", "masks-1-1", "masks-10-1", "base-1", "dropout-1",
    }  # fmt: skip
    assert run(SEEDS="1 2", STOP_AFTER="0") == {}
    written = (folder / "study.md").read_text()
    assert "| 0.1 | 5.500 | 25.0 | 75.0 |" in written
    assert "| AdamW, 256 rows | not measured |" in written


@pytest.mark.slow
def test_the_study_of_compression_reads_what_it_made(tmp_path):
    (tmp_path / "text.txt").write_text("text")
    made, exported, measured = {"org/encoder"}, {}, set()
    calls = calls_of("compression-study.sh", "study", "nyu-mll/glue", "org/encoder", "text.txt", folder=tmp_path)
    for verb, found in calls + calls_of("compression-measure.sh", "study", "nyu-mll/glue", folder=tmp_path):
        for name in ("model", "teacher", "student", "source", "directory"):
            if found.get(name) is not None and (name, str(found[name])) != ("student", "auto"):
                assert str(found[name]) in made, (verb, name)
        if verb == "export":
            exported[str(found["out"])] = set(found["to"])
        if verb in ("eval", "bench"):
            for target in found["targets"]:
                directory, _, runtime = target.partition("=")[2].partition(":")
                assert runtime in exported[directory] | {""}, target
                measured.add(directory)
        if found.get("out") is not None:
            assert str(found["out"]) not in made
            made.add(str(found["out"]))
    assert sum(path.startswith("report-") for path in made) == 3
    assert measured == set(exported)


def test_the_study_of_own_data_compares_what_it_made(tmp_path, monkeypatch):
    monkeypatch.setenv("SEEDS", "1 2")
    plain = tmp_path / "bin" / "python"
    plain.parent.mkdir()
    plain.write_text('#!/bin/bash\nmkdir -p "$4" && touch "$4/task.json"\n')
    plain.chmod(0o755)
    for run in ("one-1", "one-2", "other-1", "other-2"):  # the floor says what the task is called
        (tmp_path / "study" / "runs" / run / "floor" / "stsb-own").mkdir(parents=True)
    calls = calls_by_verb("own-data-study.sh", "study", "org/encoder", "one", "other", folder=tmp_path)
    assert {verb: len(found) for verb, found in calls.items()} == {"run": 4, "eval": 2, "bench": 2, "report": 2}
    made = {str(found["out"]) for found in calls["run"]}
    for scored, timed in zip(calls["eval"], calls["bench"], strict=True):
        assert len(scored["targets"]) == 10
        assert {timed["baseline"], *timed["targets"]} <= set(scored["targets"])
        for target in scored["targets"]:
            role, _, path = target.partition("=")
            path = path.partition(":")[0]
            if role == "plain":
                assert (tmp_path / path).is_dir()
                continue
            run, _, model = path.partition("/models/")
            assert run in made
            assert model == f"{role}-stsb-own"
    for found in calls["report"]:
        assert str(found["scores"][0].parent) in {str(each["out"]) for each in calls["eval"]}
        assert str(found["bench"].parent) in {str(each["out"]) for each in calls["bench"]}


PASSES = {"mrpc": 6, "sst2": 2}
OF_TEXT = ["distilbert", "extreme", "mobilebert", "tinybert", "well-read"]


@pytest.mark.slow
def test_the_study_of_methods_gives_each_the_same_steps(tmp_path, monkeypatch):
    """Of copies of rows fewer passes, and of texts alone none of the task's."""
    monkeypatch.setenv("SEEDS", "1 2")
    monkeypatch.setenv("RECORD", "{}")
    texts = [tmp_path / name for name in ("text.txt", "reviews.txt")]
    for text in texts:
        text.write_text("text")
    calls = calls_by_verb("methods-study.sh", "study", "nyu-mll/glue", "org/encoder", *texts, folder=tmp_path)
    distilled = {str(found["out"]): found for found in calls.pop("distill")}
    assert {verb: len(found) for verb, found in calls.items()} == {
        "finetune": 2, "convert": 4, "corpus": 1, "pretrain": 1, "tokenizer": 1, "augment": 4, "eval": 2,
    }  # fmt: skip
    assert sorted(out for out in distilled if out.startswith("general/")) == [f"general/{name}" for name in OF_TEXT]
    copies = {str(found["out"]): 1 + found["copies"] for found in calls["augment"]}
    made = {str(found["out"]) for verb in ("finetune", "convert", "tokenizer") for found in calls[verb]} | set(
        distilled
    )
    for scored in calls["eval"]:
        targets = [target.partition("=") for target in scored["targets"]]
        assert len(targets) == 1 + 2 * 20
        for name, _, out in targets[1:]:
            found = distilled[out]
            method = get_method(found["method"])
            given = dict(setting.split("=") for setting in found["set_"])
            assert given.keys() <= set(method.defaults)
            passes = sum(float(value) for key, value in given.items() if key.endswith("epochs")) or found["epochs"]
            assert passes * copies.get(found["data"], 1) == pytest.approx(PASSES[scored["task"]], rel=1e-4), name
            assert {found["student"], str(found["teacher"])} <= made
            assert name.startswith(found["method"])
            assert (found["unlabelled"] is not None) == (name == "well-read" and scored["task"] == "sst2")


@pytest.mark.slow
def test_the_study_of_methods_needs_no_text(tmp_path, monkeypatch):
    monkeypatch.setenv("RECORD", "{}")
    calls = calls_by_verb("methods-study.sh", "study", "nyu-mll/glue", "org/encoder", folder=tmp_path)
    assert sorted(calls) == ["augment", "convert", "distill", "eval", "finetune"]
    assert [len(found["targets"]) for found in calls["eval"]] == [1 + 10] * 2


def test_a_study_begins_no_row_once_its_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setenv("STOP_AFTER", "0")
    calls = calls_by_verb("methods-study.sh", "study", "nyu-mll/glue", "org/encoder", folder=tmp_path)
    assert sorted(calls) == ["eval"]


def test_the_study_of_teachers_teaches_by_one_and_by_all_of_them(tmp_path, monkeypatch):
    for name, value in {
        "COLUMNS": "sentence1 sentence2",
        "PASSES": "4 8",
        "SEEDS": "1 2",
        "MEASURE": "matthews",
    }.items():
        monkeypatch.setenv(name, value)
    answers = tmp_path / "study" / "answers"
    answers.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    kinds = [f"{passes}-{kind}" for passes in (4, 8) for kind in ("one", "mean")]
    for kind in kinds:
        (answers / f"{kind}.parquet").touch()
    calls = calls_by_verb("teachers-study.sh", "study", "org/encoder", "data", folder=tmp_path)
    assert {verb: len(found) for verb, found in calls.items()} == {
        "finetune": 4, "score": 4, "convert": 4, "distill": 8, "eval": 1,
    }  # fmt: skip
    assert {(found["epochs"], found["seed"], str(found["out"])) for found in calls["finetune"]} == {
        (passes, seed, f"teachers/{passes:g}-{seed}") for passes in (4.0, 8.0) for seed in (1, 2)
    }
    assert {found["engine"] for found in calls["score"]} == {str(found["out"]) for found in calls["finetune"]}
    for found in calls["score"]:
        assert (found["text_column"], found["pair_column"], found["logits"]) == ("sentence1", "sentence2", True)
        assert list(found["keep"]) == ["label=gold", "sentence1", "sentence2"]
    starts = {str(found["out"]): found["source"] for found in calls["convert"]}
    assert starts == {"starts/4": "teachers/4-1", "starts/8": "teachers/8-1"}
    assert {(found["student"], found["data"], found["seed"]) for found in calls["distill"]} == {
        (f"starts/{kind[0]}", f"answers/{kind}.parquet", seed) for kind in kinds for seed in (1, 2)
    }
    made = {str(found["out"]) for verb in ("finetune", "distill") for found in calls[verb]}
    assert {target.partition("=")[2] for target in calls["eval"][0]["targets"]} == made


def test_the_mean_of_what_teachers_say(tmp_path):
    rows = {"file": ["a", "a"], "row": [0, 1], "text": ["x", "y"], "gold": ["no", "yes"]}
    for number, logits in enumerate(([[1.0, 3.0], [0.0, 2.0]], [[3.0, 5.0], [4.0, -2.0]])):
        (tmp_path / f"scored-{number}" / "scores").mkdir(parents=True)
        said = {"label": ["yes", "no"], "score": [0.5, 0.5], "scores": [[0.5, 0.5]] * 2, "logits": logits, "tokens": [3, number], "truncated": [False] * 2}  # fmt: skip
        pyarrow.parquet.write_table(pyarrow.table(rows | said), tmp_path / f"scored-{number}" / "scores" / "part-0.parquet")  # fmt: skip
    command = [sys.executable, EXAMPLES / "mean_logits.py", "mean.parquet", "scored-0", "scored-1"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = pyarrow.parquet.read_table(tmp_path / "mean.parquet").to_pydict()
    assert found == {**rows, "logits": [[2.0, 4.0], [2.0, 0.0]]}
    pyarrow.parquet.write_table(
        pyarrow.table({**rows, "text": ["x", "z"], "logits": [[0.0, 0.0]] * 2}),
        tmp_path / "scored-1" / "scores" / "part-0.parquet",
    )
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, "the same rows, in the same order" in refused.stderr) == (1, True)


@pytest.mark.slow
def test_the_study_of_equal_bytes_compares_what_it_made(tmp_path, monkeypatch):
    monkeypatch.setenv("SEEDS", "1 2")
    (tmp_path / "teacher").mkdir()
    (tmp_path / "data").mkdir()
    calls = calls_by_verb("equal-bytes-study.sh", "study", "teacher", "data", folder=tmp_path)
    students = len(calls["convert"])
    assert {verb: len(found) for verb, found in calls.items()} == {
        "trim": 1, "convert": students, "distill": 2 * students, "export": 2 * students + 1, "eval": 1, "bench": 1, "report": 1,
    }  # fmt: skip
    whole, used = str((tmp_path / "teacher").resolve()), str(calls["trim"][0]["out"])
    starts = {str(found["out"]): found for found in calls["convert"]}
    for found in calls["distill"]:
        assert found["teacher"] == starts[found["student"]]["source"]
        assert found["teacher"] == (used if found["student"].endswith("-used") else whole)
    assert {str(found["directory"]) for found in calls["export"]} == {
        whole,
        *(str(found["out"]) for found in calls["distill"]),
    }
    (scored,), (timed,) = calls["eval"], calls["bench"]
    assert len(scored["targets"]) == 2 + 2 * students
    assert len(timed["targets"]) == 2 + students
    assert {timed["baseline"], *timed["targets"]} <= set(scored["targets"])
    shapes = {(*found["set_"], found["source"], found["initialise"], found["layers"]) for found in calls["convert"]}
    assert len(shapes) == students == 13


def test_the_study_of_vectors_measures_what_it_made(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    calls = calls_by_verb("vectors-study.sh", "study", "org/encoder", "nyu-mll/glue", "a.txt", "b.txt", folder=tmp_path)
    assert {verb: len(found) for verb, found in calls.items()} == {
        "export": 5, "distill": 4, "eval": 1, "retrieve": 6, "bench": 6, "report": 1,
    }  # fmt: skip
    assert (tmp_path / "study" / "text.txt").read_text() == "a.txt\nb.txt\n"
    exported = {str(found["out"]): set(found["to"]) for found in calls["export"]}
    assert {str(found["directory"]) for found in calls["export"]} == {
        "org/encoder",
        *(str(found["out"]) for found in calls["distill"]),
    }
    assert {(found["method"], found["teacher"], str(found["text"])) for found in calls["distill"]} == {
        ("embeddings", "org/encoder", "text.txt")
    }
    assert len({(found["student"], *found["set_"]) for found in calls["distill"]}) == 4
    (scored,) = calls["eval"]
    *alone, timed = calls["bench"]
    assert scored["static"] == "org/encoder"
    assert timed["targets"] == scored["targets"]
    assert timed["baseline"] in timed["targets"]
    for target in [*scored["targets"], *(each for found in alone for each in found["targets"])]:
        directory, _, runtime = target.partition("=")[2].partition(":")
        assert directory == "org/encoder" or runtime in exported[directory] | {""}, target
    for found in alone:
        assert found["targets"] == [f"{found['baseline']}:onnx-int8"]
    searched = [found["target"] for found in calls["retrieve"] if found["static"] is None]
    assert set(searched) == {f"{directory}:onnx-int8" for directory in exported}


@pytest.mark.slow
def test_the_sweep_of_pruning_prunes_one_encoder_at_every_level_and_fine_tunes_each(tmp_path):
    table = tmp_path / "bin" / "python3"
    table.parent.mkdir()
    table.write_text("#!/bin/bash\n")
    table.chmod(0o755)
    calls = calls_by_verb("pruning-sweep.sh", "sweep", "nyu-mll/glue", "a.txt", "b.txt", folder=tmp_path)
    assert {verb: len(found) for verb, found in calls.items()} == {
        "tokenizer": 1, "corpus": 1, "pretrain": 11, "finetune": 20, "eval": 2,
    }  # fmt: skip
    dense, *pruned = calls["pretrain"]
    assert (dense["model"], dense["sparsity"]) == (None, 0.0)
    assert {found["model"] for found in pruned} == {str(dense["out"])}
    assert [found["sparsity"] for found in pruned] == [level / 100 for level in range(0, 100, 10)]
    assert {(found["ramp"], found["epochs"]) for found in pruned} == {(1.0, 0.5)}
    encoders = {str(found["out"]) for found in pruned}
    assert {(str(found["model"]), found["task"]) for found in calls["finetune"]} == {
        (encoder, task) for encoder in encoders for task in ("sst2", "mrpc")
    }
    assert all(found["keep_zeros"] for found in calls["finetune"])
    for found in calls["eval"]:
        tuned = [str(each["out"]) for each in calls["finetune"] if each["task"] == found["task"]]
        assert set(found["targets"]) == {f"{out.rpartition('-')[2]}={out}" for out in tuned}


@pytest.mark.slow
@pytest.mark.pages
@pytest.mark.timeout(1200)
def test_the_sweep_of_pruning_runs_and_runs_again(data_dir, tmp_path):
    """Two levels of a tiny encoder on a tiny text; the second time everything is there."""
    text = tmp_path / "text.txt"
    text.write_text(as_text(make_text(count=80)), encoding="utf-8")
    shape = " ".join(f"--set {name}={value}" for name, value in CONFIG.items() if name != "max_position_embeddings")
    small = {
        "LEVELS": "0 60",
        "TASKS": "mrpc",
        "SHAPE": shape,
        "VOCABULARY": "70",
        "LENGTH": "32",
        "EPOCHS": "1",
        "FURTHER": "1",
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **small}
    tables = []
    for _ in range(2):
        subprocess.run(
            [EXAMPLES / "pruning-sweep.sh", "sweep", data_dir, "text.txt"], cwd=tmp_path, env=environment, check=True
        )
        tables.append((tmp_path / "sweep" / "sweep.md").read_text())
    assert tables[0] == tables[1]
    _, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in tables[0].splitlines()]
    assert [row[0] for row in rows] == ["0", "60"]
    assert [float(row[1]) for row in rows] == pytest.approx([0, 60], abs=0.1)
    for level in ("0", "60"):
        record = read_record(tmp_path / "sweep" / "pruned" / level).result
        assert f"{record['held_out_mlm_loss']:.3f}" == rows[level == "60"][2]
    tuned = read_record(tmp_path / "sweep" / "tuned" / "mrpc-60").result
    assert tuned["zeros_of_matrices"] == pytest.approx(0.6, abs=1e-3)
