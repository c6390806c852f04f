"""Forms in which public data sets are published, in rows made up here: what is found in each, or how it is refused and that the repair works."""

import json
import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split

ROWS = 24
_THINGS = ("harbour", "kettle", "meadow", "lantern", "orchard", "violin")


def text_of(number):
    return f"our {_THINGS[number % 6]} was seen by {number} people today"


def fields(number):
    """What stands in braces in a row of a form."""
    words = ["Ada", "Lund", "sold", _THINGS[number % 6], "here", f"{number:02}"]
    return {
        "n": number,
        "text": text_of(number),
        "other": f"nobody saw the {_THINGS[number % 5]} of street {number}",
        "word": ("good", "bad")[number % 2],
        "three": ("red", "green", "blue")[number % 3],
        "bit": number % 2,
        "truth": json.dumps(number % 2 == 1),
        "half": number / 2 + 0.5,
        "comma": f"{number // 2},{5 * (number % 2)}",
        "tokens": json.dumps(words),
        "listed": repr(words),
        "joined": " ".join(words),
        "words": words,
        "tags": json.dumps(TAGS),
        "tags_listed": repr(TAGS),
        "ids": json.dumps([1, 2, 0, 3, 0, 0]),
    }


TAGS = ["B-who", "I-who", "O", "B-what", "O", "O"]


def table(first, row):
    """A file of a first line and a line a row."""
    return first + "".join(row.format(**fields(number)) for number in range(ROWS))


def sentences(line, *, before="", after="\n"):
    """A file of columns: a line a word, of which `w` is the word, `t` its tag and `i` its number."""
    return "".join(
        before.format(n=number)
        + "".join(
            line.format(w=word, t=tag, i=place)
            for place, (word, tag) in enumerate(zip(fields(number)["words"], TAGS, strict=True), start=1)
        )
        + after
        for number in range(ROWS)
    )


class Form(NamedTuple):
    """A published form.

    Attributes:
        texts, labels: the columns that are found.
        names: the task's labels.
        second: the label of the second row.
    """

    name: str
    file: str
    content: str | bytes
    texts: str
    labels: str
    kind: str
    names: tuple[str, ...]
    second: object


GOOD, COLOURS, BITS, NUMBER = ("bad", "good"), ("blue", "green", "red"), ("0", "1"), ()
TAG_NAMES = ("O", "B-what", "B-who", "I-who")

