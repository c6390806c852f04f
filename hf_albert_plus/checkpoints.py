"""Models and tokenizers of directories and Hub ids, opened with nothing missing in silence, and copied into other directories.

Code that comes with a model or a tokenizer is neither run nor copied, but for this package's own.
"""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import get_relative_import_files

from .config_files import is_our_code, load_config
from .errors import InvalidInput, first_line
from .heads import answers, architecture_of, auto_class, gives_labels, head_of, task_head
from .hub_connection import check_source
from .records.files import SCHEME, read_json, write_json
from .records.progress import say
from .records.record import RECORD
from .tasks.task import Task
from .twin_albert_plus import AlbertPlusTwinModel
from .weight_files import from_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


# The files of a tokenizer that hold its vocabulary beside tokenizer.json.
VOCABULARY_FILES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
# The files that a tokenizer can be made of.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    *VOCABULARY_FILES,
)
# The suffixes of files that open a model.
_MODEL_SUFFIXES = {".json", ".safetensors", ".txt", ".model"}
# Suffix of a head -> what a model with it does.
_DOES = {
    "ForSequenceClassification": "gives each text a label",
    "ForTokenClassification": "gives each word a label",
    "ForQuestionAnswering": "answers questions by spans of their contexts",
}
# The files with an auto_map: names of the code that opens what they describe.
_WITH_AUTO_MAP = ("config.json", "tokenizer_config.json")


def open_as_trained(source: str | Path, *, option: str) -> PreTrainedModel:
    """Opens a checkpoint with the head it was saved with, in fp32 and eval mode.

    Raises:
        InvalidInput: another head than `HEADS` has, or weights that are missing or left over.
    """
    config = load_config(source, option=option)
    architecture = architecture_of(config)
    head = head_of(architecture, option=f"{option} ({source})")
    model, report = from_pretrained(auto_class(head), source, option=option, config=config)
    if head == "Model" and report["missing_keys"] and all(key.startswith("pooler.") for key in report["missing_keys"]):
        model, report = from_pretrained(auto_class(head), source, option=option, config=config, add_pooling_layer=False)
    unread = sorted(key for key in report["unexpected_keys"] if "position_ids" not in key)
    for what, names in (("missing", sorted(report["missing_keys"])), ("unread", unread)):
        if names:
            raise InvalidInput(
                f"{option} must hold the weights of {architecture} and no others",
                got=f"{len(names)} {what} ({names[0]} …) in {source}",
                repair="save it with the class it was trained as, or correct architectures in its config.json",
            )
    return model.eval()


def load_towers(source: str | Path, *, option: str) -> AlbertPlusTwinModel:
    """Loads two towers in fp32.

    Raises:
        InvalidInput: weights that are missing or left over.
    """
    model, report = from_pretrained(AlbertPlusTwinModel, source, option=option)
    wrong = sorted({*report["missing_keys"], *report["unexpected_keys"]})
    if wrong:
        raise InvalidInput(
            f"{option} must hold the weights of AlbertPlusTwinModel and no others",
            got=f"{len(wrong)} missing or unread ({wrong[0]} …) in {source}",
            repair="check that config and weights belong together",
        )
    return model


def check_trainable(source: str | Path, config: PreTrainedConfig, *, option: str, trains_exits: bool = False) -> None:
    """Refuses to train the encoder of a model with parts that were fitted to it as it is.

    Args:
        trains_exits: whether the training fits its exits again.

    Raises:
        InvalidInput: exits, whose classifiers and threshold would be those of another encoder; or few bits, which would be lost.
    """
    exits = getattr(config, "exit_layers", None)
    if exits and not trains_exits:
        raise InvalidInput(
            f"{option} must have no exits: they would go on as they were trained, on an encoder that is another one",
            got=f"{source} with exits after layers {', '.join(map(str, exits))}",
            repair="train the model before its exits, or set exit_layers to null in its config",
        )
    check_full_bits(source, option=option)


def check_full_bits(source: str | Path, *, option: str) -> None:
    """Refuses to change a model that was trained for few bits.

    Raises:
        InvalidInput: it was: its grids and ranges would be lost.
    """
    if (Path(source) / SCHEME).is_file():
        raise InvalidInput(
            f"{option} must not be trained for few bits already: its grids and ranges would be lost",
            got=f"{source} with {SCHEME}",
            repair="give the model that it was made from, and let albert-plus qat be the last to train it",
        )


