"""What stops a run that learns nothing, forgets what it had learnt, or has no numbers left."""

import math

import pytest
from transformers import TrainerControl, TrainerState

from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.stage import pretrain
from hf_albert_plus.pretraining.trainer import Diverged, StopsDiverging
from tests.support.pretraining import CONFIG, SETTINGS


def log(callback, step, loss, *, max_steps=10_000):
    state = TrainerState(global_step=step, max_steps=max_steps)
    arguments = type("Arguments", (), {"learning_rate": 1e-3})
    callback.on_log(arguments, state, TrainerControl(), logs={"loss": loss})


def test_a_run_that_stays_at_the_frequencies_of_words_is_stopped():
    stuck = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 2000, 10):
        log(stuck, step, 7.3)
    with pytest.raises(
        Diverged,
        match=r"no more than the frequencies of words \(7.00\) at step 2000 .* lower --learning-rate \(now 0.001\)",
    ):
        log(stuck, 2000, 7.3)
    learns = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 10_000, 10):
        log(learns, step, max(3.0, 8 - step / 500))
    assert learns.best < 3.1
    # The first losses, far above the entropy, are not held against a short run that is below it by then.
    short = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 2000, 10):
        log(short, step, 6.7 if step > 200 else 9.5, max_steps=2500)


def test_a_run_that_warms_up_is_waited_for():
    warms_up = StopsDiverging(entropy=7.0, warmup=0.3)
    for step in range(10, 5000, 10):
        log(warms_up, step, 7.3)
    with pytest.raises(Diverged, match="at step 5000"):
        log(warms_up, 5000, 7.3)


def test_patience_is_a_share_of_the_steps_and_all_of_it_asks_nothing():
    hasty, endless = (StopsDiverging(entropy=7.0, warmup=0.1, patience=patience) for patience in (0.5, 1.0))
    for step in range(10, 6000, 10):
        log(hasty, step, 7.3)
    with pytest.raises(Diverged, match="at step 6000"):
        log(hasty, 6000, 7.3)
    for step in range(10, 10_010, 10):
        log(endless, step, 7.3)
    # A rise is stopped all the same.
    for step in range(10, 200, 10):
        log(endless, step, 8.5)
    with pytest.raises(Diverged, match="a rise of more than a nat"):
        log(endless, 9000, 8.5)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_stopped_at(loss):
    watch = StopsDiverging(entropy=7.0, warmup=0.0)
    with pytest.raises(Diverged, match="a loss that is no number at step 10 "):
        log(watch, 10, loss)


def test_a_run_that_goes_on_remembers_its_best():
    resumed = StopsDiverging(entropy=7.0, warmup=0.0)
    state = TrainerState(global_step=3000, max_steps=10_000)
    state.log_history = [{"loss": 4.0, "step": step} for step in range(10, 3000, 10)] + [{"eval_mlm_loss": 4.0}]
    resumed.on_train_begin(None, state, TrainerControl())
    for step in range(3010, 3090, 10):
        log(resumed, step, 6.5)
    with pytest.raises(Diverged, match="above 4.0"):
        log(resumed, 3090, 6.5)


def test_a_run_that_falls_back_is_stopped():
    falls = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 3000, 10):
        log(falls, step, 4.0)
    # A single bad batch is none.
    log(falls, 3000, 9.0)

    def falls_back():
        for step in range(3010, 3400, 10):
            log(falls, step, 6.5)

    with pytest.raises(Diverged, match="a rise of more than a nat above 4.0"):
        falls_back()


@pytest.mark.slow
def test_a_stopped_run_keeps_its_checkpoints(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.pretraining.trainer._LEAST_STEPS", 1)
    monkeypatch.setattr("hf_albert_plus.pretraining.trainer._WINDOW", 2)
    settings = PretrainSettings(**{**SETTINGS, "epochs": 2, "batch_size": 2, "learning_rate": 1e-9, "patience": 0.3})
    with pytest.raises(Diverged, match="frequencies of words"):
        pretrain(corpus, config=CONFIG, output=tmp_path / "out", settings=settings, checkpoint_seconds=0)
    assert list((tmp_path / "out.partial" / "checkpoints").glob("checkpoint-*/complete"))
    assert not (tmp_path / "out").exists()
