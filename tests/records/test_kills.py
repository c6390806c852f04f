"""Kills at random moments, and damage to what they leave: every run, given again until it is done, makes what a whole one makes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from hf_albert_plus.records.record import read_record
from tests.support.corpora import as_text, make_text
from tests.support.small_models import SMALL
from tests.support.stopped_runs import outcome

pytestmark = pytest.mark.slow

STAGES = ("finetune", "distill", "pretrain", "qat", "corpus", "score", "embed")
KILLS = {"finetune": 4, "distill": 4, "pretrain": 3, "qat": 3, "corpus": 3, "score": 3, "embed": 3}
# How many kills of a run before it is let alone.
PATIENCE = 2
# Runs over files, and the folders of their parts: what is done stays in the output itself.
PARTS = {"score": "scores", "embed": "vectors"}
# Of such a run: they say how it went.
OF_THE_RUN = {"rows_of_this_run", "sentences_per_s"}


@pytest.fixture(scope="module")
def given(tmp_path_factory, encoder_dir, data_dir, teachers, corpus, tokenizer_dir, exported_dir, vectors_dir):
    text = tmp_path_factory.mktemp("killed") / "text.txt"
    text.write_text(as_text(make_text(count=120)), encoding="utf-8")
    (rows,) = (data_dir / "sst2").glob("validation*.parquet")
    config = {**{name: SMALL[name] for name in SMALL if name != "vocab_size"}, "embedding_size": 16}
    places = {"encoder": encoder_dir, "data": data_dir, "teacher": teachers / "sst2", "corpus": corpus, "tokenizer": tokenizer_dir,
              "exported": exported_dir, "vectors": vectors_dir, "text": text, "rows": rows}  # fmt: skip
    return {**{name: str(path) for name, path in places.items()}, "config": config}


@pytest.fixture(scope="module")
def runs(given, tmp_path_factory):
    """Runs a stage, killed after so many seconds."""
    log = tmp_path_factory.mktemp("log") / "stderr"
    with log.open("w") as stderr:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.support.killed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}, cwd=Path(__file__).parents[2],
        )  # fmt: skip

    def run(stage, out, kill_after=None):
        print(json.dumps({"stage": stage, "out": str(out), "kill_after": kill_after, "given": given}), file=driver.stdin, flush=True)  # fmt: skip
        answer = json.loads(driver.stdout.readline())
        assert "Traceback" not in log.read_text(), log.read_text()[-5000:]
        assert answer["status"] in ((0,) if kill_after is None else (0, -9)), answer
        return answer

    yield run
    driver.stdin.close()
    driver.wait()
    driver.stdout.close()


def kept_files(stage, out):
    """What a later run goes on with."""
    folder = out / PARTS[stage] if stage in PARTS else out.with_name(f"{out.name}.partial") / "checkpoints"
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def damage(path, random):
    content = path.read_bytes()
    start = random.randrange(len(content))
    size = min(len(content) - start, random.randint(1, 4096))
    path.write_bytes(
        random.choice(
            [
                content[:start],
                b"",
                bytes(len(content)),
                content[:start] + bytes(size) + content[start + size :],
                content[:start] + random.randbytes(size) + content[start + size :],
            ]
        )
    )


def came_out(out):
    record = read_record(out)
    result = {name: value for name, value in outcome(record.result).items() if name not in OF_THE_RUN}
    return {"result": result, "files": {name: facts["sha256"] for name, facts in record.files.items()}}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_that_is_killed_and_damaged_makes_what_a_whole_one_makes(stage, runs, tmp_path, capsys):
    random = Random(f"kills of {stage}")
    runs(stage, tmp_path / "warm")
    whole = tmp_path / "whole"
    seconds = runs(stage, whole)["seconds"]
    expected, kills, damaged, number = came_out(whole), 0, [], 0
    while kills < KILLS[stage]:
        number += 1
        out, told = tmp_path / f"killed-{number}", []
        for _ in range(PATIENCE):
            kill_after = random.uniform(0.1, 1) * seconds
            if runs(stage, out, kill_after=kill_after)["status"] == 0:
                break
            kills += 1
            told.append(f"killed after {kill_after:.3f} of {seconds:.3f} s")
            # A directory with its final name is whole; that of a run over files, once it has its record.
            if out.exists() and (stage not in PARTS or (out / "record.json").exists()):
                read_record(out)
            files = kept_files(stage, out)
            if files and random.random() < 0.5:
                chosen = random.choice(files)
                damage(chosen, random)
                damaged.append(chosen.name)
                told.append(f"damaged {chosen.relative_to(tmp_path)}")
        runs(stage, out)
        assert came_out(out) == expected, "; ".join(told)
        assert not out.with_name(f"{out.name}.partial").exists()
    with capsys.disabled():
        print(f"\n{stage}: {seconds:.1f} s, {kills} kills of {number} runs, damaged: {', '.join(damaged) or 'nothing'}")
    assert kills >= KILLS[stage]
