"""What tests of files of texts share."""

from contextlib import nullcontext

import pytest

from hf_albert_plus.batch_scoring import stage
from hf_albert_plus.batch_scoring.distribution import WorkerPool
from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.batch_scoring.stage import score
from tests.support.parts import answer_parts_here


@pytest.fixture
def in_this_process(monkeypatch):
    """Parts are answered one after the other in this process."""
    monkeypatch.setattr(stage, "cluster", lambda pool: nullcontext(pool))
    monkeypatch.setattr(stage, "score_parts", answer_parts_here)


@pytest.fixture
def run(exported_dir, tmp_path, monkeypatch):
    """Scores files of the working directory into `out`."""
    monkeypatch.chdir(tmp_path)

    def run(*inputs, engine=exported_dir, runtime="onnx", output="out", **settings):
        settings = ScoreSettings(**settings)
        return score(
            inputs, engine=engine, runtime=runtime, output=tmp_path / output, settings=settings, pool=WorkerPool()
        )

    return run
