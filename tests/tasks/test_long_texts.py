"""Long texts as rows: every way against the definition and against the tokenizer, and the setting on its way through task.json."""

import json
from dataclasses import replace

import numpy
import pytest
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.model_inputs import IGNORED
from hf_albert_plus.tasks.choosing import choose_task
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.inspection import look_at
from hf_albert_plus.tasks.joined_answers import text_logits, token_values
from hf_albert_plus.tasks.long_texts import MOST_WINDOWS, LongTexts, is_whole
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.task import Task
from hf_albert_plus.tasks.task_file import describe_task, read_task, task_of, write_task
from hf_albert_plus.tasks.windows import windows
from hf_albert_plus.tasks.word_pieces import UNSEEN

WORDS = ["a", "good", "film", "with", "bad", "plot", "and", "the", "cast", "is", "not", "great", "at", "all"]
LONG = " ".join(WORDS[number % len(WORDS)] for number in range(60))
CLASSES = Task(
    name="mine", columns=("text",), labels=("no", "yes"), metrics=("accuracy",), epochs=1, batch_size=8, max_length=16
)
PAIRS = replace(CLASSES, columns=("text", "other"))
TAGS = replace(CLASSES, columns=("words",), labels=("O", "X"), kind="tags", tag_scheme="plain")
WINDOWS, ENDS = LongTexts("windows"), LongTexts("head-tail")


def fake_bytes_tokenizer():
    """A RoBERTa of 256 bytes: four special tokens around a pair, and none between its halves that is of one."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocab = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())])}  # fmt: skip
    return RobertaTokenizer(vocab=vocab, merges=[])


def sequences_of(first, second=None):
    """As a BERT's tokenizer has them."""
    pair = [] if second is None else [*[1] * second, None]
    return [None, *[0] * first, None, *pair]


@pytest.mark.parametrize("size", [5, 8, 9, 16])
def test_windows_hold_every_token_and_each_answers_once(size):
    for length in range(1, 40):
        for overlap in (None, 0, 1, size // 2):
            sequences = sequences_of(length)
            pieces = LongTexts("windows", overlap).pieces(sequences, size=size)
            answered = [piece.places[own] for piece in pieces for own in piece.answered]
            assert answered == list(range(length + 2))
            assert is_whole(pieces, len(sequences))
            for piece in pieces:
                assert len(piece.places) <= size
                assert (piece.places[0], piece.places[-1]) == (0, length + 1)
                inside = piece.places[1:-1]
                assert inside == list(range(inside[0], inside[-1] + 1))
            # In no other window has a token more beside it on its poorer side.
            for piece in pieces:
                for own in piece.answered:
                    place = piece.places[own]
                    if not 0 < place < length + 1:
                        continue
                    beside = [_beside(place, other) for other in pieces]
                    assert _beside(place, piece) == max(beside)


def _beside(place, piece):
    inside = piece.places[1:-1]
    return min(place - inside[0], inside[-1] - place) if place in inside else -1


def test_windows_of_a_pair_are_of_the_second_text():
    pieces = WINDOWS.pieces(sequences_of(4, 30), size=16)
    # 16 less three special tokens and the first text of four leave nine, of which two are shared.
    assert [piece.places[6:-1] for piece in pieces] == [list(range(6 + start, 15 + start)) for start in (0, 7, 14, 21)]
    assert all(piece.places[:6] == list(range(6)) and piece.places[-1] == 36 for piece in pieces)
    assert is_whole(pieces, 37)


def test_a_first_text_leaves_the_second_half_of_the_room():
    (only,) = WINDOWS.pieces(sequences_of(30, 3), size=16)
    assert only.places == [*range(11), 31, 32, 33, 34, 35]
    pieces = WINDOWS.pieces(sequences_of(30, 30), size=17)
    assert len(pieces) > 1
    assert all(piece.places[:9] == [*range(8), 31] for piece in pieces)
    assert not is_whole(pieces, 63)


def test_head_and_tail_are_the_papers_at_its_length():
    (only,) = ENDS.pieces(sequences_of(1000), size=512)
    assert only.places == [0, *range(1, 129), *range(1001 - 382, 1001), 1001]
    (only,) = ENDS.pieces(sequences_of(4, 30), size=16)
    assert only.places == [*range(6), 6, 7, *range(29, 36), 36]


@pytest.mark.parametrize("long", [WINDOWS, ENDS, LongTexts("windows", 0)])
@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_short_rows_are_what_the_tokenizer_gives(tokenizer_dir, long, kind):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir) if kind == "words" else fake_bytes_tokenizer()
    rows = {"text": ["no", "a film", ""], "other": ["", "bad", "the cast"], "label": [0, 1, 0]}
    for task in (CLASSES, PAIRS):
        cut, other = (
            encode(Dataset.from_dict(rows), each, tokenizer, max_length=24) for each in (task, replace(task, long=long))
        )
        for name in cut.column_names:
            assert other[name][:] == cut[name][:]


