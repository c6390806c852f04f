"""Searches whose candidates are planted."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from hf_albert_plus.search.hunt import Hunt
from hf_albert_plus.search.settings import CompressSettings
from tests.support.planted_search import CONFIG, PlantedShop, PlantedTime


@pytest.fixture
def hunt(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.search.ledger.load_config", lambda *given, **named: CONFIG)
    monkeypatch.setattr("hf_albert_plus.search.leaving_early.logits_scorer_for", lambda *given: None)
    for module in ("ledger", "learning"):
        monkeypatch.setattr(f"hf_albert_plus.search.{module}.answers_of", lambda scores, task: scores.answers)
    for module in ("ledger", "learning", "hunt"):
        monkeypatch.setattr(f"hf_albert_plus.search.{module}.score_of", lambda scores, metric: scores.score)

    monkeypatch.setattr("hf_albert_plus.search.taken_up.datetime", PlantedTime)

    planted = {each.name for each in fields(PlantedShop)} - {"out", "settings"}
    folders = {}  # of what was done: a search that is given that goes on in its folder

    def make(time_budget=1e9, show=lambda hunt: None, **given):
        folder = folders.get(id(given.get("done")), tmp_path / str(len(folders)))
        folder.mkdir(exist_ok=True)
        of_shop = {name: given.pop(name) for name in planted & given.keys()}
        settings = CompressSettings(**given)
        shop = PlantedShop(folder / "trials", settings, **of_shop)
        folders[id(shop.done)] = folder
        teacher = shop.score(SimpleNamespace(directory=shop.out / "teacher" / "torch"), folder / "teacher-scores")
        found = Hunt(shop, settings.budget, time_budget, teacher, show=show)
        found.run()
        return found

    return make
