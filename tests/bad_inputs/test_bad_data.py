"""Data that is not what it should be is refused with its place and what to do about it, whatever library stumbles over it."""

import json
import os
import sys

import pyarrow
import pyarrow.parquet
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import data_parent, load_split

COUNT = 4
TEXTS, LABELS = [f"a good film {number}" for number in range(COUNT)], [0, 1, 0, 1]
CLAIMS = [
    b"garbage", b'{"info": {"features": [1]}}', b'{"info": {"features": {"sentence": {"_type": "Nope"}, "label": 1}}}',
    json.dumps({"info": {"features": {"sentence": {"dtype": "int32", "_type": "Value"}}}}).encode(),
]  # fmt: skip


def table(**columns):
    return pyarrow.table({"sentence": TEXTS, "label": LABELS, **columns})


def bytes_as_text(content):
    column = pyarrow.array([content] * COUNT)
    return pyarrow.Array.from_buffers(pyarrow.string(), COUNT, column.buffers())


def written(root, content, *, split="train"):
    """A folder whose SST-2 is that table or those bytes."""
    path = root / "sst2" / f"{split}-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pyarrow.parquet.write_table(content, path)
    return path


def refused(root, said, *, labelled=True, split="train"):
    with pytest.raises(InvalidInput, match=said) as raised:
        load_split(str(root), get_task("sst2"), split, labelled=labelled)
    assert str(root) in str(raised.value)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (list(range(COUNT)), "'sentence' must hold text, got int64 in .*; write that column as strings"),
        ([1.5] * COUNT, "must hold text, got double"),
        ([True] * COUNT, "must hold text, got bool"),
        ([b"\xff"] * COUNT, "must hold text, got binary"),
        ([["a"]] * COUNT, "must hold text, got list"),
        ([{"a": "b"}] * COUNT, "must hold text, got struct"),
        (pyarrow.array([0] * COUNT, pyarrow.date32()), "must hold text, got date32"),
        (pyarrow.nulls(COUNT), "must have a value in every row, got 4 empty of 4"),
        (bytes_as_text(b"\xff\xfe"), "'sentence' must hold UTF-8, got .*Invalid UTF8 .*; write those rows again"),
        (bytes_as_text(b"\xed\xa0\x80"), "'sentence' must hold UTF-8"),
    ],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_columns_that_hold_no_text_are_refused(column, said, labelled, tmp_path):
    written(tmp_path, table(sentence=column))
    refused(tmp_path, said, labelled=labelled)


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array(TEXTS).dictionary_encode(),
        pyarrow.array(TEXTS, pyarrow.large_string()),
        pyarrow.array(TEXTS, pyarrow.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_text_of_every_type_is_read(column, tmp_path):
    written(tmp_path, table(sentence=column))
    assert load_split(str(tmp_path), get_task("sst2"), "train")["sentence"][:] == TEXTS


@pytest.mark.parametrize(
    ("column", "said", "unlabelled"),
    [
        (["positive"] * COUNT, "'label' must hold numbers, got string in .*; write .* 0 for negative, 1 for positive", True),
        ([b"1"] * COUNT, "must hold numbers, got binary", True),
        ([[1]] * COUNT, "must hold numbers, got list", True),
        ([{"a": 1}] * COUNT, "must hold numbers, got struct", True),
        ([0.5] * COUNT, "must hold whole numbers, got Float value 0.5", True),
        ([float("nan")] * COUNT, "must hold whole numbers, got Float value nan", True),
        ([float("inf")] * COUNT, "must hold whole numbers, got Float value inf", True),
        (pyarrow.array([2**64 - 1] * COUNT, pyarrow.uint64()), "must hold whole numbers, got Integer value 18446744073709551615", True),
        ([-1] * COUNT, "label ids 0 negative, 1 positive, got -1 and 3 more", False),
        ([2**62] * COUNT, "label ids 0 negative, 1 positive, got 4611686018427387904 and 3 more", False),
        (pyarrow.nulls(COUNT), "'label' must have a value in every row, got 4 empty", False),
    ],
)  # fmt: skip
def test_labels_that_are_none_are_refused(column, said, unlabelled, tmp_path):
    written(tmp_path, table(label=column))
    refused(tmp_path, said)
    if unlabelled:
        refused(tmp_path, said, labelled=False)


@pytest.mark.parametrize("column", [[0.0, 1.0] * 2, [False, True] * 2, pyarrow.array(LABELS).dictionary_encode()])
def test_labels_of_every_type_of_number_are_read(column, tmp_path):
    written(tmp_path, table(label=column))
    rows = load_split(str(tmp_path), get_task("sst2"), "train")
    assert rows["label"][:] == LABELS
    assert rows.features["label"].names == ["negative", "positive"]


def test_rows_without_labels_have_minus_one(tmp_path):
    written(tmp_path, table().drop_columns(["label"]), split="test")
    assert load_split(str(tmp_path), get_task("sst2"), "test", labelled=False)["label"][:] == [-1] * COUNT


@pytest.mark.parametrize("column", [["x"] * COUNT, pyarrow.nulls(COUNT), [0.5] * COUNT, [[1]] * COUNT, [0, 1, 2, None]])
def test_numbers_of_rows_that_are_none_are_refused(column, tmp_path):
    written(tmp_path, table(idx=column))
    refused(tmp_path, "'idx' must number the rows, got .*; write whole numbers there, or rename or drop it")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["sentence", "label", "label"], "there once, got 'label' 2 times in .*; rename or drop one"),
        (["sentence", "sentence", "label"], "there once, got 'sentence' 2 times"),
    ],
)
def test_columns_of_one_name_are_refused(names, said, tmp_path):
    columns = [TEXTS if name == "sentence" else LABELS for name in names]
    written(tmp_path, pyarrow.Table.from_arrays([pyarrow.array(column) for column in columns], names=names))
    refused(tmp_path, said)


