"""Numbers of settings: none that is no number, none below what means something, none that no machine computes with."""

import math
import re
from dataclasses import fields

import pytest

from hf_albert_plus.compression.settings import CalibrateSettings, PruneSettings, QatSettings, SparsifySettings
from hf_albert_plus.distillation.settings import DistilSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.text.settings import CorpusSettings
from hf_albert_plus.training.settings import TrainSettings

TRAINED = {"epochs": 1, "batch_size": 32}
KINDS = {
    TrainSettings: TRAINED, PretrainSettings: TRAINED, QatSettings: {**TRAINED, "bits": (2, 4), "budget": 5.0}, PruneSettings: TRAINED,
    SparsifySettings: TRAINED, CalibrateSettings: {}, CorpusSettings: {},
}  # fmt: skip
NUMBERS = [
    (kind, field.name)
    for kind, given in KINDS.items()
    for field in fields(kind)
    if field.type in (float, int, float | None, int | None)
]

# Whatever there are may be asked for.
WITHOUT_END = ("examples", "cap", "groups", "accumulate", "copies")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, 1e300], ids=str)
@pytest.mark.parametrize(("kind", "name"), NUMBERS, ids=lambda part: getattr(part, "__name__", part))
def test_what_no_setting_means_is_refused(kind, name, value):
    if value in (1e300, math.inf) and name in WITHOUT_END:
        value = 0
    with pytest.raises(InvalidInput, match=f"--{name.replace('_', '-')} .*{re.escape(str(value))}"):
        kind(**{**KINDS[kind], name: value})


def test_of_phases():
    for name in ("epochs", "learning_rate"):
        for value in (math.nan, math.inf, 1e300, -1):
            with pytest.raises(InvalidInput, match=f"--{name.replace('_', '-')} must be"):
                DistilSettings("kd", **{name: value})


def test_numbers_that_mean_something_pass():
    TrainSettings(1e-3, 1, weight_decay=0, seed=0, max_length=4)
    TrainSettings(1_000_000, 1 << 24, weight_decay=0.99, seed=2**32 - 1, max_length=1 << 20)
