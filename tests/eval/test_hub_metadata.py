"""Where a model comes from, as the Hub's metadata say it: by the records behind a directory, and by the card of what it began from."""

import json

import pytest
import yaml

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.reporting.hub_metadata import check_hub_words, hub_facts, metadata_yaml, with_words

BERT = {"path": "google-bert/bert-base-uncased", "sha256": "hub"}
GLUE = {"path": "nyu-mll/glue sst2", "sha256": "hub"}


def stage(directory, name, *, trained=None, **parents):
    """A directory with a record, as a stage leaves it."""
    directory.mkdir(parents=True)
    record = {"stage": name, "settings": {}, "parents": {key: value if isinstance(value, dict) else {"path": str(value), "sha256": "0"} for key, value in parents.items()},
              "result": {} if trained is None else {"trained": trained}, "files": {}, "versions": {}, "platform": "p", "finished": "f", "seconds": 1.0, "command": ""}  # fmt: skip
    (directory / "record.json").write_text(json.dumps(record))
    return directory


def test_the_first_model_of_the_hub_is_the_base(tmp_path):
    teacher = stage(tmp_path / "teacher", "finetune", model=BERT, data=GLUE)
    student = stage(tmp_path / "student", "distill", teacher=teacher, data=GLUE)
    exported = stage(tmp_path / "exported", "export", model=student)
    expected = {"base_model": BERT["path"], "base_model_relation": "finetune", "datasets": ["nyu-mll/glue"]}
    assert hub_facts(exported) == expected
    assert hub_facts(exported, language="en") == {**expected, "language": "en"}


def test_an_export_of_somebody_elses_model_is_quantised_where_it_is(tmp_path):
    exported = stage(tmp_path / "exported", "export", model=BERT)
    assert hub_facts(exported) == {"base_model": BERT["path"]}
    (exported / "onnx").mkdir()
    (exported / "onnx" / "model.onnx").write_bytes(b"graph")
    assert hub_facts(exported) == {"base_model": BERT["path"]}
    (exported / "onnx" / "model_int8.onnx").write_bytes(b"graph")
    assert hub_facts(exported) == {"base_model": BERT["path"], "base_model_relation": "quantized"}


def test_where_the_trained_directory_is_gone_its_carried_record_speaks(tmp_path):
    trained = {
        "stage": "finetune",
        "settings": {},
        "parents": {"model": BERT},
        "result": {},
        "versions": {},
        "command": "",
    }
    exported = stage(tmp_path / "exported", "export", model=tmp_path / "gone", trained=trained)
    assert hub_facts(exported) == {"base_model": BERT["path"], "base_model_relation": "finetune"}


def test_the_nearest_card_gives_licence_and_language(tmp_path):
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: en\n---\n")
    assert hub_facts(stage(tmp_path / "tuned", "finetune", model=snapshot)) == {
        "license": "apache-2.0",
        "language": "en",
    }


@pytest.mark.parametrize("text", ["---\n- a list\n---\n", "---\na: [\n---\n", "no head", "---\nlicense:\n- mit\n---\n"])
def test_somebody_elses_card_that_says_nothing_is_none(tmp_path, text):
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "README.md").write_text(text)
    assert hub_facts(stage(tmp_path / "tuned", "finetune", model=tmp_path / "snapshot")) == {}


def test_a_directory_without_a_record_says_nothing(tmp_path):
    assert hub_facts(tmp_path) == {}


def test_records_that_name_each_other_end(tmp_path):
    stage(tmp_path / "a", "finetune", model=tmp_path / "b")
    stage(tmp_path / "b", "finetune", model=tmp_path / "a")
    assert hub_facts(tmp_path / "a") == {}


def test_what_is_said_goes_before_what_is_found():
    said = check_hub_words(licence="mit", base_model="user/model")
    assert with_words({"license": "apache-2.0", "language": "en"}, said) == {
        "license": "mit", "language": "en", "base_model": "user/model", "base_model_relation": "finetune",
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="--license must be a licence's name"):
        check_hub_words(licence="MIT License")


def test_metadata_hold_what_is_known_and_nothing_else():
    text = metadata_yaml(
        {"base_model": "a/b", "base_model_relation": "finetune", "license": "mit"}, pipeline_tag="fill-mask", tags=["t"]
    )
    assert yaml.safe_load(text) == {
        "base_model": "a/b", "base_model_relation": "finetune", "license": "mit", "library_name": "transformers", "pipeline_tag": "fill-mask", "tags": ["t"],
    }  # fmt: skip