def check_label_order(config: PreTrainedConfig, task: Task, *, option: str) -> None:
    """Refuses a classifier that has the task's label names under other ids: its predictions would count as others.

    Raises:
        InvalidInput: such an order.
    """
    id2label: Any = config.id2label
    names = [str(id2label[i]).lower() for i in sorted(id2label)]
    wanted = [name.lower() for name in task.labels]
    if names != wanted and sorted(names) == sorted(wanted):
        raise InvalidInput(
            f"{option} must number the labels of {task.name} as {', '.join(task.labels)}",
            got=", ".join(names),
            repair="permute its classifier's rows and id2label",
        )


def check_label_names(config: PreTrainedConfig, task: Task, *, option: str, source: str) -> None:
    """Refuses a classifier of as many labels as a task of one's own, but of others. One whose labels have no names is taken to have
    the task's, in its order, and that is said.

    Raises:
        InvalidInput: labels that differ.
    """
    if task.benchmark or task.is_regression or task.has_spans:
        return
    names = label_names_of(config)
    if not names:
        say(f"the labels of {source} have no names: they are taken to be {', '.join(task.labels[:5])}, … in this order")
        return
    others = sorted({name.lower() for name in names} - {name.lower() for name in task.labels})
    if others:
        raise InvalidInput(
            f"{option} must have the labels of {task.name}",
            got=f"{source} with {', '.join(map(repr, others[:3]))}, which no training row has",
            repair="rename its id2label or the labels of the data, so that they are the same",
        )


def name_labels(config: PreTrainedConfig, task: Task) -> None:
    """Gives a config a task's labels: their number, names and order."""
    config.id2label = dict(enumerate(task.label_names))
    config.label2id = {name: i for i, name in enumerate(task.label_names)}


def label_names_of(config: PreTrainedConfig) -> list[str]:
    """The names of a classifier's labels in the order of their ids; none where they are transformers' LABEL_0, LABEL_1, …"""
    id2label: Any = config.id2label
    names = [str(id2label[i]) for i in sorted(id2label)]
    return [] if names == [f"LABEL_{i}" for i in range(len(names))] else names


def load_classifier(
    source: str | Path, *, option: str, task: Task | None = None, config: PreTrainedConfig | None = None
) -> PreTrainedModel:
    """Loads a classifier of texts in fp32, or of words, or what answers questions, where the task or the checkpoint is of these.

    Args:
        config: another config than the checkpoint's, labels included; parts that it adds start at random.
        task: fit a new head for this task where the checkpoint has none; without it the checkpoint must have one.

    Raises:
        InvalidInput: the checkpoint lacks encoder weights, has ones that the architecture does not read, or its
            classifier is not of the task.
    """
    saved = load_config(source, option=option)
    if task is not None and gives_labels(saved) and not answers(saved, task):
        raise InvalidInput(
            f"{option} must be a bare encoder, or a model that {_DOES[task.head]}",
            got=f"{architecture_of(saved)} in {source}",
            repair=_without_head(source),
        )
    has_head = gives_labels(saved)
    head = task_head(saved) if task is None else task.head
    if task is not None and has_head and saved.num_labels != task.num_labels:
        raise InvalidInput(
            f"{option} must be a bare encoder or a classifier with the {task.num_labels} labels of {task.name}",
            got=f"{source} with {saved.num_labels} labels",
            repair=_without_head(source),
        )
    if task is not None and config is None:
        name_labels(saved, task)
        saved.problem_type = task.problem_type
    model, report = from_pretrained(auto_class(head), source, option=option, config=config or saved)
    encoder = f"{model.base_model_prefix}."
    head_may_be_new = task is not None and not has_head
    missing = sorted(
        key
        for key in report["missing_keys"]
        if not (head_may_be_new or (config is not None and key.startswith("exits.")))
        or (key.startswith(encoder) and ".pooler." not in key)
    )
    parts = {name for name, _ in getattr(model, model.base_model_prefix).named_children()}
    unread = sorted(
        key
        for key in report["unexpected_keys"]
        # A bare encoder's checkpoint names its tensors without the prefix. Poolers go unread in some architectures.
        if (key.startswith(encoder) or key.partition(".")[0] in parts)
        and not any(part in key for part in ("position_ids", "pooler."))
    )
    if missing or unread or report["mismatched_keys"]:
        facts = [f"{len(missing)} missing ({missing[0]} …)"] if missing else []
        facts += [f"{len(unread)} unread ({unread[0]} …)"] if unread else []
        facts += [f"{len(report['mismatched_keys'])} of another shape"] if report["mismatched_keys"] else []
        raise InvalidInput(
            f"{option} must hold the weights of {type(model).__name__}",
            got=f"{source} with {', '.join(facts)}",
            repair="fine-tune it first (albert-plus finetune)"
            if task is None
            else "check that config and weights belong together",
        )
    return model