def test_other_columns_are_left_alone(tmp_path):
    """Not even those that an encoded row has, or two of one name."""
    columns = [pyarrow.array(column) for column in (TEXTS, LABELS, LABELS, TEXTS, TEXTS)]
    names = ["sentence", "label", "length", "labels", "labels"]
    written(tmp_path, pyarrow.Table.from_arrays(columns, names=names))
    assert load_split(str(tmp_path), get_task("sst2"), "train").column_names == ["sentence", "label"]


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_file_says_of_its_features_is_not_believed(claim, tmp_path):
    written(tmp_path, table().replace_schema_metadata({b"huggingface": claim}))
    assert load_split(str(tmp_path), get_task("sst2"), "train")["sentence"][:] == TEXTS


@pytest.mark.parametrize("damage", ["zero", "garbage", "half", "tail", "middle", "footer", "length"])
def test_broken_parquet_is_refused(damage, tmp_path):
    whole = written(tmp_path, table(filler=list(range(COUNT)))).read_bytes()
    written(
        tmp_path,
        {
            "zero": b"",
            "garbage": b"garbage" * 100,
            "half": whole[: len(whole) // 2],
            "tail": whole[:-3],
            "middle": whole[:4] + b"\0" * 60 + whole[64:],
            "footer": whole[:-40] + b"\xff" * 32 + whole[-8:],
            "length": whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        }[damage],
    )
    refused(tmp_path, "readable parquet files, got .*train-00000-of-00001.parquet .*; download it again")


def test_files_of_a_split_that_differ_are_refused(tmp_path):
    written(tmp_path, table())
    pyarrow.parquet.write_table(table(label=["x"] * COUNT), tmp_path / "sst2" / "train-00001-of-00001.parquet")
    refused(tmp_path, "files of a split must have the same columns, got 2 files of sst2 train .*; write them alike")


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_what_is_no_file_is_refused_and_not_waited_for(kind, tmp_path):
    path = written(tmp_path, table())
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    refused(
        tmp_path,
        f"must be an existing file, got .*{'which is a directory' if kind == 'directory' else 'no regular file'}",
    )
    with pytest.raises(InvalidInput, match="must be an existing file"):
        data_parent(str(tmp_path), get_task("sst2"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bytes(range(256)), "UTF-8 with tabs between columns, got .*train.tsv .*byte 0x80.*; download it again"),
        ("sentence\tlabel\né\t1\n".encode("utf-16"), "UTF-8 with tabs .*train.tsv"),
        ("sentence\tlabel\né\t1\n".encode("latin-1"), "UTF-8 with tabs .*train.tsv"),
        (b"sentence\tlabel\ra\t1\r", "UTF-8 with tabs .*new-line character"),
        (b"sentence\tlabel\n" + b"a" * (1 << 25) + b"\t1\n", "UTF-8 with tabs .*field larger than"),
        (b"sentence\tsentence\tlabel\na\tb\t1\n", "must have the columns sentence, got sentence, sentence, label"),
        (b"sentence\tlabel\na\t" + b"9" * 5000 + b"\n", "must be negative, positive, got '9{100,200} … in line 2"),
        (b"sentence\tlabel\na\t99999999999999999999\n", "must be negative, positive, got '99999999999999999999'"),
        (b"index\tsentence\tlabel\n" + b"9" * 5000 + b"\ta\t1\n", "an index must be a whole number, got '9{100,200} …"),
        ("index\tsentence\tlabel\n²\ta\t1\n".encode(), "an index must be a whole number, got '²' in line 2"),
        (b"sentence\tlabel\n", "a split must have rows"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[:20].hex(),
)
def test_broken_original_files_are_refused(content, said, tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").write_bytes(content)
    refused(tmp_path, said)


@pytest.mark.parametrize(
    "words",
    [
        ["finetune", "--model", "{encoder}", "--out", "z", "--task", "sst2"],
        ["distill", "--teacher", "{model}", "--out", "z", "--task", "sst2", "--epochs", "1"],
        ["augment", "--word-vectors", "{encoder}", "--out", "z", "--task", "sst2"],
        ["prune", "--model", "{model}", "--out", "z", "--task", "sst2"],
        ["sparsify", "--model", "{model}", "--out", "z", "--task", "sst2"],
        ["qat", "--model", "{model}", "--out", "z", "--task", "sst2"],
        ["eval", "{model}", "--task", "sst2"],
        ["submit", "sst2={model}"],
        ["bench", "{model}", "--baseline", "{model}", "--task", "sst2", "--seconds", "0.01"],
        ["run", "--teacher", "{encoder}", "--task", "sst2", "--out", "z", "--shapes", "1x8"],
    ],
    ids=lambda words: words[0],
)
def test_every_verb_says_what_is_wrong_with_its_data(words, encoder_dir, classifier_dir, tmp_path, monkeypatch, capsys):
    from hf_albert_plus.cli.app import main

    for split in ("train", "validation", "test"):
        written(tmp_path / "data", table(sentence=[1, 2, 3, 4]), split=split)
    names = {"encoder": encoder_dir, "model": classifier_dir}
    lengths = [] if words[0] == "augment" else ["--max-length", "32"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys,
        "argv",
        ["albert-plus", *(word.format(**names) for word in words), "--data", str(tmp_path / "data"), *lengths],
    )
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, "column 'sentence' must hold text, got int64" in said) == (2, True), said


def corpus_of(path):
    from hf_albert_plus.text.corpus_parts import find_parts

    return [document for part in find_parts([str(path)]) for document in part.documents()]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "t.jsonl",
            b'{"text": ' + b"[" * 100_000,
            "JSON object a line, got .*recursion.* at offset 0 of .*t.jsonl; mend or remove that line",
        ),
        ("t.jsonl", b'{"text": "a", "n": ' + b"9" * 5000 + b"}", "JSON object a line, got .*4300 digits.* at offset 0"),
        ("t.jsonl", b'{"text": "a \\ud800"}', "--column must hold text in .*t.jsonl, got half of a surrogate pair"),
        ("t.jsonl", b'{"text": 5}', "--column must hold text in .*t.jsonl, got int"),
        ("t.parquet", b"", "must be Parquet, got .*t.parquet .*; write it again"),
        ("t.parquet", b"garbage" * 20, "must be Parquet, got .*t.parquet"),
    ],
    ids=range(6),
)
def test_broken_texts_are_refused(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=said):
        corpus_of(tmp_path / name)


