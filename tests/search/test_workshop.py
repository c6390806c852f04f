"""How candidates learn, told by what a distillation is asked for."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from hf_albert_plus.compression.importance import Site
from hf_albert_plus.configuration_albert_plus import DROPOUTS
from hf_albert_plus.search import workshop
from hf_albert_plus.search.passes import Passes
from hf_albert_plus.search.settings import CompressSettings
from hf_albert_plus.search.shapes import Slimmed
from hf_albert_plus.search.workshop import Workshop
from hf_albert_plus.tasks.glue import get_task


@pytest.fixture
def shop(tmp_path):
    whole, task = tmp_path / "whole", get_task("mrpc")
    rows = SimpleNamespace(data=tmp_path / "rows", task=task)
    settings = CompressSettings(jobs=2)
    return Workshop(
        tmp_path / "teacher", whole, whole, "data", task, rows, 6, 384, Passes(4.0, 4.0), tmp_path, settings, 1
    )


def test_what_the_teacher_was_ranked_by_is_read_by_the_next_process(shop, monkeypatch):
    """And what is timed alone asks for no looks at the layers."""
    given = []

    def prune(model, *, output, settings, ranking, **named):
        given.append((settings.depth, settings.examples, list(ranking.gone), dict(ranking.known)))
        ranking.gone = [4, 2, 0]
        ranking.known = {Site("attention", 0): torch.tensor([1.0, 2.0]), Site("ffn", 3, 1): torch.tensor([0.5])}
        return SimpleNamespace(stage="prune", seconds=1.0)

    monkeypatch.setattr(workshop, "prune", prune)
    shop.cut_to_be_timed(Slimmed(2, 1.0))
    shop.start(Slimmed(3, 0.5))
    replace(shop, records=[]).start(Slimmed(4, 0.4))
    timed, first, second = given
    assert timed == (2, 32, [5, 4, 3, 2, 1, 0], {})
    assert first == (3, 512, [], {})
    assert second[:3] == (4, 512, [4, 2, 0])
    assert {site: scores.tolist() for site, scores in second[3].items()} == {
        Site("attention", 0): [1.0, 2.0],
        Site("ffn", 3, 1): [0.5],
    }


def test_what_jobs_saved_is_kept_for_a_search_that_goes_on(shop, monkeypatch):
    shapes = [Slimmed(4, 0.5), Slimmed(3, 0.7)]

    def begin(shape):
        record = SimpleNamespace(stage="distill", seconds=100.0, finished="9999", shape=shape.name)
        if not any(each.shape == shape.name for each in shop.records):
            shop.records.append(record)

    monkeypatch.setattr(workshop, "run_side_by_side", lambda *given, **named: 120.0)
    shop.ahead(begin, shapes)
    assert shop.spent_s == pytest.approx(120.0)
    # The same command again finds them done, in less than no time.
    again = replace(
        shop, records=[SimpleNamespace(**{**vars(each), "finished": "0000"}) for each in shop.records], saved_s=[]
    )
    monkeypatch.setattr(workshop, "run_side_by_side", lambda *given, **named: 0.1)
    again.ahead(lambda shape: None, shapes[::-1])
    assert again.spent_s == pytest.approx(120.0)


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
