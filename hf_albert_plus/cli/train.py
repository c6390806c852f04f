"""The verbs that train an encoder: from text alone, and on a task."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidInput
from ..hub_connection import check_model, check_source
from ..pretraining.settings import PretrainSettings
from ..text.settings import CorpusSettings, TokenizerSettings
from ..training.settings import TrainSettings
from . import options as o
from .console import done, start
from .settings_options import Fields, with_settings
from .task_options import Learned
from .texts import TOKENIZER_REPAIR, TOKENIZER_RULE, CorpusPaths

_OF_TEXT = "Options for text"
# Options of pretrain that say how text becomes examples.
_TEXT_OPTIONS = ("tokenizer", "vocab_size", "format", "order", "max_length", "language", "column", "held_out")


@with_settings
def pretrain(
    context: typer.Context,
    corpus: CorpusPaths,
    out: o.Out,
    settings: PretrainSettings,
    text: Annotated[CorpusSettings, Fields(without=("short_share", "copies"), panel=_OF_TEXT)],
    vocabulary: Annotated[TokenizerSettings, Fields(only=("vocab_size",), panel=_OF_TEXT)],
    variant: Annotated[str, typer.Option(help="Architecture: albert-plus variants.")] = "albert-base-v2",
    set_: o.Set = None,
    model: Annotated[
        str | None,
        typer.Option(help="Directory or Hub id of a pretrained model to go on from, in place of --variant and --set."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Directory or Hub id. Default: learned from the text.", rich_help_panel=_OF_TEXT),
    ] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Pretrain an encoder, from text or from a directory of albert-plus corpus build to a checkpoint.

    Text becomes OUT-tokenizer and OUT-corpus first, which the next run uses again.
    """
    if model is not None:
        check_model(model, option="--model")
    if tokenizer is not None and not any(
        Path(name).is_dir() for name in corpus
    ):  # a built corpus refuses the option itself
        check_source(tokenizer, rule=TOKENIZER_RULE, repair=TOKENIZER_REPAIR)
    from ..config_building import parse_settings
    from ..pretraining.stage import prepare_corpus
    from ..pretraining.stage import pretrain as stage
    from ..variants import get_variant

    def is_typed(name: str) -> bool:
        source = getattr(context.get_parameter_source(name), "name", None)  # typer's click or its own copy of it
        return source == "COMMANDLINE"

    if model is not None and (is_typed("variant") or set_):
        raise InvalidInput(
            "--model has its own architecture and goes with neither --variant nor --set",
            got=" ".join(["--variant", variant] if is_typed("variant") else ["--set", *(set_ or [])]),
            repair="leave it out, or start from scratch without --model",
        )
    config = {} if model is not None else {**get_variant(variant).fields, **parse_settings(set_ or [])}
    given = {f"--{name.replace('_', '-')}": context.params[name] for name in _TEXT_OPTIONS if is_typed(name)}
    start(threads)
    built = prepare_corpus(
        corpus, output=out, given=given, tokenizer=tokenizer or model, vocab_size=vocabulary.vocab_size, format=text.format,
        order=text.order, max_length=text.max_length, language=text.language, column=text.column,
        held_out=text.held_out, seed=text.seed,
    )  # fmt: skip
    done(stage(built, config=config, output=out, settings=settings, model=model), Path(out), as_json=as_json)


@with_settings
def finetune(
    model: Annotated[str, typer.Option(help="Directory or Hub id of an encoder.")],
    on: Learned,
    out: o.Out,
    settings: Annotated[TrainSettings, Fields(without=("warmup", "weight_decay"))],
    pooling: o.PoolingChoice = None,
    head_learning_rate: o.HeadLearningRate = None,
    keep_zeros: Annotated[
        bool, typer.Option(help="Keep the weights of a pruned encoder at zero that are zero there.")
    ] = True,
    no_answer_threshold: Annotated[
        float | None,
        typer.Option(
            help="Of spans: by how much the logit of no answer may exceed the best span's. Default: what suits the validation rows."
        ),
    ] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Fine-tune an encoder on a task: of your own data, or of GLUE."""
    check_model(model, option="--model")
    from ..training.finetuning import finetune as stage

    start(threads)
    record = stage(
        model,
        data=on.data,
        task=on.task,
        output=out,
        settings=settings,
        pooling=pooling,
        head_learning_rate=head_learning_rate,
        keep_zeros=keep_zeros,
        no_answer_threshold=no_answer_threshold,
    )
    done(record, out, as_json=as_json)
