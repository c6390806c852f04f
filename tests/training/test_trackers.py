"""Trainings draw their losses where they are told to and nowhere else, and one that was killed goes on in the run that it began."""

import importlib
import sys
from importlib.util import find_spec

import pytest

from hf_albert_plus.cli.settings import RunSettings
from hf_albert_plus.compression.quantisation.stage import qat
from hf_albert_plus.compression.settings import PruneSettings, QatSettings, SparsifySettings
from hf_albert_plus.compression.sparsity import sparsify
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.search.passes import Passes
from hf_albert_plus.search.set_aside import set_aside
from hf_albert_plus.search.settings import CompressSettings
from hf_albert_plus.search.shapes import Slimmed
from hf_albert_plus.search.workshop import Workshop
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training import loop
from hf_albert_plus.training import settings as training_settings
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.event_files import curves_in
from tests.support.stopped_runs import Stops

QUICK = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "max_length": 32, "precision": "fp32"}
DRAWN = {**QUICK, "report_to": ("tensorboard",)}
# Six steps, each of them logged.
SHORT = {**DRAWN, "epochs": 0.5}


@pytest.fixture
def fine_tune(encoder_dir, data_dir):
    def run(out, **given):
        settings = TrainSettings(**{**QUICK, **given})
        return finetune(str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=out, settings=settings)

    return run


@pytest.mark.slow
def test_the_losses_of_a_fine_tuning_are_drawn(fine_tune, tmp_path):
    record = fine_tune(tmp_path / "out", **DRAWN)
    losses = curves_in(tmp_path / "out" / "runs")["train/loss"]
    assert list(losses) == [10, 20]
    assert sum(losses.values()) / 2 == pytest.approx(record.result["train_loss"], abs=1e-5)
    assert "report_to" not in record.settings
    assert any(name.startswith("runs/") for name in record.files)


@pytest.mark.slow
def test_nothing_is_drawn_unasked(fine_tune, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "elsewhere"))
    fine_tune(tmp_path / "out", epochs=0.2)
    assert not (tmp_path / "out" / "runs").exists()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_a_killed_training_goes_on_in_its_run(fine_tune, tmp_path, monkeypatch):
    """A step that was taken again is drawn once, as in a run that was never stopped."""
    fine_tune(tmp_path / "whole", **SHORT)
    monkeypatch.setattr(loop, "Checkpoints", Stops)
    monkeypatch.setattr(Stops, "steps", [3])
    with pytest.raises(KeyboardInterrupt):
        fine_tune(tmp_path / "out", **SHORT)
    begun = tmp_path / "out.partial" / "checkpoints" / "runs"
    assert list(curves_in(begun)["train/loss"]) == [1, 2, 3]
    fine_tune(tmp_path / "out", **SHORT)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 2
    resumed, whole = (curves_in(tmp_path / name / "runs")["train/loss"] for name in ("out", "whole"))
    assert resumed == pytest.approx(whole)


@pytest.mark.slow
def test_steps_that_are_taken_again_are_purged(fine_tune, tmp_path, monkeypatch):
    """Without a checkpoint a training begins again, and so does its run."""

    class Dies(Stops):
        def on_step_end(self, args, state, control, **kwargs):
            if self.steps and state.global_step > self.steps[0]:
                self.steps.pop(0)
                raise KeyboardInterrupt

    monkeypatch.setattr(loop, "Checkpoints", Dies)
    monkeypatch.setattr(Stops, "steps", [3])
    with pytest.raises(KeyboardInterrupt):
        fine_tune(tmp_path / "out", **SHORT)
    fine_tune(tmp_path / "out", **SHORT)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 2
    assert list(curves_in(tmp_path / "out" / "runs")["train/loss"]) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_every_phase_of_a_distillation_has_its_run_and_terms(teachers, data_dir, tmp_path):
    how = DistilSettings("tinybert", StudentSettings("half"), values=(("general_epochs", 0),), epochs=1)
    record = distill(
        str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "out",
        settings=TrainSettings(**DRAWN), method=how,
    )  # fmt: skip
    assert {path.name for path in (tmp_path / "out" / "runs").iterdir()} == {"0-intermediate", "1-prediction"}
    drawn = curves_in(tmp_path / "out" / "runs" / "0-intermediate")
    terms = record.result["phases"]["intermediate"]["losses"]
    assert {f"train/loss_{name}" for name in terms} <= set(drawn)
    for name, value in terms.items():
        assert list(drawn[f"train/loss_{name}"].values())[-1] == pytest.approx(value, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "kind"), [(qat, QatSettings), (sparsify, SparsifySettings)])