FOUND = [
    Form("texts with commas and a category", "my.csv", table("text,category\n", '"{text}, {other}",{word}\n'), "text", "category", "classes", GOOD, "bad"),
    Form("label first", "my.csv", table("label,review\n", "{bit},{text}\n"), "review", "label", "classes", BITS, "1"),
    Form("id, time, message, emotion", "my.csv", table("id,timestamp,message,emotion\n", "{n},2021-03-0{bit} 10:00,{text},{three}\n"), "message", "emotion", "classes", COLOURS, "green"),
    Form("a polarity", "my.csv", table("comment,polarity\n", "{text},{word}\n"), "comment", "polarity", "classes", GOOD, "bad"),
    Form("an emotion beside a label", "my.csv", table("text,label,emotion\n", "{text},{word},{three}\n"), "text", "label", "classes", GOOD, "bad"),
    Form("an index without a name", "my.csv", table(",text,label\n", "{n},{text},{word}\n"), "text", "label", "classes", GOOD, "bad"),
    Form("several columns without a name", "my.csv", table("v1,v2,,,\n", "{word},{text},,,\n"), "v2", "v1", "classes", GOOD, "bad"),
    Form("Excel's first line", "my.csv", table("sep=;\r\nText;Kategorie\r\n", "{text}, wie zuvor;{word}\r\n"), "Text", "Kategorie", "classes", GOOD, "bad"),
    Form("UTF-16", "my.csv", table("Text;Kategorie\n", "{text} für alle;{word}\n").encode("utf-16"), "Text", "Kategorie", "classes", GOOD, "bad"),
    Form("numbered rows in German", "my.csv", table("Nr;Kommentar;Farbe\n", "{n};{text};{three}\n"), "Kommentar", "Farbe", "classes", COLOURS, "green"),
    Form("decimal commas", "my.csv", table("Text;Wert\n", "{text};{comma}\n"), "Text", "Wert", "number", NUMBER, 0.5),
    Form("decimal commas in every label", "my.csv", table("text;labels\n", "{text};{comma}\n"), "text", "labels", "number", NUMBER, 0.5),
    Form("classes with a point", "my.csv", table("text,label\n", "{text},{bit}.0\n"), "text", "label", "classes", BITS, "1"),
    Form("label_id", "my.csv", table("text,label_id\n", "{text},{bit}\n"), "text", "label_id", "classes", BITS, "1"),
    Form("a language's id", "my.csv", table("text,language_id\n", "{text},{bit}\n"), "text", "language_id", "classes", BITS, "1"),
    Form("a class called as its column", "my.csv", table("tweet,good\n", "{text},{word}\n"), "tweet", "good", "classes", GOOD, "bad"),
    Form("pandas' names of columns", "my.csv", table(",0,1\n", "{n},{text},{bit}\n"), "0", "1", "classes", BITS, "1"),
    Form("a question for a name, and an empty column", "my.csv", table("What did our people say of this?,label,\n", "{text},{word},\n"), "What did our people say of this?", "label", "classes", GOOD, "bad"),
    Form("columns of 0 and 1, some without a 1", "my.csv", table("id,comment_text,rude,threat,spam\n", "x{n},{text},{bit},0,0\n"), "comment_text", "rude threat spam", "labels", ("rude", "threat", "spam"), {"rude"}),
    Form("pairs with ids of each", "my.csv", table("id,qid1,qid2,question1,question2,is_duplicate\n", "{n},{n}1,{n}2,{text},{other},{bit}\n"), "question1 question2", "is_duplicate", "classes", BITS, "1"),
    Form("pairs with a judgement", "my.tsv", table("pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n", "{n}\t{text}\t{other}\t{three}\n"), "sentence_A sentence_B", "entailment_judgment", "classes", COLOURS, "green"),
    Form("pairs with parses", "my.jsonl", table("", '{{"captionID": "{n}.jpg", "gold_label": "{three}", "pairID": "{n}e", "sentence1": "{text}", "sentence1_parse": "(S {text})", "sentence2": "{other}"}}\n'), "sentence1 sentence2", "gold_label", "classes", COLOURS, "green"),
    Form("scores of pairs, quotes as letters", "my.tsv", table("genre\tscore\tsentence1\tsentence2\n", 'news\t{half}\t"{text}\t{other} "so" it is\n'), "sentence1 sentence2", "score", "number", NUMBER, 1.0),
    Form("a stance to a target", "my.tsv", table("ID\tTarget\tTweet\tStance\n", "{n}\t{three}\t{text}\t{word}\n"), "Tweet", "Stance", "classes", GOOD, "bad"),
    Form("a stance to a topic", "my.csv", table("topic,argument,stance\n", "{three},{text},{word}\n"), "argument", "stance", "classes", GOOD, "bad"),
    Form("tweets with much beside them", "my.csv", table("tweet_id,airline_sentiment,airline_sentiment_confidence,airline,name,text,tweet_created\n", '{n},{word},{half},{three},u{n},"@you ""{text}"" 😀",2015-02-24 11:35:52\n'), "text", "airline_sentiment", "classes", GOOD, "bad"),
    Form("lists of words beside an id", "my.jsonl", table("", '{{"post_id": "{n}_x", "post_tokens": {tokens}, "label": "{word}"}}\n'), "post_tokens", "label", "classes", GOOD, "bad"),
    Form("truths that are the same in every row", "my.jsonl", table("", '{{"text": "{text}", "truncated": false, "favorited": false, "is_spam": {truth}}}\n'), "text", "is_spam", "classes", ("false", "true"), "true"),
    Form("lists of numbers", "my.jsonl", table("", '{{"text": "{text}", "labels": [{bit}, 7], "id": "e{n}"}}\n'), "text", "labels", "labels", ("0", "1", "7"), {"1", "7"}),
    Form("lists as Python prints them", "my.csv", table("summary,terms\n", "{text},\"['{three}', 'all']\"\n"), "summary", "terms", "labels", ("all", "blue", "green", "red"), {"all", "green"}),
    Form("an array of objects", "my.json", json.dumps([{"text": text_of(n), "label": fields(n)["word"]} for n in range(ROWS)], indent=1), "text", "label", "classes", GOOD, "bad"),
    Form("JSON, an object a line", "my.json", table("", '{{"text": "{text}", "label": "{word}"}}\n'), "text", "label", "classes", GOOD, "bad"),
    Form("JSON by columns", "my.json", json.dumps({"text": {n: text_of(n) for n in range(ROWS)}, "label": {n: fields(n)["word"] for n in range(ROWS)}}), "text", "label", "classes", GOOD, "bad"),
    Form("four columns with documents", "my.conll", "-DOCSTART- -X- -X- O\n\n" + sentences("{w} NNP B-NP {t}\n"), "words", "tags", "tags", TAG_NAMES, TAGS),
    Form("blank lines with a tab", "my.conll", sentences("{w}\t{t}\n", after="\t\n"), "words", "tags", "tags", TAG_NAMES, TAGS),
    Form("tags before words", "my.bio", sentences("{t}\t{w}\n"), "words", "tags", "tags", TAG_NAMES, TAGS),
    Form("a remark before each sentence", "my.conll", sentences("{w} _ _ {t}\n", before="# id {n}\tdomain=en\n"), "words", "tags", "tags", TAG_NAMES, TAGS),
    Form("words and names of tags", "my.jsonl", table("", '{{"id": "{n}", "tokens": {tokens}, "ner_tags": {tags}}}\n'), "tokens", "ner_tags", "tags", TAG_NAMES, TAGS),
    Form("words and numbers of tags", "my.jsonl", table("", '{{"id": "{n}", "tokens": {tokens}, "ner_tags": {ids}}}\n'), "tokens", "ner_tags", "tags", ("0", "1", "2", "3"), list("120300")),
    Form("a text beside its words and tags", "my.jsonl", table("", '{{"text": "{joined}", "tokens": {tokens}, "tags": {tags}}}\n'), "tokens", "tags", "tags", TAG_NAMES, TAGS),
    Form("another text beside words and tags", "my.jsonl", table("", '{{"text": "{text}", "tokens": {tokens}, "tags": {tags}}}\n'), "text", "tags", "labels", ("B-what", "B-who", "I-who", "O"), set(TAGS)),
    Form("lists in Python in a csv", "my.tsv", table("tokens\tner_tags\n", "{listed}\t{tags_listed}\n"), "tokens", "ner_tags", "tags", TAG_NAMES, TAGS),
    Form("lists in JSON in a tsv", "my.tsv", table("tokens\ttags\n", "{tokens}\t{tags}\n"), "tokens", "tags", "tags", TAG_NAMES, TAGS),
]  # fmt: skip