def _without_head(source: str | Path) -> str:
    """How another task starts from a model of this one."""
    return f"start from the encoder it was fine-tuned from, or from its own: albert-plus convert {source} --to encoder --out encoder"


def has_tokenizer(directory: Path) -> bool:
    """Whether a directory has any part of a tokenizer."""
    return any((directory / name).exists() for name in _TOKENIZER_FILES)


def open_tokenizer(source: str | Path, *, rule: str, repair: str) -> "PreTrainedTokenizerBase":
    """A tokenizer that cuts texts into words of its vocabulary, and pads them.

    Args:
        rule, repair: the words of the error.

    Raises:
        InvalidInput: no tokenizer, or broken files.
    """
    check_source(source, rule=rule, repair=repair)
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
        ids = _ids_of_a_pair(tokenizer)
        vocabulary = tokenizer.get_vocab()
    except Exception as error:  # the tokenizers library raises Exception itself, whatever is wrong with a file
        raise InvalidInput(rule, got=f"{source} ({first_line(error)})", repair=repair) from error
    if len(vocabulary) <= len(set(tokenizer.all_special_ids)):
        # transformers 5 makes up an empty tokenizer where there are no files.
        raise InvalidInput(rule, got=f"{source} without a vocabulary", repair=repair)
    if not ids or None in ids:
        raise InvalidInput(rule, got=f"{source}, which finds no words in a text", repair=repair)
    if not isinstance(tokenizer.model_max_length, int | float):
        got = f"{source} with the model_max_length {tokenizer.model_max_length!r}"
        raise InvalidInput(rule, got=got, repair=repair)
    opened: PreTrainedTokenizerBase = tokenizer
    return opened


def _ids_of_a_pair(tokenizer: Any) -> list[int]:
    """Token ids of two texts. A tokenizer that is called keeps what it was told of truncation, and would be saved with it."""
    first, second = "a word", "Ж another one"
    ids: list[int] = (
        tokenizer.backend_tokenizer.encode(first, second).ids
        if tokenizer.is_fast
        else tokenizer(first, second)["input_ids"]
    )
    return ids


def copy_model(source: Path, directory: Path) -> None:
    """Copies the files that open a model: config, weights, tokenizer, and of code only this package's own.

    Exports, cards, records and whatever training left stay behind: a stage answers for what it writes.
    """
    for path in source.iterdir():
        if path.is_file() and path.suffix in _MODEL_SUFFIXES and path.name != RECORD:
            shutil.copyfile(path, directory / path.name)
    for path in source.glob("[0-9]_*/config.json"):  # of the modules that a sentence encoder's modules.json names
        (directory / path.parent.name).mkdir()
        shutil.copyfile(path, directory / path.parent.name / path.name)
    names = {name for file in _WITH_AUTO_MAP for name in _keep_our_names(directory / file, source)}
    for module in sorted({name.partition(".")[0] for name in names}):
        file = Path(__file__).with_name(f"{module}.py")
        for needed in (file, *map(Path, get_relative_import_files(file))):
            shutil.copyfile(needed, directory / needed.name)


def _keep_our_names(path: Path, source: Path) -> list[str]:
    """Takes the names of foreign code out of a file's auto_map, and returns our own, which stay."""
    if not path.is_file():
        return []
    content = read_json(path, what=f"{path.name} of a model", shape=dict[str, Any], repair="save the model again")
    names = content.get("auto_map") or {}
    ours = {key: name for key, name in names.items() if is_our_code(name)} if isinstance(names, dict) else {}
    if ours != names:
        print(f"the code that {source / path.name} names in auto_map is not copied", file=sys.stderr)
        write_json(
            path, {**content, "auto_map": ours} if ours else {k: v for k, v in content.items() if k != "auto_map"}
        )
    return list(ours.values())
