"""How candidates learn, told by what a distillation is asked for."""

from types import SimpleNamespace

import pytest

from hf_albert_plus.configuration_albert_plus import DROPOUTS
from hf_albert_plus.search import workshop
from hf_albert_plus.search.passes import Passes
from hf_albert_plus.search.settings import CompressSettings
from hf_albert_plus.search.shapes import Slimmed
from hf_albert_plus.search.workshop import Workshop
from hf_albert_plus.tasks.glue import get_task


@pytest.mark.parametrize(
    ("given", "width", "rate"), [(None, 384, 3e-4), (None, 312, 3e-4), (None, 768, 1.5e-4), (1e-4, 768, 1e-4)]
)
def test_candidates_learn_without_dropout_a_quarter_and_then_the_rest(given, width, rate, tmp_path, monkeypatch):
    asked = []

    def distil(teacher, **how):
        asked.append((teacher, how["method"], how["output"].name))
        return SimpleNamespace(stage="distill", seconds=1.0)

    monkeypatch.setattr(workshop, "distill", distil)
    task, whole = get_task("mrpc"), tmp_path / "whole"
    rows = SimpleNamespace(data=tmp_path / "rows", task=task)
    settings = CompressSettings(learning_rate=given)
    shop = Workshop(
        tmp_path / "teacher", whole, whole, "data", task, rows, 4, width, Passes(4.0, 4.0), tmp_path, settings, 1
    )
    shape = Slimmed(4, 1.0)
    assert shop.finish(shape) == tmp_path / shape.name / "taught"
    shop.begin(shape)
    for teacher, method, _ in asked:
        assert teacher == str(whole)
        assert dict(method.student.overrides) == dict.fromkeys(DROPOUTS, 0.0)
        assert (method.method, method.learning_rate) == ("kd-hidden", pytest.approx(rate))
    assert {name: (method.epochs, method.student.student) for _, method, name in asked} == {
        "begun": (1.0, str(whole)),
        "taught": (3.0, str(tmp_path / shape.name / "begun")),
    }
