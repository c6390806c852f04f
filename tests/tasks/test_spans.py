"""Questions and spans: every form has the same rows, windows hold every token of a context, and what does not stand in its context is refused."""

import json
from dataclasses import replace

import pyarrow
import pyarrow.parquet
import pytest
from datasets import Dataset
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.choosing import choose_task
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.inspection import look_at
from hf_albert_plus.tasks.own_data import as_written, find_task, in_words, read_as
from hf_albert_plus.tasks.question_windows import MOST_CONTEXT_WINDOWS, answer_tokens, positions_in, question_rows
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import evaluated_splits, load_split
from hf_albert_plus.tasks.task_file import read_task, write_task
from tests.support.questions import as_squad, asked_questions, write_rows

ROWS = asked_questions(40)
WITHOUT = asked_questions(40, seed=1, without=0.4)


def written(directory, form, rows):
    if form == "jsonl":
        return write_rows(directory / "my.jsonl", rows)
    if form.startswith("squad"):
        path = directory / "my.json"
        path.write_text(json.dumps(as_squad(rows, version=form.removeprefix("squad "))))
        return path
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), directory / "my.parquet")
        return directory / "my.parquet"
    if form == "lists of objects":
        pairs = [zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True) for row in rows]
        listed = [[{"text": text, "answer_start": start} for text, start in each] for each in pairs]
        return write_rows(directory / "my.jsonl", [{**row, "answers": each} for row, each in zip(rows, listed, strict=True)])  # fmt: skip
    Dataset.from_list(rows).save_to_disk(directory / "my")
    return directory / "my"


def of_rows(rows):
    return sorted((row["question"], row["context"], str(row["answers"])) for row in rows)


@pytest.mark.parametrize("form", ["jsonl", "parquet", "lists of objects", "datasets", "squad 1.1", "squad v2.0"])
@pytest.mark.parametrize("without", [False, True])
def test_every_form_has_the_same_questions(tmp_path, form, without):
    if form == "squad 1.1" and without:
        pytest.skip("version 1.1 has no question without an answer")
    rows = WITHOUT if without else ROWS
    data = str(written(tmp_path, form, rows))
    task = find_task(data)
    assert (task.kind, task.columns, task.label_columns) == ("spans", ("question", "context"), ("answers",))
    assert task.may_lack_answer is without
    assert task.metrics[0] == "answer_f1"
    assert ("no_answer_accuracy" in task.metrics) is without
    assert "a span of 'context'" in in_words(data, task)
    assert in_words(data, task).endswith("(seed 42, all of a context and near-copies on one side)")
    parts = [load_split(data, task, split) for split in ("train", "validation")]
    assert of_rows({**row, "answers": row["label"]} for part in parts for row in part) == of_rows(rows)
    assert not set(parts[0]["context"]) & set(parts[1]["context"])
    write_task(tmp_path, task)
    assert read_task(tmp_path) == task
    as_written(load_split(data, replace(task, held_out=None), "train"), task).to_parquet(tmp_path / "again.parquet")
    again = replace(find_task(str(tmp_path / "again.parquet")), name=task.name, held_out=task.held_out)
    assert again == task


def test_files_are_called_as_squads_are(tmp_path):
    for name, rows in (("train-v2.0.json", WITHOUT), ("dev-v2.0.json", asked_questions(8, seed=2, without=0.5))):
        (tmp_path / name).write_text(json.dumps(as_squad(rows, version="v2.0")))
    task = find_task(str(tmp_path))
    assert task.held_out is None
    assert len(load_split(str(tmp_path), task, "validation")) == 8


@pytest.mark.parametrize("other", ["train-v2.0.json", "train.json"])
def test_several_versions_are_not_joined(tmp_path, other):
    for name in ("train-v1.1.json", other):
        (tmp_path / name).write_text(json.dumps(as_squad(ROWS, version="v2.0")))
    with pytest.raises(
        InvalidInput, match="must be of one version of SQuAD, got train-v1.1.json, train.*name its file"
    ):
        find_task(str(tmp_path))
    assert find_task(str(tmp_path / other)).kind == "spans"


def test_json_beside_a_table_is_not_read(tmp_path):
    write_rows(tmp_path / "train.jsonl", ROWS)
    (tmp_path / "train.json").write_text('{"epochs": 3}')
    write_rows(tmp_path / "validation-v2.jsonl", ROWS[:3])
    task = find_task(str(tmp_path))
    assert task.held_out is not None, "versions are of SQuAD's files alone"
    parts = [load_split(str(tmp_path), task, split) for split in ("train", "validation")]
    assert sum(map(len, parts)) == len(ROWS)


HIDDEN = [{**row, "answers": {"text": [], "answer_start": []}} for row in WITHOUT]


