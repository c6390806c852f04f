"""Sentences of the demo's grammar with a tag for each word."""

import json
from random import Random

from hf_albert_plus.demo.grammar import draw_event


def tagged_sentences(count, *, seed=0):
    """Lists of words, and their tags in IOB2: who, what, where and when."""
    random, sentences = Random(seed), []
    for _ in range(count):
        event = draw_event(random)
        parts = [
            ("the", None), (event.agent.singular, "who"), (event.verb.past, None), ("the", None), (event.patient.singular, "what"),
            ("in the", None), (random.choice(event.place), "where"), (random.choice(event.time), "when"), (".", None),
        ]  # fmt: skip
        words, tags = [], []
        for text, label in parts:
            for number, word in enumerate(text.split()):
                words.append(word)
                tags.append("O" if label is None else f"{'I' if number else 'B'}-{label}")
        sentences.append((words, tags))
    return sentences


def write_tagged(path, sentences):
    """Writes them as jsonl."""
    rows = ({"tokens": words, "ner_tags": tags} for words, tags in sentences)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
