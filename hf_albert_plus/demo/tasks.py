"""Five GLUE-shaped tasks over the grammar. Each takes several words together: no single word gives a label away."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from .grammar import SLOTS, Event, change, draw_event, retell, tell
from .lexicon import BAD, GOOD, INTENSIFIERS, INTRANSITIVE, PEOPLE, PLACES, SUBJECTS

Row = dict[str, Any]


def sst2(random: Random) -> Row:
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


def cola(random: Random) -> Row:
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


def mrpc(random: Random) -> Row:
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


def stsb(random: Random) -> Row:
    """Similarity from 0 to 5: the number of slots that two events share."""
    event = draw_event(random)
    other = _change_some(event, random.sample(SLOTS, random.randint(0, len(SLOTS))), random)
    shared = sum(getattr(event, slot) == getattr(other, slot) for slot in SLOTS)
    first, second = (tell(told, random, synonyms=0.3, front_time=random.random() < 0.3) for told in (event, other))
    return {"sentence1": first, "sentence2": second, "label": float(shared)}


def rte(random: Random) -> Row:
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


GENERATORS: dict[str, Callable[[Random], Row]] = {"sst2": sst2, "cola": cola, "mrpc": mrpc, "stsb": stsb, "rte": rte}

__all__ = ["GENERATORS", "Row", "pretraining_pair"]