def everything(data, task):
    """Text -> label by its name, of all rows; a pair goes by its first text."""
    found = {}
    for row in (row for split in ("train", "validation") for row in load_split(data, task, split)):
        text, label = row[task.columns[0]], row["label"]
        if task.kind == "tags":
            found[" ".join(text)] = [task.labels[tag] for tag in label]
        elif task.kind == "labels":
            found[text] = {name for name, held in zip(task.labels, label, strict=True) if held}
        else:
            found[text] = label if task.kind == "number" else task.labels[label]
    return found


@pytest.mark.parametrize("form", FOUND, ids=lambda form: form.name)
def test_what_is_found(tmp_path, form):
    path = tmp_path / form.file
    path.write_bytes(form.content if isinstance(form.content, bytes) else form.content.encode())
    task = find_task(str(path))
    assert (" ".join(task.columns) if " " in form.texts and len(task.columns) > 1 else task.columns[0]) == form.texts
    assert " ".join(task.label_columns) == form.labels
    assert (task.kind, task.labels) == (form.kind, form.names)
    found = everything(str(path), task)
    assert len(found) == ROWS
    (second,) = [label for text, label in found.items() if text_of(1) in text or fields(1)["joined"] in text]
    assert second == pytest.approx(form.second) if form.kind == "number" else second == form.second


