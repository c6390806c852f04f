"""A resumed run logs the losses of a whole one: of the steps between its last log and its last checkpoint none is lost."""

import pytest

from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import QatSettings
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.stage import pretrain
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training import loop as training
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.small_models import SMALL
from tests.support.stopped_runs import Stops, outcome

QUICK = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "max_length": 32, "precision": "fp32"}
CONFIG = {**{name: SMALL[name] for name in SMALL if name != "vocab_size"}, "embedding_size": 16}


def check_resumed_as_whole(run, tmp_path, monkeypatch, *, steps):
    whole = run(tmp_path / "whole")
    monkeypatch.setattr(training, "Checkpoints", Stops)
    monkeypatch.setattr(Stops, "steps", list(steps))
    for _ in steps:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped")
    stopped = run(tmp_path / "stopped")
    assert outcome(stopped.result) == outcome(whole.result)
    weights = "model.safetensors"
    assert stopped.files[weights]["sha256"] == whole.files[weights]["sha256"]
    return stopped


@pytest.mark.slow
def test_of_fine_tuning(encoder_dir, data_dir, tmp_path, monkeypatch):
    def run(out):
        return finetune(
            str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=out, settings=TrainSettings(**QUICK)
        )

    record = check_resumed_as_whole(run, tmp_path, monkeypatch, steps=[3, 13, 17])
    assert record.result["resumed_at_step"] == 17


@pytest.mark.slow
def test_of_both_phases_of_a_distillation(teachers, data_dir, tmp_path, monkeypatch):
    how = DistilSettings("tinybert", StudentSettings("half"), values=(("general_epochs", 0),), epochs=1.5)

    def run(out):
        return distill(
            str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=out, settings=TrainSettings(**QUICK), method=how,
        )  # fmt: skip

    record = check_resumed_as_whole(run, tmp_path, monkeypatch, steps=[4, 7, 12])
    assert all(len(phase["losses"]) >= 1 for phase in record.result["phases"].values())


@pytest.mark.slow
def test_of_training_for_few_bits(teachers, data_dir, tmp_path, monkeypatch):
    def run(out):
        return qat(
            str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=out, settings=QatSettings(**QUICK)
        )

    check_resumed_as_whole(run, tmp_path, monkeypatch, steps=[6, 11])


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [8, 64])
def test_of_pretraining(corpus, tmp_path, monkeypatch, batch_size):
    """With the larger batches it ends before its first log."""
    given = {**QUICK, "batch_size": batch_size, "epochs": 1, "evaluations": 2}

    def run(out):
        return pretrain(corpus, config=CONFIG, output=out, settings=PretrainSettings(**given))

    check_resumed_as_whole(run, tmp_path, monkeypatch, steps=[1, 2] if batch_size == 64 else [5, 12])
