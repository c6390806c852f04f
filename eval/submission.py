"""Predictions for the test splits, whose labels only the benchmark's server has."""

from hf_albert_plus.eval.answers import predictions
from hf_albert_plus.eval.batched_inference import Batching, predict
from hf_albert_plus.eval.predictions import prediction_text
from hf_albert_plus.eval.scoring import tokenizer_for
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.tasks.choosing import as_trained
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import Task
from hf_albert_plus.tasks.task_file import read_task


def answer_tests(
    target: Target, *, task: Task, data: str, max_length: int = 128, threads: int | None = None
) -> dict[str, str]:
    """File of a submission, without `.tsv` -> its text, for each test split of a task. A model that does not just cut long texts reads them as
    it was trained, whatever `max_length` is."""
    EvalSettings(max_length=max_length)
    task = as_trained(task, read_task(target.directory))
    max_length = max_length if task.long.is_cut else task.max_length
    way = Batching()
    engine, streams = way.load(target, threads=threads)
    tokenizer = tokenizer_for(engine, task, max_length=max_length)
    files = {}
    for stem, split in task.submission.items():
        rows = load_split(data, task, split, labelled=False)
        encoded = encode(rows, task, tokenizer, max_length=max_length)
        logits = predict(
            engine,
            encoded.to_list(),
            tokenizer,
            way.of(encoded["length"]),
            streams=streams,
            description=f"predict {stem}",
        )
        index = rows["idx"][:] if "idx" in rows.column_names else None
        files[stem] = prediction_text(predictions(logits, task), task, index=index)
    return files
