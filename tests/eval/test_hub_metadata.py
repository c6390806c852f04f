"""Where a model comes from, as the Hub's metadata say it: by the records behind a directory, and by the card of what it began from."""

import json

import pytest
import yaml
from huggingface_hub import ModelCard

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


MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def snapshot_of(tmp_path, name, *, card="", **config):
    """A model of the Hub as a folder of its cache, or of anybody's disk."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(f"---\n{card}\n---\nA card.\n")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_student_of_vectors_comes_from_its_teacher(tmp_path):
    """Its text is a file, which has no name on the Hub."""
    student = stage(
        tmp_path / "student", "distill", teacher={"path": MINILM, "sha256": "hub"}, text=tmp_path / "text.txt"
    )
    expected = {"base_model": MINILM, "base_model_relation": "finetune"}
    assert hub_facts(student) == expected
    exported = stage(tmp_path / "exported", "export", model=student)
    assert hub_facts(exported) == expected
    words = check_hub_words(licence="apache-2.0", datasets=["wikimedia/wikipedia", "stanfordnlp/imdb"])
    text = metadata_yaml(with_words(hub_facts(exported), words), pipeline_tag="sentence-similarity", tags=["t"])
    assert ModelCard(f"---\n{text}\n---\n").data.to_dict() == {
        **expected, **words, "library_name": "transformers", "pipeline_tag": "sentence-similarity", "tags": ["t"],
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="--datasets must be a data set on the Hub, OWNER/NAME, got 'my texts'"):
        check_hub_words(datasets=["a/b", "my texts"])


def test_a_folder_of_the_hubs_cache_has_a_name_there(tmp_path):
    name = f"models--sentence-transformers--all-MiniLM-L6-v2/snapshots/{'0af3' * 10}"
    teacher = snapshot_of(tmp_path, name, card="license: apache-2.0\nbase_model: nreimers/MiniLM-L6-H384-uncased")
    student = stage(tmp_path / "student", "distill", teacher=teacher)
    assert hub_facts(student) == {
        "base_model": MINILM,
        "base_model_relation": "finetune",
        "license": "apache-2.0",
    }


@pytest.mark.parametrize("named", ["nreimers/MiniLM", "\n- nreimers/MiniLM"])
def test_a_downloaded_directory_says_by_its_card_what_it_was_made_from(tmp_path, named):
    teacher = snapshot_of(tmp_path, "teacher", card=f"license: mit\nbase_model: {named}")
    facts = hub_facts(stage(tmp_path / "student", "distill", teacher=teacher))
    assert facts == {"base_model": "nreimers/MiniLM", "base_model_relation": "finetune", "license": "mit"}
    exported = stage(tmp_path / "exported", "export", model=teacher)
    assert hub_facts(exported) == {"base_model": "nreimers/MiniLM", "license": "mit"}


def test_the_name_in_a_config_counts_where_the_hub_is_known_to_have_it(tmp_path, monkeypatch):
    """`output/teacher` is a folder of somebody's machine as well."""
    teacher = snapshot_of(tmp_path, "teacher", _name_or_path="nreimers/MiniLM")
    student = stage(tmp_path / "student", "distill", teacher=teacher)
    assert hub_facts(student) == {}
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache",
        lambda name, file: "a file" if (name, file) == ("nreimers/MiniLM", "config.json") else None,
    )
    assert hub_facts(student) == {"base_model": "nreimers/MiniLM", "base_model_relation": "finetune"}


@pytest.mark.parametrize("card", ["base_model:\n- a/b\n- c/d", "base_model: ./here", "base_model: 3", "tags: []"])
def test_a_base_that_is_not_known_is_left_out(tmp_path, card):
    teacher = snapshot_of(tmp_path, "teacher", card=card, _name_or_path="./runs/teacher")
    assert hub_facts(stage(tmp_path / "student", "distill", teacher=teacher)) == {}


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