@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_rows_of_windows_are_the_tokenizers_own(tokenizer_dir, kind):
    """Each window is what the tokenizer makes of a text, with its special tokens and its types, and has the text's label."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir) if kind == "words" else fake_bytes_tokenizer()
    rows = Dataset.from_dict({"text": ["no", LONG], "other": ["yes", LONG], "label": [0, 1]})
    single = encode(rows, replace(CLASSES, long=WINDOWS), tokenizer, max_length=16)
    text = tokenizer(LONG, add_special_tokens=False)["input_ids"]
    assert [row["answering"][0] for row in single] == [row["labels"] for row in single] == [0, *[1] * (len(single) - 1)]
    spans = windows(len(text), size=14, overlap=3)
    for row, span in zip(list(single)[1:], spans, strict=True):
        inside = text[span.start : span.stop]
        assert row["input_ids"] == [tokenizer.cls_token_id, *inside, tokenizer.sep_token_id]
        assert row["attention_mask"] == [1] * row["length"] == [1] * 16
    paired = encode(
        rows.select([1]).map(lambda row: {"text": "a film"}), replace(PAIRS, long=WINDOWS), tokenizer, max_length=24
    )
    first = tokenizer("a film", add_special_tokens=False)["input_ids"]
    for row in paired:
        assert row["input_ids"][1 : 1 + len(first)] == first
        if "token_type_ids" in row:
            assert row["token_type_ids"] == [0] * (2 + len(first)) + [1] * (row["length"] - 2 - len(first))


def test_a_word_has_its_tag_in_one_window(tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    words = [*LONG.split()[:30], "e\u0301te\u0301", "👩‍👩‍👧", "Zürich", *LONG.split()[30:]]
    tags = [number % 2 for number in range(len(words))]
    rows = Dataset.from_dict({"words": [["no"], words], "label": [[1], tags]})
    whole = encode(rows, TAGS, tokenizer, max_length=512)
    windowed = encode(rows, replace(TAGS, long=WINDOWS), tokenizer, max_length=16)
    said = [tag for labels in windowed["labels"] for tag in labels if tag != IGNORED]
    assert said == [tag for labels in whole["labels"] for tag in labels if tag != IGNORED]
    # The tokens that answer are those of the whole text, in their order, and so words are found there.
    joined = token_values(windowed["input_ids"][:], windowed["answering"][:])
    assert joined == whole["input_ids"][:]
    assert [pieces for pieces in windowed["first_pieces"] if pieces] == whole["first_pieces"][:]


def test_words_between_head_and_tail_are_unseen(tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    words = LONG.split()
    rows = Dataset.from_dict({"words": [words], "label": [[number % 2 for number in range(len(words))]]})
    (row,) = encode(rows, replace(TAGS, long=ENDS), tokenizer, max_length=16)
    (whole,) = encode(rows, TAGS, tokenizer, max_length=512)
    seen = [number for number, piece in enumerate(row["first_pieces"]) if piece != UNSEEN]
    assert 0 in seen
    assert len(words) - 1 in seen
    assert len(words) // 3 not in seen
    for number in seen:
        piece = row["first_pieces"][number]
        assert row["input_ids"][piece] == whole["input_ids"][whole["first_pieces"][number]]
        assert row["labels"][piece] == number % 2


def test_a_bounded_number_of_windows_is_read():
    length = 10 * MOST_WINDOWS * 14
    pieces = WINDOWS.pieces(sequences_of(length), size=16)
    assert len(pieces) == MOST_WINDOWS
    assert not is_whole(pieces, length + 2)


def test_answers_are_joined_by_hand():
    logits = numpy.array([[1.0, -2.0], [3.0, 0.0], [5.0, 1.0], [7.0, 4.0]], dtype=numpy.float32)
    texts = [0, 1, 1, 1]
    assert text_logits(logits, texts, has_several=False).tolist() == [[1, -2], [5, numpy.float32(5 / 3)]]
    assert text_logits(logits, texts, has_several=True).tolist() == [[1, -2], [7, 4]]
    order = [3, 0, 2, 1]
    mixed = text_logits(logits[order], [texts[row] for row in order], has_several=False)
    numpy.testing.assert_allclose(mixed, text_logits(logits, texts, has_several=False), rtol=1e-6)
    values = [["a", "b"], ["c", "d", "e"], ["f", "g", "h"]]
    assert token_values(values, [[0, 0, 2], [1, 0, 2], [1, 1, 3]]) == [["a", "b"], ["c", "d", "g", "h"]]


@pytest.mark.parametrize("long", [LongTexts(), ENDS, WINDOWS, LongTexts("windows", 5)])
@pytest.mark.parametrize("task", [CLASSES, TAGS, get_task("mrpc")], ids=["classes", "tags", "a benchmark's"])
def test_the_setting_travels_with_the_model(tmp_path, task, long):
    write_task(tmp_path, replace(task, long=long), max_length=48)
    carried = read_task(tmp_path)
    assert carried is not None
    assert (carried.long, carried.max_length) == (long, 48)
    assert ("long" in json.loads((tmp_path / "task.json").read_text())) == (long.way != "cut")
    assert ("long" in replace(task, long=long).settings) == (long.way != "cut")


def test_older_files_cut_and_others_are_refused():
    for task in (CLASSES, get_task("mrpc")):
        content = describe_task(task)
        assert "long" not in content
        assert task_of(content, where="a file").long == LongTexts()
        with pytest.raises(InvalidInput, match="sliding"):
            task_of({**content, "long": {"way": "sliding", "overlap": None}}, where="a file")


@pytest.fixture
def data(tmp_path):
    rows = [{"text": LONG if number % 4 == 0 else "a film", "label": ("no", "yes")[number % 2]} for number in range(40)]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def test_a_model_says_how_its_task_reads_long_texts_unless_somebody_does(tmp_path, data):
    model = tmp_path / "model"
    model.mkdir()
    found = choose_task(data, settings=DataSettings(long="windows", window_overlap=3))
    assert found.long == LongTexts("windows", 3)
    assert choose_task(data).long == LongTexts()
    write_task(model, found)
    assert choose_task(data, model=model).long == found.long
    assert choose_task(data, model=model, settings=DataSettings(window_overlap=1)).long == LongTexts("windows", 1)
    assert choose_task(data, model=model, settings=DataSettings(long="cut")).long == LongTexts()
    write_task(model, replace(get_task("mrpc"), long=WINDOWS), max_length=64)
    named = choose_task("nyu-mll/glue", name="mrpc", model=model)
    assert (named.long, named.max_length) == (WINDOWS, 64)
    assert choose_task("nyu-mll/glue", name="rte", model=model).long == LongTexts()


def test_a_look_at_data_says_what_long_texts_cost(tokenizer_dir, data):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    task = choose_task(data)
    facts = [look_at(data, replace(task, long=long), tokenizer=tokenizer, max_length=16) for long in (LongTexts(), ENDS, WINDOWS)]  # fmt: skip
    assert [each.cut for each in facts] == [facts[0].cut] * 3
    assert 0.1 < facts[0].cut < 0.4
    assert any("--long windows" in warning for warning in facts[0].warnings)
    assert not any("longer than" in warning for each in facts[1:] for warning in each.warnings)
    tokens = len(tokenizer(LONG, add_special_tokens=False)["input_ids"])
    most = 1 + -(-(tokens - 14) // 11)
    mean = (1 - facts[0].cut) + facts[0].cut * most
    assert facts[2].windows == (pytest.approx(mean, abs=1e-3), most)
    assert "beginning and the end" in facts[1].of_long_texts
    assert f"{most} at most" in facts[2].of_long_texts
    assert "windows" not in facts[0].describe()


@pytest.mark.parametrize(
    ("long", "length", "words"),
    [
        (LongTexts("windows", 9), 16, r"at most half of --max-length \(16\), got 9; use --window-overlap 4"),
        (WINDOWS, 2, "room for words"),
    ],
)
def test_windows_that_do_not_fit_are_refused(tokenizer_dir, long, length, words):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    rows = Dataset.from_dict({"text": [LONG], "label": [0]})
    with pytest.raises(InvalidInput, match=words):
        encode(rows, replace(CLASSES, long=long), tokenizer, max_length=length)


def test_wrong_settings_are_refused(data):
    with pytest.raises(InvalidInput, match=r"must be one of cut, head-tail, windows, got slide; use --long windows"):
        DataSettings(long="slide")
    with pytest.raises(InvalidInput, match="window-overlap"):
        DataSettings(long="windows", window_overlap=-1)
    with pytest.raises(InvalidInput, match="add --long windows"):
        choose_task(data, settings=DataSettings(long="head-tail", window_overlap=4))


def test_a_slow_tokenizer_is_refused():
    class Slow(PreTrainedTokenizerFast):
        is_fast = False

    tokenizer = Slow(tokenizer_object=fake_bytes_tokenizer().backend_tokenizer)
    with pytest.raises(InvalidInput, match=r"--long windows needs a fast tokenizer.*got Slow"):
        encode(Dataset.from_dict({"text": [LONG], "label": [0]}), replace(CLASSES, long=WINDOWS), tokenizer, max_length=16)  # fmt: skip
