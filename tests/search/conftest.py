"""Searches whose candidates are planted."""

from types import SimpleNamespace

import pytest

from hf_albert_plus.search.hunt import Hunt
from hf_albert_plus.search.settings import CompressSettings
from tests.support.planted_search import CONFIG, EXITS, PlantedShop


@pytest.fixture
def hunt(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.search.ledger.load_config", lambda *given, **named: CONFIG)
    monkeypatch.setattr("hf_albert_plus.search.leaving_early.logits_scorer_for", lambda *given: None)
    for module in ("ledger", "learning"):
        monkeypatch.setattr(f"hf_albert_plus.search.{module}.answers_of", lambda scores, task: scores.answers)
    for module in ("ledger", "learning", "hunt"):
        monkeypatch.setattr(f"hf_albert_plus.search.{module}.score_of", lambda scores, metric: scores.score)

    def make(time_budget=1e9, done=None, lost=None, exits_gain=EXITS, alone=1.0, broken="", trims=False, first=0.4, again=0.0, show=lambda hunt: None, **asked):  # fmt: skip
        settings = CompressSettings(**asked)
        made = {} if done is None else done
        shop = PlantedShop(
            tmp_path / "trials",
            settings,
            lost or {},
            exits_gain,
            alone,
            broken,
            first=first,
            trims=trims,
            again=again,
            done=made,
        )
        teacher = shop.score(SimpleNamespace(directory=shop.out / "teacher" / "torch"), tmp_path / "teacher-scores")
        found = Hunt(shop, settings.budget, time_budget, teacher, show=show)
        found.run()
        return found

    return make