@pytest.mark.parametrize("rows", [ROWS, WITHOUT])
@pytest.mark.parametrize("form", ["empty lists", "null", "squad"])
def test_a_test_split_with_hidden_answers_is_not_scored(tmp_path, rows, form):
    train, test = ("train.json", "test.json") if form == "squad" else ("train.jsonl", "test.jsonl")
    hidden = HIDDEN if form == "empty lists" else [{**row, "answers": None} for row in HIDDEN]
    if form == "squad":
        (tmp_path / train).write_text(json.dumps(as_squad(rows, version="v2.0")))
        (tmp_path / test).write_text(json.dumps(as_squad(HIDDEN)))
    else:
        write_rows(tmp_path / train, rows)
        write_rows(tmp_path / test, hidden)
    task = find_task(str(tmp_path))
    assert list(evaluated_splits(str(tmp_path), task).values()) == ["validation"]
    unlabelled = load_split(str(tmp_path), task, "test", labelled=False)
    assert unlabelled["question"][:] == [row["question"] for row in HIDDEN]
    assert not any(each["text"] for each in unlabelled["label"])


def test_a_test_split_with_some_answers_is_scored(tmp_path):
    write_rows(tmp_path / "train.jsonl", WITHOUT)
    write_rows(tmp_path / "test.jsonl", [*HIDDEN, ROWS[0]])
    assert list(evaluated_splits(str(tmp_path), find_task(str(tmp_path))).values()) == ["validation", "test"]


def test_columns_of_other_names_are_named(tmp_path):
    rows = [{"q": row["question"], "passage": row["context"], "spans": row["answers"]} for row in ROWS]
    data = str(write_rows(tmp_path / "my.jsonl", rows))
    settings = DataSettings(kind="spans", text_column="q", text_pair_column="passage", label_column=("spans",))
    assert find_task(data, settings).columns == ("q", "passage")
    with pytest.raises(
        InvalidInput, match="spans are of the columns question, context and answers, got q, passage, spans"
    ):
        find_task(data, DataSettings(kind="spans"))


@pytest.mark.parametrize(
    ("named", "columns"),
    [
        ({"text_column": "q"}, ("q", "context")),
        ({"text_column": "q", "text_pair_column": "passage"}, ("q", "passage")),
        ({}, ("question", "context")),
    ],
)
def test_a_models_task_has_both_columns_where_one_is_named(tmp_path, named, columns):
    task = find_task(str(write_rows(tmp_path / "my.jsonl", ROWS)))
    assert read_as(task, DataSettings(**named)).columns == columns


def test_questions_with_other_answers_are_no_spans(tmp_path):
    rows = [{"question": row["question"], "context": row["context"], "label": ("yes", "no")[place % 2]} for place, row in enumerate(ROWS)]  # fmt: skip
    assert (
        find_task(str(write_rows(tmp_path / "my.jsonl", rows)), DataSettings(text_column="question")).kind == "classes"
    )


def with_answers(text, start):
    return {"question": "who ?", "context": "a sailor sold it", "answers": {"text": text, "answer_start": start}}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (with_answers(["sailor"], [3]), r"must stand where answer_start says.*got 'sailor' at 3, where the context has 'ailor ', in row 41 of .*it stands at 2: write that"),
        (with_answers(["sailor"], [14]), r"must lie in its context, which has 16 characters, got 'sailor' from 14 to 20 in row 41.*it stands at 2"),
        (with_answers(["sailor"], [-1]), "from -1 to 5 in row 41"),
        (with_answers(["baker"], [2]), "write an answer that is a part of its context, letter by letter"),
        (with_answers([" "], [1]), "an answer must have a text, got ' ' in row 41"),
        (with_answers(["a", "it"], [0]), r"texts and the character that each begins with, as many of one as of the other"),
        (with_answers(["a"], ["0"]), "type in every line|texts and the character that each begins with"),
        ({**with_answers([], []), "answers": None}, r"every question must have its answer, or say that it has none, got no value of 'answers' in row 41"),
        ({**with_answers([], []), "question": " "}, "column 'question' must have a text in every row, got ' ' in row 41"),
        ({**with_answers([], []), "context": ""}, "column 'context' must have a text in every row, got '' in row 41"),
        ({**with_answers([], []), "context": None}, "column 'context' must have a text in every row, got None in row 41"),
    ],
)  # fmt: skip
def test_wrong_rows_are_refused_with_their_place(tmp_path, row, said):
    data = write_rows(tmp_path / "my.jsonl", [*ROWS, row])
    with pytest.raises(InvalidInput, match=said):
        find_task(str(data))


