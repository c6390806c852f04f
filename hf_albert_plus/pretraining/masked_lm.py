"""Masked language modelling over sentence pairs: text and a tokenizer in, an encoder directory out."""

from pathlib import Path
from typing import Any

from .. import processes
from ..records import CHECKPOINTS, Record, file_sha256, parent, run_stage
from ..training import TrainSettings


def pretrain_masked_lm(
    text: Path, *, tokenizer: Path, config: dict[str, Any], output: Path, settings: TrainSettings
) -> Record:
    """Trains an `AlbertPlusForMaskedLM` from scratch, 15 % of the tokens masked anew each time (RoBERTa, section 4.1).

    Args:
        text: one example a line, two sentences parted by a tab.
        config: fields of AlbertPlusConfig; the vocabulary's size comes from the tokenizer.
    """

    def work(directory: Path) -> dict[str, Any]:
        from datasets import Dataset
        from transformers import AutoTokenizer, DataCollatorForLanguageModeling, set_seed

        from ..modeling_albert_plus import AlbertPlusForMaskedLM
        from ..training import train
        from ..variants import build_config, vocabulary_fields

        set_seed(settings.seed)
        tokeniser = AutoTokenizer.from_pretrained(tokenizer)
        pairs = [line.split("\t") for line in text.read_text(encoding="utf-8").splitlines()]
        encoded = tokeniser(
            [a for a, _ in pairs], [b for _, b in pairs], truncation=True, max_length=settings.max_length
        )
        rows = Dataset.from_dict({**encoded, "length": [len(ids) for ids in encoded["input_ids"]]})
        model = AlbertPlusForMaskedLM(build_config({**config, **vocabulary_fields(tokeniser)}))
        result = train(
            model,
            rows=rows,
            collator=DataCollatorForLanguageModeling(tokeniser, mlm_probability=0.15),
            settings=settings,
            checkpoints=directory / CHECKPOINTS,
            description="pretrain masked LM",
        )
        if processes.is_first():
            model.save_pretrained(directory)
            tokeniser.save_pretrained(directory)
        return {**result, "parameters": model.num_parameters()}

    return run_stage(
        "pretrain",
        output,
        settings={"config": config, **settings.describe()},
        parents={"text": {"path": str(text), "sha256": file_sha256(text)}, "tokenizer": parent(tokenizer)},
        work=work,
        resumable=True,
    )


__all__ = ["pretrain_masked_lm"]
