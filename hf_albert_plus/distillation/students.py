"""Students: any ALBERT-plus architecture, started from its teacher or from a directory of its own."""

from pathlib import Path
from typing import Any, cast

from transformers import PreTrainedModel

from ..checkpoints import label_names_of, load_classifier, load_towers, name_labels
from ..config_building import student_of, variant_of
from ..config_files import load_config
from ..configuration_albert_plus import DROPOUTS, LETTER_SPECIALS, AlbertPlusConfig
from ..conversion.initialise import initialise
from ..conversion.occurrences import Occurrences
from ..errors import InvalidInput, suggest
from ..heads import architecture_of
from ..tasks.task import Task
from ..twin_albert_plus import AlbertPlusTwinModel
from ..variants import PARTS, VARIANTS, Part
from .phases import Method
from .settings import StudentSettings

_CHANGEABLE = (*DROPOUTS, "num_hidden_layers")


def student_architecture(source: Any, settings: StudentSettings) -> AlbertPlusConfig:
    """The config of a student of a teacher with the config `source`, labels aside.

    Raises:
        InvalidInput: no such student, one of another family, or values that do not fit together.
    """
    overrides = dict(settings.overrides)
    if Path(settings.student).is_dir():
        config = load_config(settings.student, option="--student")
        if not isinstance(config, AlbertPlusConfig):
            raise InvalidInput(
                "--student must be an ALBERT-plus model",
                got=f"{settings.student} of the family {config.model_type}",
                repair=f"convert it first: albert-plus convert {settings.student} --out …",
            )
        return _reshaped(config, overrides)
    if settings.student not in (*PARTS, *VARIANTS):
        raise InvalidInput(
            "--student must be a known student or a model directory",
            got=repr(settings.student),
            repair=suggest(settings.student, [*PARTS, *VARIANTS]),
        )
    if overrides.get("letter_trigrams") is True:
        # The special tokens of the tokenizer that it gets.
        overrides = {
            "pad_token_id": _id("[PAD]"),
            "bos_token_id": _id("[CLS]"),
            "eos_token_id": _id("[SEP]"),
            **overrides,
        }
    if settings.student in PARTS:
        return student_of(source, part=cast(Part, settings.student), overrides=overrides)
    return variant_of(source, variant=settings.student, overrides=overrides)


def _id(special: str) -> int:
    return LETTER_SPECIALS.index(special)


def _reshaped(config: AlbertPlusConfig, overrides: dict[str, Any]) -> AlbertPlusConfig:
    """A directory's config with what can be changed and leave every weight its place: exits, dropout, and how often shared blocks run."""
    others = [name for name in overrides if not name.startswith("exit_") and name not in _CHANGEABLE]
    if others:
        raise InvalidInput(
            "--set changes fields of a variant, and a directory has its own: exits, dropout and num_hidden_layers can be changed",
            got=", ".join(others),
            repair="leave them out, or give a variant as --student",
        )
    changed = AlbertPlusConfig(**{**config.to_dict(), **overrides}) if overrides else config
    blocks = [(max(each.attention_map) + 1, max(each.ffn_map) + 1) for each in (config, changed)]
    if blocks[0] != blocks[1]:
        raise InvalidInput(
            "--set num_hidden_layers must leave a directory's blocks as many as they are",
            got=f"{changed.num_hidden_layers} layers of attention_sharing={config.attention_sharing!r}, "
            f"ffn_sharing={config.ffn_sharing!r}: {blocks[1]} blocks where there are weights of {blocks[0]}",
            repair="leave it out, or give a variant as --student",
        )
    return changed


