"""The demo: the main job from nothing but a seed."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..demo.data import GENERATORS, VOCAB_SIZE, make_data
from ..pretraining.settings import PretrainSettings
from ..pretraining.stage import prepare_corpus, pretrain
from .pipeline import STAGES, StageCounter, run_pipeline, stage_index
from .settings import RunSettings

if TYPE_CHECKING:
    from hf_albert_plus.eval.reporting.table import Table

# A small BERT: nothing shared, no factorised embedding. At this width the usual initial deviation of 0.02 learns slowly;
# 0.08 is about 1/√H.
DEMO_TEACHER = {
    "hidden_size": 128, "embedding_size": 128, "num_hidden_layers": 3, "initializer": "normal", "initializer_range": 0.08, "num_attention_heads": 4, "intermediate_size": 512,
    "attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
    "max_position_embeddings": 128,
}  # fmt: skip


def run_demo(out: Path, *, seed: int, threads: int | None = None, stop_after: str | None = None) -> "Table | None":
    """The main job on generated data, from pretraining a small encoder to the table.

    Returns:
        The speedup table, or None if stopped before it.
    """
    last = stage_index(stop_after)
    tasks = list(GENERATORS)
    steps = StageCounter(2 + 5 * len(tasks) + 2)
    data, encoder = out / "data", out / "encoder"
    steps.run("write data", lambda: make_data(data, seed=seed))
    if last == STAGES.index("data"):
        return None
    steps.run(
        "pretrain the encoder",
        lambda: pretrain(
            prepare_corpus(
                [str(data / "pretraining.txt")], output=encoder, tokenizer=str(data / "tokenizer"), vocab_size=VOCAB_SIZE,
                format="sentence-pair", order="none", language="none", max_length=64, seed=seed,
            ),
            config=DEMO_TEACHER,
            output=encoder,
            settings=PretrainSettings(
                epochs=1.5, batch_size=16, optimizer="adamw", learning_rate=1e-3, warmup=0.06, masked="tokens", packed=False,
                evaluations=1, seed=seed, precision="fp32",
            ),
        ),
    )  # fmt: skip
    settings = RunSettings(
        overrides=(("num_hidden_layers", 2), ("embedding_size", 64)), teacher_epochs=2, student_epochs=2, batch_size=16,
        learning_rate=3e-4, student_learning_rate=5e-4, max_length=64, shapes="1x16,8x64", bench_seconds=1.5,
        precision="fp32", seed=seed,
    )  # fmt: skip
    return run_pipeline(
        str(encoder), data=str(data), tasks=tasks, out=out, settings=settings, threads=threads,
        data_name="the demo's generated data", stop_after=stop_after, steps=steps,
    )  # fmt: skip
