"""Questions about events of the demo's grammar: who, what, where and when, with contexts that tell several; and a small model with random weights."""

import json
from random import Random

import torch
from transformers import AutoTokenizer

from hf_albert_plus.demo.grammar import draw_event, tell
from hf_albert_plus.modeling_albert_plus import AlbertPlusForQuestionAnswering
from tests.support.small_models import randomise, small_config

# Questions with their contexts, of several scripts and lengths.
ASKED = [
    ("who found the car ?", "the doctor found the car in the garden last week ."),
    ("où ?", "e\u0301te\u0301 à Zürich 👩‍👩‍👧 o'clock, café\u0301"),
    ("what ?", "no"),
    ("(when) ?", "(a , b)!\u00a0東京の天気 שלום…"),
    ("who sold the lamp ?", "the sailor sold the lamp in the harbour at dusk . " * 12),
]


def asked_questions(count, *, seed=0, events=2, without=0.0):
    """Rows as `datasets` has SQuAD's.

    Args:
        events: that a context tells.
        without: the share of the questions about an event that their context does not tell.
    """
    random, rows = Random(seed), []
    for number in range(count):
        told = [draw_event(random) for _ in range(events)]
        sentences = [tell(event, random) for event in told]
        context = " ".join(sentences)
        place = random.randrange(events)
        event, start = told[place], sum(len(sentence) + 1 for sentence in sentences[:place])
        is_there = random.random() >= without
        if not is_there:
            event = next(
                other for other in iter(lambda: draw_event(random), None) if other.patient.singular not in context
            )
        thing, verb = event.patient.singular, event.verb
        question, answer = random.choice([
            (f"who {verb.past} the {thing} ?", f"the {event.agent.singular}"),
            (f"where was the {thing} {verb.participle} ?", f"in the {event.place[0]}"),
            (f"when was the {thing} {verb.participle} ?", event.time[0]),
        ])  # fmt: skip
        answers = (
            {"text": [answer], "answer_start": [context.index(answer, start)]}
            if is_there
            else {"text": [], "answer_start": []}
        )
        rows.append({"id": f"q{seed}-{number}", "question": question, "context": context, "answers": answers})
    return rows


def write_rows(path, rows):
    """Writes rows as jsonl."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def as_squad(rows, *, version="1.1"):
    """The same rows as SQuAD's own files have them, a paragraph each, two to an article."""
    paragraphs = []
    for row in rows:
        pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        asked = {
            "id": row["id"],
            "question": row["question"],
            "answers": [{"text": text, "answer_start": start} for text, start in pairs],
        }
        if version != "1.1":
            asked["is_impossible"] = not asked["answers"]
            asked["plausible_answers"] = [] if asked["answers"] else [{"text": row["context"][:3], "answer_start": 0}]
        paragraphs.append({"context": row["context"], "qas": [asked]})
    articles = [
        {"title": f"article {place}", "paragraphs": paragraphs[place : place + 2]}
        for place in range(0, len(paragraphs), 2)
    ]
    return {"version": version, "data": articles}


def make_answerer(directory, tokenizer_dir, **fields):
    """Writes a model of spans whose logits differ from token to token, with its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    labels = {"id2label": {0: "start", 1: "end"}, "label2id": {"start": 0, "end": 1}}
    torch.manual_seed(2)  # of the weights that `randomise` adds to: some of `ASKED` have no answer, and by far
    model = randomise(
        AlbertPlusForQuestionAnswering(small_config(vocab_size=len(tokenizer), num_hidden_layers=2, **labels, **fields))
    )
    with torch.no_grad():
        encoded = tokenizer(
            *zip(*ASKED[:4], strict=True), padding=True, truncation=True, max_length=64, return_tensors="pt"
        )
        output = model(**encoded)
        logits = torch.stack([output.start_logits, output.end_logits], dim=-1)[encoded["attention_mask"].bool()]
        sizes = 3 / logits.std(dim=0)
        model.qa_outputs.weight.mul_(sizes[:, None])
        model.qa_outputs.bias.sub_(logits.mean(dim=0)).mul_(sizes)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model
