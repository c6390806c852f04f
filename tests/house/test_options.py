"""Each setting is declared once, in its settings class: the options of every verb are what the classes say."""

import inspect
from dataclasses import MISSING, fields
from typing import Annotated, Literal, get_args, get_origin

import pytest

from hf_albert_plus.cli.settings_options import Fields, setting_options, settings_of, with_settings
from hf_albert_plus.option import PythonOnly
from tests.support.command_line import commands

COMMANDS = commands()
VERBS = {name: settings_of(command.callback) for name, command in COMMANDS.items()}
CLASSES = {kind for pairs in VERBS.values() for kind, _ in pairs}
# Options that are called like a setting and are something else: a verb's own, which no settings class has.
OWN = {
    "bench pretrain": {
        "batch_size": "of one timed step, without a training around it",
        "seconds": "a step takes longer than a batch of sentences",
        "precision": "of one timed step",
    },
    "demo": {"seed": "of data, too"},
    "score": {
        "cores": "of a worker, which a cluster has its own default for",
        "address": "of a cluster that scores, and without --jobs",
    },
    "serve": {"address": "of a cluster that serves"},
    "card": {"language": "of the texts that a model reads, as the Hub has it"},
    "push": {"language": "of the texts that a model reads, as the Hub has it"},
    "convert": {"initialise": "another start than a student's: one of the three ways in which layers become one"},
}
OWN["bench-pretrain"] = OWN["bench pretrain"]
OWN["embed"] = OWN["score"]
for _member in ("targets", "peers", "passes", "self-check", "cuda"):
    OWN[f"bench {_member}"] = {"shapes": "of one timing, other ones than those of a whole run"}
# Names of data and models, which are where a verb reads and not how it works.
PLACES = {"data", "task", "text", "texts", "student"}


def test_the_verbs_take_settings():
    assert len(CLASSES) >= 14
    without = {name for name, pairs in VERBS.items() if not pairs}
    assert without <= {"demo", "variants", "convert", "report", "card", "push", "tokenizer import"} | {
        name for name in VERBS if name.startswith("bench")
    }


@pytest.mark.parametrize("verb", VERBS)
def test_each_field_of_a_verbs_settings_is_its_option(verb):
    """Name, type and default are the field's, and there is help; a field without an option is said to have none."""
    command = COMMANDS[verb]
    parameters = {parameter.name: parameter for parameter in command.params}
    annotations = {
        name: parameter.annotation for name, parameter in inspect.signature(command.callback).parameters.items()
    }
    for kind, chosen in VERBS[verb]:
        options = {option.name: option for option in setting_options(kind, chosen)}
        for field in fields(kind):
            if field.name not in options:
                left_out = field.name in chosen.without or (chosen.only and field.name not in chosen.only)
                assert left_out or isinstance(_said(kind, field.name), PythonOnly)
                continue
            option, parameter = options[field.name], parameters[field.name]
            assert option.word in parameter.opts
            assert parameter.help
            own = field.default_factory() if field.default_factory is not MISSING else field.default
            if option.option.of_task or own in (MISSING, None, ()):
                assert parameter.default is None
                assert parameter.required == (own is MISSING and not option.option.of_task)
            elif option.option.parse is not None:
                assert option.option.parse(parameter.default) == own
            else:
                assert parameter.default == (list(own) if isinstance(own, tuple) else own)
                assert _of_one(annotations[field.name]) == _of_one(option.kind)


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_by_hand_is_a_setting(verb):
    """What a settings class has is not declared again beside it."""
    of_classes = {option.name for kind in CLASSES for option in setting_options(kind)} - PLACES
    by_settings = {option.name for pair in VERBS[verb] for option in setting_options(*pair)}
    by_hand = {parameter.name for parameter in COMMANDS[verb].params} - by_settings
    assert by_hand & of_classes == set(OWN.get(verb, ()))


def test_what_is_left_out_is_a_field():
    from hf_albert_plus.training.settings import TrainSettings

    def verb(settings: Annotated[TrainSettings, Fields(without=("warm_up",))]) -> None: ...

    with pytest.raises(TypeError, match="TrainSettings has no field warm_up"):
        with_settings(verb)


def test_an_option_by_hand_beside_a_setting_is_refused():
    from hf_albert_plus.training.settings import TrainSettings

    def verb(settings: TrainSettings, seed: int = 3) -> None: ...

    with pytest.raises(TypeError, match="seed is declared twice"):
        with_settings(verb)


def test_two_classes_that_differ_in_an_option_are_refused():
    from hf_albert_plus.text.settings import CorpusSettings
    from hf_albert_plus.training.settings import TrainSettings

    def verb(settings: TrainSettings, text: CorpusSettings) -> None: ...

    with pytest.raises(TypeError, match="two settings classes declare max_length differently"):
        with_settings(verb)


@pytest.mark.parametrize(("task", "given"), [("sst2", {}), ("rte", {"epochs": 0.5}), ("cola", {"batch_size": 7})])
def test_a_setting_without_a_value_is_the_tasks(task, given):
    from hf_albert_plus.cli.task_options import Learned, TrainingTaskOptions
    from hf_albert_plus.tasks.glue import get_task
    from hf_albert_plus.training.settings import TrainSettings

    made = []

    def verb(on: Learned, settings: TrainSettings) -> None:
        made.append(settings)

    kinds = (TrainSettings, TrainingTaskOptions)
    values = {option.name: option.shown for kind in kinds for option in setting_options(kind)}
    with_settings(verb)(**{**values, "task": task, "data": ".", **given})
    own = {"epochs": get_task(task).epochs, "batch_size": get_task(task).batch_size}
    assert {name: getattr(made[0], name) for name in own} == {**own, **given}


def test_what_had_drifted_apart_is_one():
    """The command line's defaults, which users have had, are those of Python."""
    from hf_albert_plus.compression.settings import PruneSettings, QatSettings
    from hf_albert_plus.pretraining.settings import PretrainSettings

    assert QatSettings(epochs=1, batch_size=8).learning_rate == 2e-5
    assert PruneSettings(epochs=1, batch_size=8).heads == 0.33
    assert PretrainSettings().warmup == 0.025
    assert PretrainSettings(batch_size=4096).learning_rate == 1.76e-3
    assert PretrainSettings(optimizer="adamw").learning_rate == 1e-4


def _said(kind, name):
    for parent in kind.__mro__:
        for said in getattr(getattr(parent, "__annotations__", {}).get(name), "__metadata__", ()):
            return said
    return None


def _of_one(annotation):
    """`Annotated[list[float] | None, ...]` and `tuple[float, ...]` -> float."""
    if get_origin(annotation) is Literal:
        return annotation
    inner = [kind for kind in get_args(annotation) if kind not in (type(None), ...)]
    return _of_one(inner[0]) if inner else annotation
