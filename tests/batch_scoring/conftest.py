"""What tests of files of texts share."""

from contextlib import nullcontext

import pytest

from hf_albert_plus.batch_scoring import stage
from tests.support.parts import answer_parts_here


@pytest.fixture
def in_this_process(monkeypatch):
    """Parts are answered one after the other in this process."""
    monkeypatch.setattr(stage, "cluster", lambda pool: nullcontext(pool))
    monkeypatch.setattr(stage, "score_parts", answer_parts_here)