@pytest.mark.parametrize("damage", ["middle", "footer", "utf8", "twice"])
def test_broken_parquet_of_texts_is_refused(damage, tmp_path):
    path = tmp_path / "t.parquet"
    texts = bytes_as_text(b"\xff\xfe") if damage == "utf8" else pyarrow.array(TEXTS)
    pyarrow.parquet.write_table(
        pyarrow.Table.from_arrays([texts] * 2, names=["text", "text" if damage == "twice" else "x"]), path
    )
    whole = path.read_bytes()
    if damage == "middle":
        path.write_bytes(whole[:4] + b"\0" * 80 + whole[84:])
    if damage == "footer":
        path.write_bytes(whole[:-40] + b"\xff" * 32 + whole[-8:])
    with pytest.raises(
        InvalidInput,
        match=r"(Parquet|readable, its text UTF-8|which several are called).*; (write it again|use one of)",
    ) as raised:
        corpus_of(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("name", ["t.txt", "t.jsonl"])
def test_an_empty_file_has_no_text(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    assert corpus_of(tmp_path / name) == []


@pytest.mark.parametrize("kind", ["unigram", "wordpiece", "byte-bpe"])
@pytest.mark.parametrize("content", ["", " \n", "\u200b\n\ufeff\n", "\x01\x02\n", "\ufffd\n"], ids=ascii)
def test_a_vocabulary_is_learned_from_text(kind, content, tmp_path):
    """SentencePiece would end the process."""
    from hf_albert_plus.text.settings import TokenizerSettings
    from hf_albert_plus.text.tokenizers import train_tokenizer

    (tmp_path / "t.txt").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput, match="--corpus must hold text, got .*; check the files"):
        train_tokenizer(
            [str(tmp_path / "t.txt")], output=tmp_path / "o", settings=TokenizerSettings(kind, vocab_size=300)
        )


def test_an_endless_word_does_not_hold_up_a_vocabulary():
    """It would be unknown to the tokenizer, whatever is learned of it."""
    from hf_albert_plus.text.byte_pairs import train_byte_pairs
    from hf_albert_plus.text.vocabularies import train_wordpiece

    lines = ["word " * 20, "x" * 1_000_000]
    found = train_wordpiece(lambda: lines, vocab_size=60)
    assert "word" in found.get_vocab()
    assert "x" not in found.get_vocab()
    pairs = train_byte_pairs(lines, vocab_size=300).get_vocab()
    assert "Ġword" in pairs
    assert "xx" not in pairs


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"again": True}, "pieces that differ, and finite scores"),
        ({"score": float("nan")}, "pieces that differ, and finite scores"),
        ({"score": float("inf")}, "pieces that differ, and finite scores"),
        ({"charsmap": b"garbage"}, "that the tokenizers library reads, got .*spiece.model .*precompiled_charsmap"),
        ({"charsmap": b""}, "that the tokenizers library reads"),
    ],
)
def test_broken_sentencepiece_models_are_refused(change, said, tmp_path):
    from transformers.utils import sentencepiece_model_pb2_new

    from hf_albert_plus.text.vocabularies import SPECIALS, read_sentencepiece

    model = vars(sentencepiece_model_pb2_new)["ModelProto"]()
    for piece in (*SPECIALS, "a", "a" if "again" in change else "b"):
        model.pieces.add(piece=piece, score=change.get("score", -1.0))
    model.normalizer_spec.precompiled_charsmap = change.get("charsmap", b"")
    path = tmp_path / "spiece.model"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidInput, match=said) as raised:
        read_sentencepiece(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        ["tokenizer", "import", "{it}", "--out", "z"],
        ["export", "{model}", "--to", "onnx-qdq", "--texts", "{it}", "--out", "z"],
        ["distill", "--method", "minilm", "--phases", "transfer", "--teacher", "{encoder}", "--text", "{it}", "--max-length", "16", "--out", "z"],
        ["augment", "--word-vectors", "{it}", "--task", "sst2", "--data", "{data}", "--out", "z"],
        ["corpus", "build", "--corpus", "{it}", "--tokenizer", "{encoder}", "--out", "z"],
        ["tokenizer", "train", "--corpus", "{it}", "--out", "z"],
        ["pretrain", "--corpus", "{it}", "--tokenizer", "{encoder}", "--out", "z"],
        ["eval", "--predictions", "{it}", "--task", "sst2", "--data", "{data}"],
    ],
    ids=lambda words: f"{words[0]} {words[1]}",
)  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "device", "binary"])
def test_every_verb_says_what_is_wrong_with_its_texts(
    words, kind, encoder_dir, classifier_dir, data_dir, tmp_path, monkeypatch, capsys
):
    """And none waits for a pipe."""
    from hf_albert_plus.cli.app import main

    path = tmp_path / "it.txt"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(bytes(range(256)) * 20)
    names = {"it": path, "encoder": encoder_dir, "model": classifier_dir, "data": data_dir}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["albert-plus", *(word.format(**names) for word in words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, str(path) in said) == (2, True), said


@pytest.mark.parametrize("column", ["text", "kept"])
def test_broken_characters_of_scored_rows_are_refused(column, tmp_path):
    from hf_albert_plus.batch_scoring.columns import InputFormat, kept_schema
    from hf_albert_plus.batch_scoring.plan import PlannedPart
    from hf_albert_plus.batch_scoring.ranges import RowRange
    from hf_albert_plus.batch_scoring.settings import ScoreSettings
    from hf_albert_plus.batch_scoring.sources import source_of
    from hf_albert_plus.batch_scoring.worker import portions

    columns = {"text": pyarrow.array(TEXTS), "kept": pyarrow.array(TEXTS), column: bytes_as_text(b"\xff\xfe")}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    source, settings = source_of(str(tmp_path / "t.parquet")), ScoreSettings(keep=("kept",))
    wanted = InputFormat(settings, kept_schema([source], settings), characters=100)
    with pytest.raises(InvalidInput, match="must be readable, its text UTF-8, got .*t.parquet .*; write it again"):
        list(portions(PlannedPart("part", source, RowRange(0, COUNT, 0, COUNT)), wanted))
