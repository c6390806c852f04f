"""Cards of pretrained encoders: what they were trained on and how, how that differs from ALBERT's paper, and what came out."""

from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.measured_documents import Scores
from hf_albert_plus.eval.reporting.card import diagram, encoder_facts, parameter_facts, totals
from hf_albert_plus.eval.reporting.hub_metadata import hub_facts, hub_facts_of, metadata_yaml
from hf_albert_plus.eval.reporting.presentation import interval_text
from hf_albert_plus.eval.reporting.table import NOT_MEASURED
from hf_albert_plus.records.record import RECORD, Parent, fingerprint, open_record, training_record

KIND = "pretraining-card"
STAGE = "pretrain"
# ALBERT, sections 3.1, 3.2 and 4.1, and the hyperparameters of its release.
_PUBLISHED = {
    "text": "Wikipedia and BookCorpus, 16 GB",
    "vocabulary": "30,000",
    "format": "segment-pair",
    "order": "sentence-order",
    "longest example": "512 tokens",
    "tokens seen": "up to 4,096 x 512 x 125,000 = 262 billion",
    "masked": "spans of up to 3 words",
    "batch": "4,096 examples",
    "optimizer": "lamb",
    "learning rate": "0.00176",
    "warm-up": "2.5 % of the steps",
    "hidden size": "768 and up",
    "layers": "12 and up",
}


def pretraining_facts(directory: Path, *, scores: list[Scores]) -> dict[str, Any]:
    """All that the card of a pretrained encoder says, as a JSON-ready record.

    Args:
        directory: an encoder with the record of its pretraining, whose corpus is still where that record says.
        scores: documents of `albert-plus eval --json`, of which the classifiers that were fine-tuned from this encoder are taken.
    """
    from hf_albert_plus.config_files import load_config

    training = training_record(directory)
    corpus = open_record(Path(_parent(training, "corpus", of=directory)["path"]))
    tokenizer = Path(_parent(corpus.content(), "tokenizer", of=directory)["path"])
    config = load_config(directory, option="an encoder")
    facts = {
        "kind": KIND,
        "name": directory.name,
        "hub": hub_facts(directory),
        "encoder": encoder_facts(config),
        "vocabulary": config.vocab_size,
        "parameters": parameter_facts(config),
        "training": {key: training[key] for key in ("command", "settings", "parents", "result", "finished")},
        "corpus": {key: corpus.content()[key] for key in ("command", "settings", "parents", "result")},
        "tokenizer": open_record(tokenizer).command if (tokenizer / RECORD).is_file() else "",
        "finetuned": _finetuned(directory, scores),
    }
    return {**facts, "differs": _differences(facts)}


def _parent(record: dict[str, Any], name: str, *, of: Path) -> Parent:
    """What a stage read.

    Raises:
        InvalidInput: its record does not say.
    """
    if name not in record["parents"]:
        raise InvalidInput(
            f"the records of a pretrained encoder must name its {name}",
            got=f"{of}, whose {record['stage']} names none",
            repair="make it with albert-plus pretrain",
        )
    parent: Parent = record["parents"][name]
    return parent


def _finetuned(directory: Path, scores: list[Scores]) -> list[dict[str, Any]]:
    """The rows of classifiers whose fine-tuning began with the files of this directory."""
    content, rows = fingerprint(directory), []
    for document in scores:
        for row in document.rows:
            record = training_record(Path(row.runs[0].directory))
            if row.runtime != "torch" or record.get("parents", {}).get("model", {}).get("sha256") != content:
                continue
            metrics = {name: row.metrics[name] for name in document.described_task.metrics}
            rows.append(
                {
                    "task": row.task,
                    "split": row.split,
                    "examples": row.examples,
                    "metrics": metrics,
                    "in_words": {
                        name: interval_text(name, value, row.intervals[name]) for name, value in metrics.items()
                    },
                    "seeds": [run.seed for run in row.runs],
                    "command": record["command"],
                }
            )
    return rows


def _differences(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Where this run is not the published one."""
    settings, corpus, encoder = facts["training"]["settings"], facts["corpus"], facts["encoder"]
    here = {
        "text": f"{', '.join(Path(part['path']).name for name, part in corpus['parents'].items() if name != 'tokenizer')}, "
        f"{corpus['result']['tokens']:,} tokens",
        "vocabulary": f"{facts['vocabulary']:,}",
        "format": corpus["settings"]["format"],
        "order": corpus["settings"]["order"],
        "longest example": f"{corpus['settings']['max_length']} tokens",
        "tokens seen": f"{facts['training']['result']['tokens']:,}",
        "masked": f"spans of up to {settings['longest']} words"
        if settings["masked"] == "spans"
        else settings["masked"],
        "batch": f"{settings['batch_size']:,} examples",
        "optimizer": settings["optimizer"],
        "learning rate": f"{settings['learning_rate']:g}",
        "warm-up": f"{100 * settings['warmup']:g} % of the steps",
        "hidden size": str(encoder["hidden_size"]),
        "layers": str(encoder["num_hidden_layers"]),
    }
    return [
        {"what": what, "here": here[what], "published": published}
        for what, published in _PUBLISHED.items()
        if here[what] != published
    ]


def render_pretraining_card(facts: dict[str, Any]) -> str:
    """The card's Markdown, metadata with a model index before it."""
    from hf_albert_plus.eval.reporting.templates import environment

    return (
        environment()
        .get_template("pretraining_card.md.jinja")
        .render(
            **facts,
            metadata=_metadata(facts),
            diagram=diagram(facts["encoder"]),
            totals=totals(facts["parameters"]),
            not_measured=NOT_MEASURED,
        )
    )


def _metadata(facts: dict[str, Any]) -> str:
    from huggingface_hub import EvalResult

    names = {"mlm_loss": "loss", "mlm_accuracy": "accuracy"}
    results = [
        EvalResult(
            task_type="fill-mask",
            dataset_type="held-out",
            dataset_name="held-out documents of the corpus",
            metric_type=metric,
            metric_value=round(facts["training"]["result"][f"held_out_{name}"], 4),
        )
        for name, metric in names.items()
        if f"held_out_{name}" in facts["training"]["result"]
    ]
    language = facts["corpus"]["settings"]["language"]
    hub = facts.get("hub") or hub_facts_of(facts["training"])
    hub = {**({} if language == "none" else {"language": language}), **hub}
    return metadata_yaml(hub, pipeline_tag="fill-mask", tags=["albert-plus"], name=facts["name"], results=results)