def with_names(path, message):
    """The line of names that the message has."""
    names = re.search(r"before it, as (.*?);", message)[1].replace("<TAB>", "\t")
    path.write_text(f"{names}\n{path.read_text()}")
    return path


def changed(old, new):
    """Replaces something in the whole file."""

    def change(path, message):
        path.write_text(re.sub(old, new, path.read_text()))
        return path

    return change


def by_the_command(path, message):
    """Types what stands after the last colon."""
    command = message.rpartition("say: ")[2]
    subprocess.run(command, shell=True, check=True, timeout=60)
    return Path(shlex.split(command)[-1])


def with_settings(**settings):
    """The options that the message names."""

    def check(path, message):
        for name, value in settings.items():
            named = "" if name == "label_column" else str(value)
            assert f"--{name.replace('_', '-')} {named or 'NAME'}" in message or "--text-column NAME" in message
        return path

    check.settings = settings
    return check


REFUSED = [
    ("no names: a class, a title, a text", "my.csv", table("", '"{bit}","Short {three}","{text}"\n'), "must have the names of its columns, got 'our harbour was seen by 0 people today' and '0'", with_names),
    ("no names: a class, dates and a text", "my.csv", table("", '"{bit}","{n}","Mon Apr 06 22:19 2009","NONE","u{n}","@x {text}"\n'), "add a line with the names before it, as label,column2,column3,column4,column5,text", with_names),
    ("no names: a short text", "my.tsv", "good\tOk, fine...\n" + table("", "{word}\t{text}...\n"), "got 'Ok, fine...' and 'good'", with_names),
    ("no names: pairs and a number", "my.tsv", "what is this then\twho is that\t2.25\n" + table("", "{text}\t{other}\t{half}\n"), "must have the names of its columns, got 'what is this then' and '2.25'", with_names),
    ("names twice", "my.csv", 2 * table("text,label\n", "{text},{word}\n"), r"must stand in its first line alone, got text, label again in line 26", changed(r"(?<=\n)text,label\n", "")),
    ("only ids of documents", "my.csv", table("doc_id,text\n", "{bit},{text}\n"), "one column must be the label", with_settings(label_column=("doc_id",))),
    ("only users and times", "my.csv", table("user_id,created_at,text\n", "{bit},2020-01-01,{text}\n"), "one column must be the label", with_settings(label_column=("user_id",))),
    ("only ids of tweets", "my.csv", table("tweet_id,label\n", "{n}5,{word}\n"), "one column must be the text, .* got tweet_id", with_settings(text_column="tweet_id")),
    ("two texts", "my.tsv", table("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "{bit}\t{n}\t{n}5\t{text}\t{other}\n"), "got #1 String, #2 String", with_settings(text_column="'#1 String'", text_pair_column="'#2 String'")),
    ("two labels, or a decimal comma", "my.tsv", table("text\tlabels\tid\n", "{text}\t2{bit}{comma}\te{n}\n").replace("0,5", "0"), "several labels, or numbers with a decimal comma, got", with_settings(kind="labels")),
    ("nan among numbers", "my.csv", table("text,score\n", "{text},{half}\n") + "a last text of ours,nan\n", "must have a number in every row, got 1 without one of 25 .* first 'nan' in row 25; fill in or drop those rows", changed(r".*,nan\n", "")),
    ("a row too long", "my.csv", table("Text;Farbe\n", "{text}, so;{word}\n") + "one;good;bad\n", r"must have its 2 columns \(Text, Farbe\), got 3 in the row that begins in line 26", changed("one;good;bad", '"one;good";bad')),
    ("a column of several types", "my.jsonl", table("", '{{"text": "{text}", "label": "{word}", "meta": 1}}\n') + '{"text": "a", "label": "good", "meta": "x"}\n', "column 'meta' must have values of one type .* or leave that column out", changed(r', "meta": [^}]*', "")),
    ("tags without a kind", "my.conll", sentences("{w} {t}\n").replace("-who", "").replace("-what", ""), "must be written as B-PER and I-PER, got 'B' and 'I' in .* write B-X and I-X", changed(r"(?m) ([BI])$", r" \1-X")),
    ("tags with another mark", "my.conll", sentences("{w} {t}\n").replace("-who", "_who").replace("-what", "_what"), "got 'B_who' and 'I_who' in .* write B-who and I-who", changed("_wh", "-wh")),
    ("tags the other way round", "my.conll", re.sub(r"([BI])-(\w+)", r"\2-\1", sentences("{w} {t}\n")), "got 'who-B' and 'who-I' in .* write B-who and I-who", changed(r"(\w+)-([BI])\b", r"\2-\1")),
    ("numbered words", "my.conll", sentences("{i}\t{w}\t{w}\t{t}\t_\n", before="# sent_id = {n}\n# text = x y\n"), "first column of my.conll must be words, got 1, 2, 3, 4", by_the_command),
    ("numbered words and a source", "my.conll", sentences("{i}\t{w}\t{t}\n", before="#\thttp://example.org/{n} [2010-01-01]\n"), "first column of my.conll must be words", by_the_command),
    ("a sentence a line", "my.iob", table("", "BOS {joined} EOS\tO B-who I-who O B-what O O {word}\n"), "one word and its tag, got 8 tags in line 1", lambda path, message: as_words(path)),
    ("lists of sentences", "my.jsonl", table("", '{{"abstract_id": "a{n}", "sentences": ["{text}", "{other}"], "labels": ["aim", "{word}"]}}\n'), "tags are of single words, got .* write a row for each of these texts", lambda path, message: a_row_each(path)),
    ("an object of lists", "my.json", json.dumps({"train": [[text_of(n), "x"] for n in range(9)]}), r"must be an array of rows, or have the form of SQuAD's, got no list 'data' .* \[\{\"text\": …, \"label\": …\}, …\]", lambda path, message: as_objects(path)),
]  # fmt: skip


def as_words(path):
    lines = []
    for line in path.read_text().splitlines():
        words, tags = (part.split(" ") for part in line.split("\t"))
        lines += [f"{word}\t{tag}" for word, tag in zip(words[1:-1], tags[1:-1], strict=True)] + [""]
    path.write_text("\n".join(lines))
    return path


def a_row_each(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    each = [pair for row in rows for pair in zip(row["sentences"], row["labels"], strict=True)]
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in each))
    return path


def as_objects(path):
    rows = json.loads(path.read_text())["train"]
    path.write_text(json.dumps([{"text": text, "label": "ab"[n % 2]} for n, (text, _) in enumerate(rows)]))
    return path


@pytest.mark.parametrize(("file", "content", "said", "mend"), [form[1:] for form in REFUSED], ids=[form[0] for form in REFUSED])  # fmt: skip
def test_what_is_refused_and_its_repair(tmp_path, file, content, said, mend):
    path = tmp_path / file
    path.write_text(content)
    with pytest.raises(InvalidInput, match=said) as refused:
        find_task(str(path))
    mended = mend(path, str(refused.value))
    settings = {
        name: value.strip("'") if isinstance(value, str) else value
        for name, value in getattr(mend, "settings", {}).items()
    }
    task = find_task(str(mended), DataSettings(**settings))
    found = everything(str(mended), task)
    assert len(found) >= 9
    held = Counter(name for label in found.values() for name in (label if isinstance(label, list | set) else [label]))
    assert len(held) > 1