@pytest.mark.parametrize("kind", [None, "spans"])
def test_answers_without_lists_are_refused(tmp_path, kind):
    rows = [{**row, "answers": {key: held[0] for key, held in row["answers"].items()}} for row in ROWS]
    data = str(write_rows(tmp_path / "my.jsonl", rows))
    with pytest.raises(InvalidInput, match=r"must be lists .*, got a text and a number in .*; write \{\"text\": \["):
        find_task(data, DataSettings(kind=kind))


def test_a_question_of_version_1_without_an_answer_is_refused(tmp_path):
    content = as_squad(ROWS)
    content["data"][0]["paragraphs"][1]["qas"][0]["answers"] = []
    (tmp_path / "my.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"no value of 'answers' in row 2 of .*\"is_impossible\": true"):
        find_task(str(tmp_path / "my.json"))


def test_a_question_without_an_answer_is_refused_where_training_rows_all_have_one(tmp_path):
    write_rows(tmp_path / "train.jsonl", ROWS)
    write_rows(tmp_path / "validation.jsonl", [with_answers(["a"], [0]), with_answers([], [])])
    with pytest.raises(InvalidInput, match="must have an answer, as those of its training rows, got none in row 2"):
        load_split(str(tmp_path), find_task(str(tmp_path)), "validation")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "my.json must be JSON"),
        ("{}", "must be an array of rows, or have the form of SQuAD's, got no list 'data' in the file"),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "no list 'qas' in paragraph 1 of article 1"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [3]}]}]}', "got 3 in paragraph 1"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "a", "answers": [{"text": "a", "answer_start": 0.5}]}]}]}]}', "answer_start whole numbers, got 0.5 in paragraph 1 of article 1"),
        ('{"data": [{"paragraphs": [{"context": 3, "qas": [{"question": "a", "answers": []}]}]}]}', "must be strings"),
    ],
)  # fmt: skip
def test_json_of_another_form_is_refused(tmp_path, content, said):
    (tmp_path / "my.json").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        find_task(str(tmp_path / "my.json"))


def encoded_as_transformers_does(tokenizer, row, *, max_length, stride):
    """The windows of transformers' own script for question answering, with the answers' positions by its rule."""
    encoded = tokenizer(row["question"], row["context"], truncation="only_second", max_length=max_length, stride=stride, return_overflowing_tokens=True, return_offsets_mapping=True)  # fmt: skip
    (text, *_), (start, *_) = row["answers"]["text"], row["answers"]["answer_start"]
    found = []
    for window, (ids, offsets) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):
        inside = [place for place, sequence in enumerate(encoded.sequence_ids(window)) if sequence == 1]
        covers = offsets[inside[0]][0] <= start and offsets[inside[-1]][1] >= start + len(text)
        first = max(place for place in inside if offsets[place][0] <= start) if covers else 0
        last = min(place for place in inside if offsets[place][1] >= start + len(text)) if covers else 0
        found.append((ids, first, last))
    return found


