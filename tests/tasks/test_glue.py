"""The task table, the loader and the encoder of texts."""

import shutil

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import TASKS, get_task
from hf_albert_plus.tasks.rows import encode, load_tokenizer
from hf_albert_plus.tasks.splits import load_split
from tests.support.small_models import small_config


def _write(root, task, split, rows):
    (root / task).mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows).to_parquet(root / task / f"{split}-00000-of-00001.parquet")


def test_the_table_is_glue():
    """Columns, label order and metrics as nyu-mll/glue and the GLUE paper (Table 1) have them."""
    assert {name: task.columns for name, task in TASKS.items()} == {
        "cola": ("sentence",), "sst2": ("sentence",), "mrpc": ("sentence1", "sentence2"),
        "qqp": ("question1", "question2"), "stsb": ("sentence1", "sentence2"), "mnli": ("premise", "hypothesis"),
        "qnli": ("question", "sentence"), "rte": ("sentence1", "sentence2"), "wnli": ("sentence1", "sentence2"),
        "ax": ("premise", "hypothesis"),
    }  # fmt: skip
    assert TASKS["mnli"].labels == ("entailment", "neutral", "contradiction")
    assert TASKS["rte"].labels == TASKS["qnli"].labels == ("entailment", "not_entailment")
    assert TASKS["wnli"].labels == ("not_entailment", "entailment")
    assert TASKS["stsb"].num_labels == 1
    assert TASKS["cola"].metrics == ("matthews",)
    assert TASKS["stsb"].metrics == ("pearson", "spearman")
    assert TASKS["mnli"].rows == {"mnli": "validation_matched", "mnli-mm": "validation_mismatched"}


def test_unknown_tasks_suggest():
    with pytest.raises(InvalidInput, match=r"'sst-2'; did you mean 'sst2'"):
        get_task("sst-2")


def test_splits_keep_rows_and_features(data_dir):
    rows = load_split(str(data_dir), get_task("sst2"), "validation")
    assert len(rows) == 48
    assert rows.features["label"].names == ["negative", "positive"]


@pytest.mark.parametrize("with_readme", [False, True])
def test_matched_and_mismatched_are_never_merged(tmp_path, with_readme):
    for split, count in (("validation_matched", 3), ("validation_mismatched", 2)):
        rows = [{"premise": split, "hypothesis": "h", "label": 1}] * count
        _write(tmp_path, "mnli", split, rows)
    if with_readme:
        (tmp_path / "README.md").write_text("---\nconfigs:\n- config_name: mnli\n  data_files: mnli/*\n---\n")
    task = get_task("mnli")
    assert load_split(str(tmp_path), task, "validation_matched")["premise"][:] == ["validation_matched"] * 3
    assert load_split(str(tmp_path), task, "validation_mismatched")["premise"][:] == ["validation_mismatched"] * 2
    with pytest.raises(InvalidInput, match="has the splits train, validation_matched, validation_mismatched"):
        load_split(str(tmp_path), task, "validation")
    with pytest.raises(InvalidInput, match=r"mnli/train-\*.parquet.* got .*mnli/validation_matched"):
        load_split(str(tmp_path), task, "train")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"text": "a", "label": 0}], "needs the columns sentence, label, got text, label .* add sentence"),
        ([{"sentence": "a", "label": -1}], "label ids 0 negative, 1 positive, got -1"),
        ([{"sentence": "a", "label": 2}, {"sentence": "b", "label": 7}], "got 2 and 1 more"),
        (
            [{"sentence": "a", "label": 1}, {"sentence": None, "label": 1}],
            "'sentence' must have a value .* got 1 empty of 2",
        ),
    ],
)
def test_bad_rows_are_refused(tmp_path, rows, words):
    _write(tmp_path, "sst2", "train", rows)
    with pytest.raises(InvalidInput, match=words):
        load_split(str(tmp_path), get_task("sst2"), "train")


