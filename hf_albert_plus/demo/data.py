"""The demo's first stage: five GLUE-shaped tasks over the grammar, a text to pretrain on and a tokenizer, all from one seed.

Each task takes several words together: no single word gives a label away.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from ..records.files import late_errors, write_text
from ..records.progress import steps
from ..records.record import Record
from ..records.stage import run_stage
from ..tasks.glue import get_task
from ..text.vocabularies import train_wordpiece
from .grammar import (
    BAD,
    GOOD,
    INTENSIFIERS,
    INTRANSITIVE,
    PEOPLE,
    PLACES,
    SLOTS,
    SUBJECTS,
    Event,
    change,
    draw_event,
    retell,
    tell,
)

GlueRow = dict[str, Any]


def sst2(random: Random) -> GlueRow:
    """Sentiment of the clause that counts: negation turns it, and after "but" only the last clause counts."""
    subjects = random.sample(SUBJECTS, 2)
    clause, positive = _opinion(subjects[0], random)
    if random.random() < 0.4:
        second, positive = _opinion(subjects[1], random)
        clause = f"{clause} , but {second}" if random.random() < 0.6 else f"although {clause} , {second}"
    return {"sentence": f"{clause} .", "label": int(positive)}


def _opinion(subject: str, random: Random) -> tuple[str, bool]:
    positive = random.random() < 0.5
    adjective = random.choice(GOOD if positive else BAD)
    phrase = f"{random.choice(INTENSIFIERS)} {adjective}".strip()
    if random.random() < 0.4:
        turned = random.choice(("is not {}", "is never {}", "is hardly {}", "fails to be {}", "is far from {}"))
        return f"the {subject} {turned.format(phrase)}", not positive
    plain = random.choice(("is {}", "feels {}", "seems {}", "remains {}", "is nothing if not {}"))
    return f"the {subject} {plain.format(phrase)}", positive


def cola(random: Random) -> GlueRow:
    """Agreement of subject and verb across an attractor, of determiner and noun, and of a reflexive."""
    subject, other = random.sample(PEOPLE, 2)
    plural, attractor_plural = random.random() < 0.5, random.random() < 0.5
    acceptable = random.random() < 0.5
    broken = None if acceptable else random.choice(("verb", "determiner", "reflexive"))
    reflexive_used = broken == "reflexive" or random.random() < 0.4
    determiner = random.choice(("these", "those") if plural != (broken == "determiner") else ("this", "that"))
    noun = subject.plural if plural else subject.singular
    attractor = other.plural if attractor_plural else other.singular
    link = random.choice(("near", "behind", "beside"))
    verb_plural = plural != (broken == "verb")
    if reflexive_used:
        verb = random.choice((("trusts", "trust"), ("blames", "blame"), ("admires", "admire"), ("helps", "help")))[
            verb_plural
        ]
        reflexive = "themselves" if plural != (broken == "reflexive") else random.choice(("himself", "herself"))
        tail = f"{verb} {reflexive}"
    else:
        tail = f"{random.choice(INTRANSITIVE)[verb_plural]} in the {random.choice(PLACES)[0]}"
    return {"sentence": f"{determiner} {noun} {link} the {attractor} {tail} .", "label": int(acceptable)}


def mrpc(random: Random) -> GlueRow:
    """Paraphrase: other words and voice, against several changed slots, swapped roles or a negation."""
    event = draw_event(random)
    first = tell(event, random, synonyms=0.2)
    if random.random() < 0.6:
        return {"sentence1": first, "sentence2": retell(event, random), "label": 1}
    kind = random.choice(("slots", "slots", "slots", "slots", "roles", "negation"))
    if kind == "roles":
        event = replace(event, patient=random.choice([noun for noun in PEOPLE if noun is not event.agent]))
        first = tell(event, random, synonyms=0.2)
        other = replace(event, agent=event.patient, patient=event.agent)
    elif kind == "negation":
        other = replace(event, negated=True)
    else:
        other = _change_some(event, random.sample(SLOTS, random.randint(2, len(SLOTS))), random)
    return {"sentence1": first, "sentence2": retell(other, random), "label": 0}


def _change_some(event: Event, slots: Sequence[str], random: Random) -> Event:
    for slot in slots:
        event = change(event, slot, random)
    return event


def stsb(random: Random) -> GlueRow:
    """Similarity from 0 to 5: the number of slots that two events share."""
    event = draw_event(random)
    other = _change_some(event, random.sample(SLOTS, random.randint(0, len(SLOTS))), random)
    shared = sum(getattr(event, slot) == getattr(other, slot) for slot in SLOTS)
    first, second = (tell(told, random, synonyms=0.3, front_time=random.random() < 0.3) for told in (event, other))
    return {"sentence1": first, "sentence2": second, "label": float(shared)}


def rte(random: Random) -> GlueRow:
    """Entailment: the same in other or more general words, against other slots or the other polarity.

    Premises and hypotheses of both labels come negated, and hypotheses in general words, so that neither is a sign by
    itself.
    """
    event = replace(draw_event(random), negated=random.random() < 0.15)
    premise = tell(event, random, synonyms=0.3, front_time=random.random() < 0.3)
    general = not event.negated and random.random() < 0.3
    if random.random() < 0.5:
        return {"sentence1": premise, "sentence2": _reword(event, random, general=general), "label": 0}
    if random.random() < 0.15:
        other = replace(event, negated=not event.negated)
        general = not other.negated and random.random() < 0.3
    else:
        slots = [slot for slot in SLOTS if not (general and slot == "patient")]
        other = _change_some(event, random.sample(slots, random.randint(2, len(slots))), random)
    return {"sentence1": premise, "sentence2": _reword(other, random, general=general), "label": 1}


def _reword(event: Event, random: Random, *, general: bool) -> str:
    sentence = tell(event, random, synonyms=0.3)
    return _generalise(sentence, event) if general else sentence


def _generalise(sentence: str, event: Event) -> str:
    """Makes "the car" into "some vehicle" for a patient of that kind."""
    for word in (event.patient.singular, event.patient.synonym):
        sentence = sentence.replace(f"the {word} ", f"some {event.patient.kind} ")
    return sentence


def pretraining_pair(random: Random) -> tuple[str, str]:
    """Two sentences for masked language modelling: the same event twice, with up to two slots changed; or two unrelated
    sentences of the other kinds."""
    if random.random() < 0.25:
        return sst2(random)["sentence"], _acceptable(random)
    event = draw_event(random)
    other = _change_some(event, random.sample(SLOTS, random.choice((0, 0, 0, 1, 2))), random)
    second = _reword(other, random, general=True) if random.random() < 0.2 else retell(other, random)
    return retell(event, random), second


def _acceptable(random: Random) -> str:
    while True:
        row = cola(random)
        if row["label"] == 1:
            return str(row["sentence"])


GENERATORS: dict[str, Callable[[Random], GlueRow]] = {
    "sst2": sst2,
    "cola": cola,
    "mrpc": mrpc,
    "stsb": stsb,
    "rte": rte,
}


SIZES = {"train": 6000, "validation": 800}
PRETRAINING_PAIRS = 24000
VOCAB_SIZE = 800
_README = """---
configs:
{configs}---
GLUE-shaped data written by a seeded grammar, for demonstration: sentiment with negation (sst2), acceptability with
agreement errors (cola), paraphrase (mrpc), graded similarity (stsb), entailment (rte). Columns and label ids are those of
nyu-mll/glue.
"""


def make_data(output: Path, *, seed: int = 0, tasks: tuple[str, ...] = tuple(GENERATORS)) -> Record:
    """Makes `TASK/SPLIT-00000-of-00001.parquet`, `pretraining.txt` (a sentence a line, a document a pair), `tokenizer/` and a README
    that the Hub's tools read."""

    def work(directory: Path) -> dict[str, Any]:
        with steps("write data", total=len(tasks) + 2) as begin:
            for name in tasks:
                begin(name)
                write_task(directory, name, seed=seed)
            begin("pretraining.txt")
            random = Random(f"{seed} pretraining")
            pairs = ["\n".join(pretraining_pair(random)) for _ in range(PRETRAINING_PAIRS)]
            write_text(directory / "pretraining.txt", "\n\n".join(pairs) + "\n")
            begin("tokenizer")
            train_wordpiece(lambda: pairs, vocab_size=VOCAB_SIZE, max_length=128).save_pretrained(
                directory / "tokenizer"
            )
        configs = "".join(
            f"- config_name: {name}\n  data_files: [{{split: train, path: {name}/train-*}}, {{split: validation, path: {name}/validation-*}}]\n"
            for name in tasks
        )
        write_text(directory / "README.md", _README.format(configs=configs))
        return {"rows": dict.fromkeys(tasks, SIZES), "pretraining_pairs": PRETRAINING_PAIRS}

    return run_stage("demo-data", output, settings={"seed": seed, "tasks": list(tasks)}, parents={}, work=work)