def student_config(source: Any, *, task: Task, settings: StudentSettings, method: Method) -> AlbertPlusConfig:
    """The student's config for a task, with the names of its labels in a teacher's config `source`, and with the exits that
    the method trains: after every layer but the last, unless the config names others."""
    config = student_architecture(source, settings)
    if config.letter_trigrams and not method.towers:
        raise InvalidInput(
            "letter_trigrams are for two towers",
            got=f"a student of {method.name}",
            repair="leave letter_trigrams out, or use --method twinbert",
        )
    config.exit_threshold = None  # of the exits as they were
    config.num_labels = source.num_labels
    config.id2label, config.label2id = source.id2label, source.label2id
    if not task.benchmark and not label_names_of(source):
        name_labels(config, task)
    config.problem_type = task.problem_type
    if method.exits and not config.exit_layers:
        config.exit_layers = list(range(1, config.num_hidden_layers))
        config.exit_head = dict(settings.overrides).get("exit_head", method.exits)
        if not config.exit_layers:
            raise InvalidInput(
                f"{method.name} needs a student with at least 2 layers, an exit before the last",
                got="1 layer",
                repair="use --set num_hidden_layers=2",
            )
    return config


def start_student(
    teacher: PreTrainedModel,
    config: AlbertPlusConfig,
    *,
    task: Task,
    settings: StudentSettings,
    method: Method,
    occurrences: Occurrences | None = None,
) -> tuple[PreTrainedModel, str]:
    """The student at its start, and where that is."""
    if settings.has_weights:
        done = f"the weights of {settings.student}"
        if architecture_of(load_config(settings.student, option="--student")) == AlbertPlusTwinModel.__name__:
            return _open_towers(settings.student, method), done
        student = load_classifier(settings.student, option="--student", task=task, config=config)
        return (_towers(student) if method.towers else student), done
    start = settings.initialise or method.initialise
    deeper = config.num_hidden_layers > teacher.config.num_hidden_layers
    layers = None if deeper else _start_layers(teacher, config, start=start, chosen=method.start_layers)
    # Of letters, the rows of the table are not the teacher's pieces: the rest can start as its own.
    plain = _with_words_of(teacher, config) if config.letter_trigrams else config
    student, done = initialise(teacher, plain, method=start, layers=layers, occurrences=occurrences)
    if config.letter_trigrams:
        return _towers(student, config), f"{done}; letter trigrams at random"
    return (_towers(student) if method.towers else student), done


def _with_words_of(teacher: PreTrainedModel, config: AlbertPlusConfig) -> AlbertPlusConfig:
    """The config of a student that reads the pieces of its teacher in place of letter trigrams."""
    theirs: Any = teacher.config
    changed = {"letter_trigrams": False, "vocab_size": theirs.vocab_size}
    return AlbertPlusConfig(**{**config.to_dict(), **changed})


def _open_towers(source: str, method: Method) -> PreTrainedModel:
    if not method.towers:
        raise InvalidInput(
            f"{method.name} trains classifiers",
            got=f"two towers in {source}",
            repair="use --method twinbert, or another --student",
        )
    return load_towers(source, option="--student")


def _start_layers(
    teacher: PreTrainedModel, config: AlbertPlusConfig, *, start: str, chosen: str | None
) -> list[int] | None:
    """Layers of the teacher, from 0, that the student's start from: the method's choice. Without one, and without a start that
    says how layers are combined, layers that share nothing start as one layer of the teacher each."""
    old, new = teacher.config.num_hidden_layers, config.num_hidden_layers
    if chosen == "first":
        return list(range(new))
    own_blocks = all(len(set(layer_map)) == new for layer_map in (config.attention_map, config.ffn_map))
    if chosen == "spread" or (start in ("auto", "embeddings") and own_blocks):
        return [round(layer * (old - 1) / max(new - 1, 1)) for layer in range(new)]
    return None


def _towers(classifier: Any, config: AlbertPlusConfig | None = None) -> PreTrainedModel:
    """A two-tower model with the encoder of a classifier, but for word embeddings of another size or of letters.

    Args:
        config: of the towers, where it is not the classifier's.
    """
    towers: Any = AlbertPlusTwinModel(config or classifier.config)
    state = classifier.albert_plus.state_dict()
    own = towers.albert_plus.state_dict()
    kept = {_WORDS} if towers.config.letter_trigrams else set()
    towers.albert_plus.load_state_dict({name: own[name] if name in kept else state[name] for name in own})
    return towers


_WORDS = "embeddings.word_embeddings.weight"
