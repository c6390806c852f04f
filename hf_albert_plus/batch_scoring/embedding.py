"""The stage that writes vectors of the texts in files: the machinery of batch scoring, with an encoder in a classifier's place."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..config_files import load_config
from ..engines.artefacts import get_runtime
from ..engines.sentence_files import sentence_length
from ..engines.text_encoder import TextEncoder, check_encoder
from ..records.outputs import check_directory
from ..records.record import Record
from ..tasks.rows import load_tokenizer
from .answer_columns import VECTOR
from .distribution import WorkerPool
from .settings import ScoreSettings
from .stage import RunKind, check_single_texts, one_model, run_over_files

EMBED = RunKind("embed", "vectors")


def embed(
    inputs: Sequence[str],
    *,
    engine: Path,
    runtime: str | None = None,
    output: Path,
    settings: ScoreSettings,
    pool: WorkerPool,
    tell: Callable[[str], None] = print,
) -> Record:
    """Writes the vector of every row of some files, each into one row of Parquet.

    Run again after it was stopped or killed, it goes on with what is missing; a file that has changed in the meantime is read anew.

    Args:
        inputs: paths and patterns.
        engine: an export with `--pooling`, or a sentence encoder for torch.
        runtime: of the engine; by default int8 where there is such an export, then fp32, then torch.
        output: a directory for it alone. `vectors/` holds the rows, its files in the order of the inputs.

    Raises:
        InvalidInput: nothing to read, an engine that gives no vectors, a row that is no text, or a run of something else in `output`.
        StageConflict: another process is writing there.
    """
    check_directory(output, option="--output")
    check_single_texts(settings, model="an encoder, which gives vectors")
    settings.check_kept(own=[VECTOR])
    served = one_model(engine, runtime)
    config, chosen = load_config(served.directory, option="--engine"), get_runtime(served.runtime)
    check_encoder(config, served.directory, chosen)
    load_tokenizer(served.directory, config)
    max_length = sentence_length(config, served.directory, max_length=settings.max_length)
    if chosen.artefact is None or not chosen.artefact.for_gpu:
        # Whether its graph gives vectors is known once it is open, and workers take seconds to start.
        TextEncoder(served.directory, served.runtime, cores=1, max_length=max_length)
    settings = replace(settings, max_length=max_length)
    of_model = {"dimension": int(config.hidden_size)}
    return run_over_files(
        inputs, EMBED, served, output=output, settings=settings, pool=pool, of_model=of_model, tell=tell
    )
