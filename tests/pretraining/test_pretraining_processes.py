"""Pretraining on several processes, with whole weights and with shards, against one: real processes that talk over gloo."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.utils.other import get_free_port
from safetensors.torch import load_file

from hf_albert_plus.records.record import read_record
from tests.support.command_line import invoke
from tests.support.pretraining import words
from tests.support.processes import running

pytestmark = pytest.mark.slow

PLAIN = ("--set", "hidden_dropout_prob=0", "--accumulate", 2, "--epochs", 1)
EXAMPLES = Path(__file__).parents[2] / "examples"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def one_process(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "encoder"
    invoke(*words(corpus, out, *PLAIN))
    return out


def check_as_one_process(two: Path, one: Path):
    one_result, result = (read_record(path).result for path in (one, two))
    assert (one_result["processes"], result["processes"]) == (1, 2)
    assert one_result["steps"] == result["steps"]
    for scores, others in zip(one_result["held_out"], result["held_out"], strict=True):
        assert others["masked_tokens"] == scores["masked_tokens"]
        assert others["mlm_loss"] == pytest.approx(scores["mlm_loss"], rel=1e-3)
    weights, others = (load_file(path / "model.safetensors") for path in (one, two))
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(others[name], weight, atol=2e-3, rtol=0)


def both(variable: str) -> str:
    """Shell that starts its arguments twice, VARIABLE 0 and 1, and fails if either fails."""
    return (
        f'for index in 0 1; do {variable}=$index "$@" & started+=($!); done\n'
        'for process in "${started[@]}"; do wait "$process" || exit; done'
    )


@pytest.mark.pages
def test_the_kubernetes_example_trains_in_two_pods(corpus, one_process, tmp_path):
    """Its own command line and torchrun's agents; the Job's controller is played by a line of shell that starts both pods here."""
    _, job = yaml.safe_load_all((EXAMPLES / "kubernetes" / "pretrain.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    here = {"NODES": "2", "PROCESSES": "1", "ENDPOINT": f"127.0.0.1:{get_free_port()}", "POD_IP": "127.0.0.1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # fmt: skip
    pretrain_options = [str(word) for word in words(corpus, tmp_path / "two", *PLAIN)][1:]
    two = subprocess.run(
        ["bash", "-c", both("JOB_COMPLETION_INDEX"), "pods", *container["command"], *pretrain_options],
        env={**ONE_THREAD, **given, **here}, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert two.returncode == 0, two.stderr[-3000:]
    check_as_one_process(tmp_path / "two", one_process)


# accelerate shards over GPUs alone, and over none says nothing: here its state is told that two processes without one do.
SHARDING = """
import sys
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from hf_albert_plus.pretraining import stage, trainer

plain = AcceleratorState.__init__
def sharding(self, *given, **options):
    plain(self, *given, **options)
    plugin = options.get("fsdp_plugin") or self.__dict__.get("fsdp_plugin")
    if plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin
AcceleratorState.__init__ = sharding
score = trainer.PretrainTrainer.evaluate
def evaluate(self, **options):
    from torch.distributed.tensor import DTensor
    assert all(isinstance(weight, DTensor) for weight in self.model.parameters())
    return score(self, **options)
trainer.PretrainTrainer.evaluate = evaluate
run_trainer = stage.run_trainer
stage.run_trainer = lambda trainer, **options: run_trainer(trainer, **{**options, "checkpoint_seconds": 0})
from hf_albert_plus.cli import main
main()
"""


def test_shards_of_weights_do_what_one_process_does_killed_and_resumed(corpus, one_process, tmp_path):
    """FSDP over two real gloo processes, which save their shards at every tenth step."""
    script, out = tmp_path / "sharding.py", tmp_path / "two"
    script.write_text(SHARDING)
    launch = ("-m", "accelerate.commands.launch", "--config_file", str(EXAMPLES / "accelerate" / "fsdp.yaml"),
              "--num_processes", "2", "--main_process_port", "0")  # fmt: skip
    command = [sys.executable, *launch, str(script), *map(str, words(corpus, out, *PLAIN))]
    with running(command, env=ONE_THREAD, stderr=subprocess.DEVNULL) as launcher:
        while not list(tmp_path.glob("two.partial/checkpoints/checkpoint-*/complete")):
            assert launcher.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
    again = subprocess.run(command, env=ONE_THREAD, capture_output=True, text=True, timeout=250)
    assert again.returncode == 0, again.stderr[-3000:]
    assert read_record(out).result["resumed_at_step"] >= 10
    check_as_one_process(out, one_process)


@pytest.mark.pages
def test_the_slurm_example_trains_on_two_nodes(corpus, one_process, tmp_path):
    """Its own accelerate and processes; SLURM is played by three lines of shell that start both nodes here."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        "srun": both("SLURM_NODEID"),
        "scontrol": "echo 127.0.0.1; echo other",
        "accelerate": f'exec {sys.executable} -m accelerate.commands.accelerate_cli "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    slurm = {"SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "1", "SLURM_JOB_NODELIST": "node[1-2]",
             "SLURM_JOB_ID": str(os.getpid())}  # fmt: skip
    pretrain_options = [str(word) for word in words(corpus, tmp_path / "two", *PLAIN)][1:]
    two = subprocess.run(
        ["bash", "examples/pretrain.slurm", *pretrain_options], cwd=EXAMPLES.parent,
        env={**ONE_THREAD, **slurm, "PATH": f"{programs}:{os.environ['PATH']}"}, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert two.returncode == 0, two.stderr[-3000:]
    check_as_one_process(tmp_path / "two", one_process)