def test_trainings_that_compress_draw_too(stage, kind, teachers, data_dir, tmp_path):
    settings = kind(**{**DRAWN, "epochs": 0.5})
    stage(str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "out", settings=settings)
    assert curves_in(tmp_path / "out" / "runs")["train/loss"]


@pytest.mark.slow
def test_every_candidate_of_a_search_has_its_run(teachers, data_dir, tmp_path):
    task, out = get_task("sst2"), tmp_path / "trials"
    rows, _ = set_aside(str(data_dir), task=task, output=tmp_path / "rows", seed=0)
    settings = CompressSettings(max_length=32, precision="fp32", report_to=("tensorboard",))
    whole = tmp_path / "whole"
    convert(str(teachers / "sst2"), output=whole)
    shop = Workshop(
        teacher=whole, whole=whole, guide=whole, data=str(data_dir), task=task, rows=rows, depth=4, width=32, passes=Passes(4.0, 4.0), out=out, settings=settings, threads=1,
    )  # fmt: skip
    shapes = [Slimmed(layers, 1.0) for layers in (1, 2)]
    for shape in shapes:
        shop.begin(shape)
    shop.finish(shapes[0])
    runs = {path.parent.relative_to(out) for path in out.rglob("*tfevents*")}
    parts = [(shapes[0], "begun"), (shapes[0], "taught"), (shapes[1], "begun")]
    assert {tuple(path.parts[:3]) for path in runs} == {(shape.name, part, "runs") for shape, part in parts}
    assert all(curves_in(out / path)["train/loss"] for path in runs)


def test_a_run_hands_it_to_both_trainings_and_to_its_search():
    settings = RunSettings(report_to=("tensorboard",))
    assert settings.search().report_to == ("tensorboard",)
    assert settings.training(get_task("sst2")).report_to == ("tensorboard",)


@pytest.mark.parametrize("make", [lambda name: TrainSettings(**QUICK, report_to=(name,)), lambda name: RunSettings(report_to=(name,))])  # fmt: skip
def test_another_name_is_refused(make):
    with pytest.raises(InvalidInput, match=r"--report-to must be one of tensorboard, wandb, mlflow, got 'tensorbord'; did you mean 'tensorboard'"):  # fmt: skip
        make("tensorbord")


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboard"), ("wandb", "wandb"), ("mlflow", "mlflow")]
)
def test_a_package_that_is_missing_is_named(name, package, monkeypatch):
    monkeypatch.setattr(training_settings, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=rf"--report-to {name} needs the package {package}.*pip install {package}$"):
        TrainSettings(**QUICK, report_to=(name,))


@pytest.mark.skipif(find_spec("mlflow") is not None, reason="mlflow is installed")
def test_the_command_line_says_it_before_anything_is_read(tmp_path):
    with pytest.raises(InvalidInput, match="pip install mlflow"):
        invoke(
            "finetune", "--model", "nowhere", "--data", "nowhere", "--out", tmp_path / "out", "--report-to", "mlflow"
        )


def test_importance_that_trains_nothing_draws_nothing():
    with pytest.raises(InvalidInput, match="--report-to is for --importance movement"):
        PruneSettings(**DRAWN)
    assert PruneSettings(**DRAWN, importance="movement").report_to == ("tensorboard",)