def task_rows(name: str, *, seed: int) -> dict[str, list[GlueRow]]:
    """Rows of each split. No text stands twice, so nothing of validation was trained on."""
    random = Random(f"{seed} {name}")
    seen: set[tuple[str, ...]] = set()
    columns = get_task(name).columns
    splits = {}
    for split, size in SIZES.items():
        rows: list[GlueRow] = []
        while len(rows) < size:
            row = GENERATORS[name](random)
            text = tuple(row[column] for column in columns)
            if text not in seen:
                seen.add(text)
                rows.append({**row, "idx": len(rows)})
        splits[split] = rows
    return splits


def write_task(root: Path, name: str, *, seed: int) -> None:
    """Writes the splits of one task as parquet, with the features that nyu-mll/glue declares."""
    from datasets import ClassLabel, Dataset, Features, Value

    task = get_task(name)
    label = Value("float32") if task.is_regression else ClassLabel(names=list(task.labels))
    features = Features({**{column: Value("string") for column in task.columns}, "label": label, "idx": Value("int32")})
    (root / name).mkdir(parents=True, exist_ok=True)
    for split, rows in task_rows(name, seed=seed).items():
        file = root / name / f"{split}-00000-of-00001.parquet"
        with file.open("wb") as stream, late_errors(stream) as late:
            Dataset.from_list(rows, features=features).to_parquet(late)