def test_windows_and_positions_are_those_of_transformers_script(tokenizer_dir, tmp_path):
    rows = asked_questions(12, seed=3, events=6)
    data = str(write_rows(tmp_path / "my.jsonl", rows))
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    task = replace(find_task(data), held_out=None)
    encoded = encode(load_split(data, task, "train"), task, tokenizer, max_length=40).to_list()
    assert len(encoded) > 2 * len(rows)
    for number, row in enumerate(rows):
        ours = [each for each in encoded if each["question"] == number]
        beside = sum(sequence != 1 for sequence in tokenizer(row["question"], "a").sequence_ids())
        theirs = encoded_as_transformers_does(tokenizer, row, max_length=40, stride=(40 - beside) // 2)
        said = [(each["input_ids"], each["start_positions"], each["end_positions"]) for each in ours]
        # The last of ours begins earlier, and is as long as the others.
        assert said[: len(theirs) - 1] == theirs[:-1]
        assert len(ours) == len(theirs)
        assert ours[-1]["input_ids"][-8:] == theirs[-1][0][-8:]
        assert {len(each["input_ids"]) for each in ours} == {40}
        for each in ours:
            first, last = each["start_positions"], each["end_positions"]
            if first:
                start, end = each["characters"][first - each["first"]][0], each["characters"][last - each["first"]][1]
                assert row["context"][start:end] == row["answers"]["text"][0]
                begin = each["text_start"]
                assert each["text"] == row["context"][begin : begin + len(each["text"])]
                assert each["text"][start - begin : end - begin] == row["answers"]["text"][0]


def test_every_token_of_a_context_is_in_a_window_with_its_question_whole(tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    question, context = "who found the car ?", "the doctor found the car . " * 30
    encoded = tokenizer(question, context, return_offsets_mapping=True)
    offsets, sequences = encoded.pop("offset_mapping"), encoded.sequence_ids(0)
    rows = question_rows(dict(encoded), sequences=sequences, offsets=offsets, context=context, max_length=24)
    tokens = [token for token, sequence in zip(encoded["input_ids"], sequences, strict=True) if sequence == 1]
    seen = {}
    for row in rows:
        assert row["input_ids"][: row["first"]] == encoded["input_ids"][: row["first"]]
        part = row["input_ids"][row["first"] : -1]
        seen |= {row["token"] + place: token for place, token in enumerate(part)}
        assert len(row["input_ids"]) == 24
    assert [seen[place] for place in range(len(tokens))] == tokens


def test_positions_by_hand():
    row = {"first": 5, "token": 3, "characters": [[10, 12], [13, 15], [15, 16], [17, 20]]}
    characters = [(0, 2), (3, 5), (6, 9), (10, 12), (13, 15), (15, 16), (17, 20), (21, 23)]
    assert answer_tokens(characters, (13, 16)) == range(4, 6)
    assert answer_tokens(characters, (14, 18)) == range(4, 7)
    assert answer_tokens(characters, (12, 13)) == range(0)
    assert positions_in(row, range(4, 6)) == (6, 7)
    assert positions_in(row, range(3, 7)) == (5, 8)
    for outside in (range(2, 4), range(6, 8), range(0)):
        assert positions_in(row, outside) == (0, 0)


def test_a_question_that_leaves_no_room_is_refused(tokenizer_dir, tmp_path):
    rows = [*ROWS, {**ROWS[0], "question": "who " * 30}]
    data = str(write_rows(tmp_path / "my.jsonl", rows))
    task = replace(find_task(data), held_out=None)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    with pytest.raises(
        InvalidInput,
        match=r"must leave room for 8 tokens of its context within 32 tokens, got question 41, .*or raise --max-length",
    ):
        encode(load_split(data, task, "train"), task, tokenizer, max_length=32)


@pytest.mark.slow
def test_what_is_beyond_the_windows_that_are_read_is_said(tokenizer_dir, tmp_path):
    long = {**ROWS[0], "context": "no " * 300_000 + ROWS[0]["context"]}
    text, start = ROWS[0]["answers"]["text"][0], long["context"].rindex(ROWS[0]["answers"]["text"][0])
    long["answers"] = {"text": [text], "answer_start": [start]}
    data = str(write_rows(tmp_path / "my.jsonl", [long, *ROWS[1:]]))
    task = replace(find_task(data), held_out=None)
    facts = look_at(data, task, tokenizer=AutoTokenizer.from_pretrained(tokenizer_dir), max_length=40)
    assert facts.windows[1] == MOST_CONTEXT_WINDOWS
    assert facts.lost_answers == pytest.approx(1 / len(ROWS))
    assert any("beyond the 128 that are read" in warning for warning in facts.warnings)
    assert any("fewer than 128 windows of 40 tokens" in warning for warning in facts.warnings)


@pytest.mark.parametrize("way", ["head-tail", "windows"])
def test_another_way_with_long_texts_is_refused(tmp_path, way):
    data = str(write_rows(tmp_path / "my.jsonl", ROWS))
    with pytest.raises(InvalidInput, match=f"--long {way} is for tasks of labels, .*long contexts are always read in"):
        choose_task(data, settings=DataSettings(long=way))
    assert choose_task(data, settings=DataSettings(long="cut")) == find_task(data)


def test_a_slow_tokenizer_is_refused(tmp_path):
    data = str(write_rows(tmp_path / "my.jsonl", ROWS))

    class Slow:
        is_fast = False

    with pytest.raises(InvalidInput, match="needs a fast tokenizer"):
        encode(load_split(data, find_task(data), "train"), find_task(data), Slow(), max_length=40)


def test_a_tokenizer_that_pads_on_the_left_is_refused(tokenizer_dir, tmp_path):
    data = str(write_rows(tmp_path / "my.jsonl", ROWS))
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir, padding_side="left")
    with pytest.raises(InvalidInput, match="pads on the right, where it moves no position, got padding_side 'left'"):
        encode(load_split(data, find_task(data), "train"), find_task(data), tokenizer, max_length=40)


def test_characters_are_code_points_of_the_context_as_it_came(tokenizer_dir, tmp_path):
    context = "e\u0301te\u0301 👩‍👩‍👧 : the sailor waits in Zürich ."
    row = {"question": "who waits ?", "context": context, "answers": {"text": ["the sailor"], "answer_start": [context.index("the sailor")]}}  # fmt: skip
    data = str(write_rows(tmp_path / "my.jsonl", [row, *ROWS]))
    task = replace(find_task(data), held_out=None)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    encoded = encode(load_split(data, task, "train"), task, tokenizer, max_length=64)[0]
    part = encoded["input_ids"][encoded["start_positions"] : encoded["end_positions"] + 1]
    assert tokenizer.decode(part) == "the sailor"