WANDB = """
import sys, types
from contextlib import contextmanager

class Error(Exception): ...
begun, run, logged, ended = [], None, [], []
class Config(dict):
    def update(self, values, allow_val_change=False): super().update(values)
config = Config()

class Run:
    id, name = "1", "a run"
    summary = {}
    def _label(self, **given): ...
    def finish(self, exit_code=0):
        global run
        ended.append(exit_code)
        run = None

def init(**given):
    global run
    if begun is None: raise Error("no key")
    begun.append(given)
    run = Run()
    return run

def log(values, **given): logged.append(values)
def define_metric(*names, **given): ...
def watch(*models, **given): ...
for name in ("wandb.sdk", "wandb.sdk.lib", "wandb.sdk.lib.config_util"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["wandb.sdk.lib.config_util"].ConfigError = Error
"""
MLFLOW = """
from types import SimpleNamespace as Some
__version__ = "3.0"
class MlflowException(Exception): ...
utils = Some(validation=Some(MAX_PARAM_VAL_LENGTH=6000, MAX_PARAMS_TAGS_PER_BATCH=100))
begun, ended, logged, active = [], [], [], None

def start_run(run_id=None, run_name=None, nested=False):
    global active
    if run_id == "gone": raise MlflowException("no such run")
    begun.append(run_id)
    active = Some(info=Some(run_id=run_id or f"made-{len(begun)}"))
    return active

def end_run(status="FINISHED"):
    global active
    ended.append(status)
    active = None

def active_run(): return active
def is_tracking_uri_set(): return True
def get_tracking_uri(): return ""
def log_params(values, **given): ...
def log_metrics(metrics, step, **given): logged.append((step, metrics))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Makes a package of that name importable, which keeps what it is told."""

    def make(name, source):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path / "packages")
        for known in [each for each in sys.modules if each.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, known)
        module = importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


def stopped_and_resumed(fine_tune, tmp_path, monkeypatch, name):
    monkeypatch.setattr(loop, "Checkpoints", Stops)
    monkeypatch.setattr(Stops, "steps", [3])
    for variable in ("WANDB_RUN_ID", "WANDB_PROJECT", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(variable, raising=False)
    given = {**SHORT, "report_to": (name,)}
    with pytest.raises(KeyboardInterrupt):
        fine_tune(tmp_path / "out", **given)
    return fine_tune(tmp_path / "out", **given)


@pytest.mark.slow
def test_wandb_goes_on_in_the_run_of_that_id(fine_tune, tmp_path, monkeypatch, stand_in):
    wandb = stand_in("wandb", WANDB)
    stopped_and_resumed(fine_tune, tmp_path, monkeypatch, "wandb")
    first, second = wandb.begun
    assert first == second
    assert {"name": "fine-tune sst2", "resume": "allow", "project": "huggingface"}.items() <= first.items()
    assert wandb.ended == [1, 0]
    assert [entry["train/global_step"] for entry in wandb.logged if "train/loss" in entry] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_mlflow_goes_on_in_the_run_of_that_id(fine_tune, tmp_path, monkeypatch, stand_in):
    mlflow = stand_in("mlflow", MLFLOW)
    stopped_and_resumed(fine_tune, tmp_path, monkeypatch, "mlflow")
    assert mlflow.begun == [None, "made-1"]
    assert mlflow.ended == ["FAILED", "FINISHED"]
    assert [step for step, metrics in mlflow.logged if "loss" in metrics] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_cannot_begin_says_how_it_can(fine_tune, tmp_path, monkeypatch, stand_in):
    stand_in("mlflow", MLFLOW)
    monkeypatch.setenv("MLFLOW_RUN_ID", "gone")
    with pytest.raises(InvalidInput, match=r"--report-to mlflow must be able to begin a run, got no such run; set MLFLOW_TRACKING_URI"):  # fmt: skip
        fine_tune(tmp_path / "out", report_to=("mlflow",))
