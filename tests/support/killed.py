"""Runs stages in forks of one process that has opened all libraries and computed nothing, and kills them at their moment.

Reads a line of JSON for each run on stdin, {stage, out, kill_after, given}, and answers each with {status, seconds} on stdout.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

import torch

from hf_albert_plus.batch_scoring import stage as scoring_stage
from hf_albert_plus.batch_scoring.distribution import WorkerPool
from hf_albert_plus.batch_scoring.embedding import embed
from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.batch_scoring.stage import score
from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import QatSettings
from hf_albert_plus.distillation import run as distillation_run
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.stage import pretrain
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.text import corpus_parts as parts
from hf_albert_plus.text.corpus import build_corpus
from hf_albert_plus.text.settings import CorpusSettings
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.parts import answer_parts_here

QUICK = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "max_length": 32, "precision": "fp32"}
# Seconds: shorter than a few steps.
OFTEN = 0.02


def of_task(given):
    return {"data": given["data"], "task": get_task("sst2"), "checkpoint_seconds": OFTEN}


def run_finetune(out, given):
    finetune(given["encoder"], output=out, settings=TrainSettings(**QUICK), **of_task(given))


def run_distill(out, given):
    how = DistilSettings("tinybert", StudentSettings("half"), values=(("general_epochs", 0),), epochs=1)
    distill(given["teacher"], data=given["data"], task=get_task("sst2"), output=out, settings=TrainSettings(**QUICK), method=how)  # fmt: skip


def run_pretrain(out, given):
    settings = PretrainSettings(**{**QUICK, "evaluations": 2, "batch_size": 16})
    pretrain(Path(given["corpus"]), config=given["config"], output=out, settings=settings, checkpoint_seconds=OFTEN)


def run_qat(out, given):
    settings = QatSettings(**{**QUICK, "epochs": 0.7}, bits=(2, 4, 8), budget=0.07, draws=3, examples=8)
    qat(given["teacher"], output=out, settings=settings, **of_task(given))


def run_corpus(out, given):
    settings = CorpusSettings(max_length=32, held_out=0.2)
    build_corpus([given["text"]], tokenizer=given["tokenizer"], output=out, settings=settings, workers=1)


def run_score(out, given):
    run_over_files(score, given["exported"], out, given)


def run_embed(out, given):
    run_over_files(embed, given["vectors"], out, given)


def run_over_files(stage, engine, out, given):
    settings = ScoreSettings(text_column="sentence", part_rows=4)
    stage([given["rows"]], engine=Path(engine), runtime="onnx", output=out, settings=settings, pool=WorkerPool())


def prepare():
    torch.set_num_threads(1)
    train = distillation_run.train
    distillation_run.train = lambda *args, **options: train(*args, **{**options, "checkpoint_seconds": OFTEN})
    parts.find_parts.__kwdefaults__["part_bytes"] = 1000
    scoring_stage.cluster, scoring_stage.score_parts = nullcontext, answer_parts_here


def run_in_fork(stage, out, given, kill_after):
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            globals()[f"run_{stage}"](Path(out), given)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        seconds = time.perf_counter() - begun
        if ended:
            return {"status": os.waitstatus_to_exitcode(status), "seconds": seconds}
        if kill_after is not None and seconds >= kill_after:
            os.kill(child, signal.SIGKILL)
            kill_after = None
        time.sleep(0.001)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    prepare()
    for line in sys.stdin:
        print(json.dumps(run_in_fork(**json.loads(line))), file=answers, flush=True)