def test_an_empty_split_is_refused(tmp_path):
    features = Features({"sentence": Value("string"), "label": ClassLabel(names=["a", "b"])})
    (tmp_path / "sst2").mkdir()
    empty = Dataset.from_dict({"sentence": [], "label": []}, features=features)
    empty.to_parquet(tmp_path / "sst2" / "train-00000-of-00001.parquet")
    with pytest.raises(InvalidInput, match="must have rows"):
        load_split(str(tmp_path), get_task("sst2"), "train")


def test_regression_labels_have_a_range(tmp_path):
    _write(tmp_path, "stsb", "train", [{"sentence1": "a", "sentence2": "b", "label": 5.5}])
    with pytest.raises(InvalidInput, match=r"0 to 5, got 5.5"):
        load_split(str(tmp_path), get_task("stsb"), "train")


def test_a_broken_file_and_no_folder_are_told_apart(tmp_path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train-00000-of-00001.parquet").write_bytes(b"PAR1 half a file")
    with pytest.raises(InvalidInput, match="readable parquet"):
        load_split(str(tmp_path), get_task("sst2"), "train")
    with pytest.raises(InvalidInput, match="must be a folder or a Hub id"):
        load_split(str(tmp_path / "nowhere"), get_task("sst2"), "train")
    with pytest.raises(InvalidInput, match="or the network if you mean the Hub"):
        load_split("nobody/nothing", get_task("sst2"), "train")


def test_pairs_get_token_types_and_texts_are_cut(tokenizer_dir, data_dir):
    tokenizer = load_tokenizer(tokenizer_dir, small_config(vocab_size=800))
    task = get_task("mrpc")
    rows = load_split(str(data_dir), task, "validation")
    encoded = encode(rows, task, tokenizer, max_length=16)
    for row, text in zip(encoded, rows, strict=True):
        assert row["length"] == len(row["input_ids"]) <= 16
        assert row["labels"] == text["label"]
        separators = [i for i, token in enumerate(row["input_ids"]) if token == tokenizer.sep_token_id]
        assert len(separators) == 2
        assert row["token_type_ids"] == [int(i > separators[0]) for i in range(row["length"])]


def test_a_tokenizer_that_forgets_token_types_is_mended(tmp_path, tokenizer_dir):
    """transformers' AlbertTokenizer names only input_ids and attention_mask; so does this one."""
    backend = AutoTokenizer.from_pretrained(tokenizer_dir).backend_tokenizer
    forgetful = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", model_input_names=["input_ids", "attention_mask"]
    )
    assert "token_type_ids" not in forgetful("the doctor", "the car")
    forgetful.save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path, small_config(vocab_size=800))
    assert set(tokenizer("the doctor", "the car")["token_type_ids"]) == {0, 1}
    plain = load_tokenizer(tmp_path, small_config(vocab_size=800, type_vocab_size=1))
    assert "token_type_ids" not in plain("the doctor", "the car")


def test_a_tokenizer_of_another_model_is_refused(tokenizer_dir):
    with pytest.raises(InvalidInput, match=r"at most vocab_size \(120\)"):
        load_tokenizer(tokenizer_dir, small_config())


def test_the_folder_reads_like_the_hub_layout(data_dir, tmp_path):
    """datasets itself reads the demo's folder, README included."""
    from datasets import load_dataset

    from hf_albert_plus.demo.data import _README

    shutil.copytree(data_dir, tmp_path / "glue")
    config = "- config_name: sst2\n  data_files: [{split: train, path: sst2/train-*}]\n"
    (tmp_path / "glue" / "README.md").write_text(_README.format(configs=config))
    rows = load_dataset(str(tmp_path / "glue"), "sst2", split="train", cache_dir=str(tmp_path / "cache"))
    assert rows["sentence"][:] == load_split(str(data_dir), get_task("sst2"), "train")["sentence"][:]
