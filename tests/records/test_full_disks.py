"""A disk that is full in the midst of the work ends it with a sentence. Nothing finished is lost, and with room the same command goes on."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest
from safetensors import SafetensorError

from hf_albert_plus.cli.failures import as_known
from hf_albert_plus.demo import data
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.export.stage import export
from hf_albert_plus.records.files import late_errors, write_json
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.text.corpus import build_corpus
from hf_albert_plus.text.settings import CorpusSettings, TokenizerSettings
from hf_albert_plus.text.tokenizers import train_tokenizer
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings

QUICK = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")


@contextmanager
def room_for(size):
    """No file may be larger: the next write to it fails as on a full disk, but for the number of the error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def check_ends_with_a_sentence(run, size):
    with room_for(size), pytest.raises(Exception) as caught:  # noqa: PT011 (each library has its own)
        run()
    said = as_known(caught.value)
    assert said is not None, repr(caught.value)
    assert any(rule in str(said) for rule in ("files must not be larger than the system", "the disk must have room")), (
        said
    )


@pytest.fixture
def fine_tuning(encoder_dir, data_dir):
    def run(out):
        return finetune(
            str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=out, settings=QUICK, checkpoint_seconds=0
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_while_checkpoints_are_written(fine_tuning, tmp_path):
    """Weights fit, and the optimizer's means, twice as large, do not."""
    whole = fine_tuning(tmp_path / "whole")
    size = whole.files["model.safetensors"]["bytes"]
    for less in (0.5, 1.5):
        check_ends_with_a_sentence(lambda: fine_tuning(tmp_path / "out"), int(less * size))
    assert not (tmp_path / "out").exists()
    assert fine_tuning(tmp_path / "out").files == whole.files


@pytest.mark.slow
def test_finished_checkpoints_stay(fine_tuning, tmp_path, monkeypatch):
    from hf_albert_plus.training import callbacks

    whole, saved = fine_tuning(tmp_path / "whole"), []
    keep = callbacks.Checkpoints.keep_newest

    def full_at_the_fourth(self, args, state):
        keep(self, args, state)
        saved.append(state.global_step)
        if saved == [1, 2, 3]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    with monkeypatch.context() as patched:
        patched.setattr(callbacks.Checkpoints, "keep_newest", full_at_the_fourth)
        check_ends_with_a_sentence(lambda: fine_tuning(tmp_path / "out"), resource.RLIM_INFINITY)
    record = fine_tuning(tmp_path / "out")
    assert record.result["resumed_at_step"] == 3
    assert record.files == whole.files


@pytest.mark.slow
def test_while_the_phases_of_a_distillation_are_kept(teachers, data_dir, tmp_path):
    def run(out):
        how = DistilSettings("kd", StudentSettings("half"), epochs=0.5)
        return distill(str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=out, settings=QUICK, method=how)  # fmt: skip

    whole = run(tmp_path / "whole")
    for size in (600, whole.files["model.safetensors"]["bytes"] // 2):
        check_ends_with_a_sentence(lambda: run(tmp_path / "out"), size)
    assert run(tmp_path / "out").files == whole.files


def test_while_a_corpus_is_built(text, tokenizer_dir, tmp_path):
    def run(out):
        return build_corpus([str(text)], tokenizer=str(tokenizer_dir), output=out, settings=CorpusSettings(max_length=32, held_out=0.3), workers=1)  # fmt: skip

    whole = run(tmp_path / "whole")
    for size in (1000, 4000, whole.files["train/00000.arrow"]["bytes"] - 1):
        check_ends_with_a_sentence(lambda: run(tmp_path / "out"), size)
    assert run(tmp_path / "out").files == whole.files


def test_while_a_tokenizer_is_written(text, tmp_path):
    settings = TokenizerSettings(vocab_size=80)
    check_ends_with_a_sentence(lambda: train_tokenizer([str(text)], output=tmp_path / "out", settings=settings), 1000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1_000, 50_000])
def test_while_exports_are_written(classifier_dir, tmp_path, size):
    check_ends_with_a_sentence(lambda: export(classifier_dir, to=["onnx"], output=tmp_path / "out"), size)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [100, 5000])
def test_while_parquet_is_written(tmp_path, size, monkeypatch):
    """Its writer would end the process: this one has to live."""
    monkeypatch.setitem(data.SIZES, "train", 5000)
    check_ends_with_a_sentence(lambda: data.write_task(tmp_path, "sst2", seed=0), size)


def test_late_errors_are_those_of_the_first_write(tmp_path):
    def write_three(stream):
        with late_errors(stream) as late:
            assert [late.write(data) for data in (b"x" * 10, b"y", b"z")] == [10, 1, 1]

    with (tmp_path / "x").open("wb", buffering=0) as file, room_for(10), pytest.raises(OSError, match="File too large"):
        write_three(file)
    assert (tmp_path / "x").read_bytes() == b"x" * 10


def test_no_half_of_a_file_is_left(tmp_path):
    check_ends_with_a_sentence(lambda: write_json(tmp_path / "scores.json", list(range(10_000))), 1000)
    assert list(tmp_path.iterdir()) == []


INVALID_PROTOBUF = type("InvalidProtobuf", (Exception,), {})


@pytest.mark.parametrize(
    "error",
    [
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        Exception("No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
        RuntimeError("[enforce fail at inline_container.cc:858] . PytorchStreamWriter failed writing file data/0: file write failed"),
        RuntimeError("basic_ios::clear: iostream error"),
        INVALID_PROTOBUF("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Protobuf serialization failed."),
        OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device"),
    ],
)  # fmt: skip
def test_what_libraries_raise_on_a_full_disk(error):
    assert "the disk must have room for what is written" in str(as_known(error))
    assert "free some space and give the same command again, and it goes on" in str(as_known(error))
    outer = ValueError("a library's own words")
    outer.__cause__ = error
    assert "the disk must have room" in str(as_known(outer))


def test_other_faults_with_the_same_words_around_are_ours():
    assert as_known(RuntimeError("PytorchStreamReader failed reading zip archive: inline_container.cc")) is None
    assert as_known(ValueError("no such name")) is None
    outer = ValueError("x")
    outer.__cause__ = FileNotFoundError(2, "no such file")
    assert as_known(outer) is None


@pytest.mark.slow
def test_a_command_ends_with_2(tmp_path):
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "from hf_albert_plus.cli import main; main()"
    )
    words = ["demo", "--out", str(tmp_path / "demo"), "--stop-after", "data"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 2
    assert "error: files must not be larger than the system allows, got" in done.stderr
    assert "Traceback" not in done.stderr
