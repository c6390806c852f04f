"""Cards say how a model came about as a whole, and on which rows its threshold and its temperatures were found."""

import json
import re
import shutil

import pytest

from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.settings import PruneSettings
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.eval.measured_documents import to_json
from hf_albert_plus.eval.reporting import stage as report_stage
from hf_albert_plus.eval.reporting.cards import read_facts, render
from hf_albert_plus.eval.reporting.chosen_rows import chosen_rows, sentences
from hf_albert_plus.eval.reporting.lineage_words import stage_rows, versions_in_words
from hf_albert_plus.eval.reporting.pushed_card import card_to_push
from hf_albert_plus.eval.reporting.stage import report
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_targets
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.files import write_json
from hf_albert_plus.records.lineage import Ancestor
from hf_albert_plus.records.record import fingerprint, read_record
from hf_albert_plus.search.set_aside import set_aside
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from tests.support.benches import latency_of
from tests.support.command_line import invoke
from tests.support.kinds import make_classifier

SST2 = get_task("sst2")
COMMAND = "albert-plus export /home/me/pruned --to onnx --out /home/me/exported"


def measured(folder, words, *, data, task=SST2):
    """Writes scores of targets, and a bench in which all took a millisecond."""
    targets = parse_targets(list(map(str, words)))
    scores = score_targets(targets, data=str(data), task=task, settings=EvalSettings(max_length=32), threads=1)
    latency = latency_of(targets)
    for row, timed in zip(scores.rows, latency.rows, strict=True):
        object.__setattr__(timed, "model_sha256", row.runs[0].model_sha256)
    paths = folder / "scores.json", folder / "latency.json"
    for path, document in zip(paths, (scores, latency), strict=True):
        write_json(path, to_json(document))
    return paths


def card_of(directory, scores, bench):
    """The facts of a card that is written into a directory, and its Markdown."""
    invoke("card", directory, "--scores", scores, "--bench", bench)
    return read_facts(directory / "card.json"), (directory / "README.md").read_text()


def section(markdown):
    """What a card says of how its model was made."""
    return re.search(r"^## How it was made\n\n(.*?)^## ", markdown, flags=re.M | re.S)[1]


def stages_in(markdown):
    return re.findall(r"^\| ([a-z-]+) [(|]", section(markdown), flags=re.M)[1:]


@pytest.fixture(scope="module")
def chain(teachers, data_dir, tmp_path_factory):
    """A classifier that was fine-tuned, pruned from Python and exported by a command; its scores and a bench."""
    folder = tmp_path_factory.mktemp("chain")
    settings = PruneSettings(epochs=1, batch_size=8, heads=0.5, examples=16, max_length=32)
    shutil.copytree(teachers / "sst2", folder / "teacher")
    prune(str(folder / "teacher"), data=str(data_dir), task=SST2, output=folder / "pruned", settings=settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_albert_plus.records.record.command_line", lambda: COMMAND)
        invoke("export", folder / "pruned", "--to", "onnx", "--out", folder / "exported")
    documents = measured(folder, [f"{folder}/exported:onnx", f"{folder}/pruned"], data=data_dir)
    return folder, *documents


@pytest.mark.slow
def test_a_card_lists_each_stage_of_a_chain_once_in_order(chain):
    folder, *documents = chain
    facts, markdown = card_of(folder / "exported", *documents)
    names = {"export": "exported", "prune": "pruned", "finetune": "teacher"}
    assert [each["stage"] for each in facts["lineage"]] == stages_in(markdown) == list(names)
    assert facts["training"]["stage"] == "prune"
    made = section(markdown)
    for stage, name in names.items():
        assert f"| {stage} ({fingerprint(folder / name)[:12]}) |" in made
    assert "| `albert-plus export pruned --to onnx --out exported` |" in made
    assert "| from Python: task=sst2, " in made
    assert "heads=0.5, " in made
    assert f"| model pruned ({fingerprint(folder / 'pruned')[:12]}) |" in made
    assert str(folder) not in json.dumps(facts["lineage"])
    ran = read_record(folder / "exported").versions
    assert made.count(f"torch {ran['torch']}") == made.count("hf-albert-plus ") == 1
    assert ("commit" not in ran) or f"commit {ran['commit'][:12]}, " in made
    assert markdown.index("## Training") < markdown.index("## How it was made") < markdown.index("## Scores")
    # A model without exits, whose scores nobody calibrated, has no rows to name.
    assert "chosen_rows" not in facts
    invoke("card", folder / "exported", "--check")


def test_a_card_without_a_lineage_is_as_it_was(chain):
    folder, *documents = chain
    facts, markdown = card_of(folder / "exported", *documents)
    earlier = {name: value for name, value in facts.items() if name != "lineage"}
    assert render(earlier) == markdown.replace(f"## How it was made\n\n{section(markdown)}", "")
    write_json(folder / "earlier.json", earlier)
    assert read_facts(folder / "earlier.json") == earlier


def test_a_model_without_records_has_a_card_that_says_so(classifier_dir, data_dir, tmp_path):
    directory = shutil.copytree(classifier_dir, tmp_path / "model")
    facts, markdown = card_of(directory, *measured(tmp_path, [directory], data=data_dir))
    assert facts["lineage"] == []
    assert section(markdown) == "No record says it.\n\n"


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_a_parent_that_was_changed_or_removed_afterwards_is_a_name_and_a_hash(chain, damage, data_dir, tmp_path):
    """The export carries the training before it; what that read is followed where it is there."""
    folder, *_ = chain
    read = fingerprint(folder / "teacher")
    for name in ("teacher", "pruned", "exported"):
        shutil.copytree(folder / name, tmp_path / name)
    for name, parent in (("pruned", "teacher"), ("exported", "pruned")):
        text = (tmp_path / name / "record.json").read_text()
        (tmp_path / name / "record.json").write_text(text.replace(str(folder / parent), str(tmp_path / parent)))
    documents = measured(tmp_path, [f"{tmp_path}/exported:onnx"], data=data_dir)
    _, markdown = card_of(tmp_path / "exported", *documents)
    assert stages_in(markdown) == ["export", "prune", "finetune"]
    if damage == "changed":
        (tmp_path / "teacher" / "config.json").write_text((tmp_path / "teacher" / "config.json").read_text() + "\n")
    else:
        shutil.rmtree(tmp_path / "teacher")
    facts, markdown = card_of(tmp_path / "exported", *documents)
    assert stages_in(markdown) == ["export", "prune"]
    assert facts["lineage"][1]["read"]["model"] == {"path": "teacher", "sha256": read}
    assert f"model teacher ({read[:12]})" in section(markdown)


def test_a_report_hashes_each_directory_once_for_all_of_its_cards(chain, monkeypatch, tmp_path):
    _, scores, bench = chain
    hashed = []
    monkeypatch.setattr(report_stage, "fingerprint", lambda path: hashed.append(path.name) or fingerprint(path))
    report([scores], bench=bench, output=tmp_path / "report", title="T")
    facts = {name: read_facts(tmp_path / "report" / "cards" / f"{name}-sst2.json") for name in ("exported", "pruned")}
    assert facts["exported"]["lineage"][1:] == facts["pruned"]["lineage"]
    assert len(hashed) == len(set(hashed))
    assert {"teacher", "pruned"} <= set(hashed)


def test_a_pushed_card_has_the_same_lineage(chain):
    folder, *documents = chain
    facts, _ = card_of(folder / "exported", *documents)
    sent = card_to_push(folder / "exported", "user/model", said={})
    assert json.loads(sent["card.json"])["lineage"] == facts["lineage"]
    assert b"## How it was made" in sent["README.md"]


def test_a_damaged_lineage_is_refused_with_its_place(chain, tmp_path):
    from hf_albert_plus.errors import InvalidInput

    folder, *documents = chain
    facts, _ = card_of(folder / "exported", *documents)
    facts["lineage"][1]["read"]["model"] = "teacher"
    write_json(tmp_path / "card.json", facts)
    with pytest.raises(InvalidInput, match=r"lineage.1.read.model"):
        read_facts(tmp_path / "card.json")


# Words


def stage(name="finetune", *, command="", settings=None, read=None, versions=None, **more):
    return {"stage": name, "command": command, "settings": settings or {}, "read": read or {}, "finished": "f",
            "versions": versions or {}, **more}  # fmt: skip


def test_what_comes_from_the_hub_has_no_hash():
    read = {"model": {"path": "bert-base-uncased", "sha256": "hub"}, "data": {"path": "my|rows", "sha256": "0123456789abcdef"}}  # fmt: skip
    assert stage_rows([stage(read=read)]) == [
        ["finetune", "from Python", "model bert-base-uncased (of the Hub), data my\\|rows (0123456789ab)", "f"]
    ]


def test_settings_stand_in_short_where_there_is_no_command():
    settings = {"task": "sst2", "phases": ["exits", "general"], "labels": [str(i) for i in range(150)], "budget": None, "rows": {"a": 1}}  # fmt: skip
    rows = stage_rows([stage(settings=settings), stage("export", command="albert-plus export a|b\n--to `c`")])
    assert [row[1] for row in rows] == ["from Python: task=sst2, phases=exits general", "``albert-plus export a\\|b --to `c```"]  # fmt: skip
    assert rows[0][2] == "nothing"


def test_versions_stand_once_and_what_differs_beside_them():
    now = {"hf-albert-plus": "1", "commit": "c" * 40, "torch": "2", "transformers": "5", "onnxruntime": "1"}
    said = f"hf-albert-plus 1, commit {'c' * 12}, torch 2, transformers 5, onnxruntime 1."
    assert versions_in_words([stage(versions=now)]) == f"It ran {said}"
    assert versions_in_words([stage(versions=now)] * 3) == f"All ran {said}"
    older = {name: value for name, value in {**now, "torch": "1.9"}.items() if name != "commit"}
    behind = [stage("prune", versions=older, made={"path": "p", "sha256": "d" * 64}), stage(versions=older)]
    assert versions_in_words([stage("export", versions=now), *behind]) == (
        f"The last stage ran {said} prune ({'d' * 12}) and finetune: commit not known, torch 1.9."
    )


# The rows that something was found on


def with_exits(classifier_dir, folder):
    """A classifier with two exits that nobody trained."""
    shutil.copytree(classifier_dir, folder)
    config = AlbertPlusConfig.from_pretrained(classifier_dir, exit_layers=[2, 3])
    AlbertPlusForSequenceClassification.from_pretrained(classifier_dir, config=config).save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["validation", "set aside"])
def test_a_card_says_on_which_rows_the_threshold_of_its_exits_was_found(rows, classifier_dir, data_dir, tmp_path):
    source, data = with_exits(classifier_dir, tmp_path / "exits"), data_dir
    if rows == "set aside":
        set_aside(str(data_dir), task=SST2, output=tmp_path / "rows", seed=1)
        data = tmp_path / "rows"
    invoke("calibrate", "--model", source, "--data", data, "--task", "sst2", "--max-drop", 100, "--folds", 2, "--keep-exits", "--max-length", 32,
           "--out", tmp_path / "calibrated")  # fmt: skip
    count = read_record(tmp_path / "calibrated").result["found_on"]["rows"]
    invoke("export", tmp_path / "calibrated", "--to", "onnx-exits", "--out", tmp_path / "exported")
    documents = measured(tmp_path, [f"{tmp_path}/exported:onnx-exits"], data=data_dir)
    facts, markdown = card_of(tmp_path / "exported", *documents)
    said = {
        "validation": f"The threshold of the exits was found on {count} rows of validation, which are scored below too: others may fare a little worse.",
        "set aside": f"The threshold of the exits was found on {count} training rows that were set aside.",
    }[rows]
    assert f"\n\n{said}\n\n" in markdown
    stages = ["export", "calibrate", *(["set-aside"] if rows == "set aside" else [])]
    assert stages_in(markdown) == stages
    assert facts["chosen_rows"][0]["rows"] == count > 0
    # The export carries the record of the calibration, whose directory may go; those of earlier versions do not.
    shutil.rmtree(tmp_path / "calibrated")
    assert card_of(tmp_path / "exported", *documents)[0]["chosen_rows"] == facts["chosen_rows"]
    record = json.loads((tmp_path / "exported" / "record.json").read_text())
    del record["result"]["calibrated"]
    write_json(tmp_path / "exported" / "record.json", record)
    facts, markdown = card_of(tmp_path / "exported", *documents)
    assert facts["chosen_rows"] == [{"what": "exits"}]
    assert "The threshold of the exits was found on rows that no record at hand names." in markdown


def test_a_card_says_on_which_rows_scores_were_calibrated(tokenizer_dir, tmp_path):
    """Rows that were held out of the only file that there is."""
    lines = [f"a {['good', 'bad', 'plain'][number % 3]} film number {number},{['good', 'bad', 'plain'][number % 3]}" for number in range(240)]  # fmt: skip
    (tmp_path / "my.csv").write_text("\n".join(["text,label", *lines]))
    make_classifier(tmp_path / "model", tokenizer_dir, names=("bad", "good", "plain"), problem_type="single_label_classification")  # fmt: skip
    invoke("calibrate-scores", tmp_path / "model", "--data", tmp_path / "my.csv", "--folds", 2, "--max-length", 32, "--out", tmp_path / "scored")  # fmt: skip
    count, task = read_record(tmp_path / "scored").result["rows"], find_task(str(tmp_path / "my.csv"))
    documents = measured(tmp_path, [tmp_path / "scored"], data=tmp_path / "my.csv", task=task)
    _, markdown = card_of(tmp_path / "scored", *documents)
    said = f"The scores were calibrated on {count} training rows that were held out for validation, which are scored below too: others may fare a little worse."
    assert f"\n\n{said}\n\n" in markdown
    assert stages_in(markdown) == ["calibrate-scores"]


DATA = {"path": "rows", "sha256": "1"}


def ancestor(name, *, model=None, data=DATA, made="", settings=None, **result):
    """A stage that read the content `model` and made the content `made`."""
    read = {} if model is None else {"model": {"path": "m", "sha256": model}}
    record = {"stage": name, "settings": settings or {}, "parents": {**read, "data": data}, "result": result}
    return Ancestor(record, {"path": "m", "sha256": made})


def words(behind, *, has_threshold=True, task=SST2, scored_on=DATA, splits=("validation",)):
    chosen = chosen_rows(behind, task=task, scored_on=scored_on, splits=splits, has_threshold=has_threshold)
    return [sentence.partition(", which are")[0].removesuffix(".") for sentence in sentences(chosen, task)]


def test_a_graph_has_a_threshold_of_its_own_on_the_split_of_the_models():
    export = ancestor("export", model="c", exports={"onnx": {}, "onnx-exits": {"threshold_rows": None}, "onnx-int8-exits": {"threshold_rows": 9}})  # fmt: skip
    calibrate = ancestor("calibrate", made="c", settings={"split": "train"}, found_on={"rows": 4000})
    assert words([export, calibrate]) == [
        "The threshold of the exits was found on 4,000 rows of train",
        "`onnx/model_exits_int8.onnx` has a threshold of its own, found on 9 rows of train",
    ]
    chosen = chosen_rows([export, calibrate], task=SST2, scored_on=DATA, splits=["validation"], has_threshold=True)
    assert chosen[1] == {"what": "onnx/model_exits_int8.onnx", "rows": 9, "split": "train", "of": "split", "are_scored": False}  # fmt: skip


def test_the_last_choice_counts_and_no_choice_of_another_model():
    first = ancestor("calibrate", model="b", made="c", found_on={"rows": 10})
    again = ancestor("calibrate", model="c", made="d", found_on={"rows": 20})
    training = ancestor("distill", model="a", made="b")
    teacher = ancestor("calibrate-scores", model="z", made="a", rows=30)
    assert words([again, first, training, teacher]) == ["The threshold of the exits was found on 20 rows of validation"]
    assert words([again, first, training, teacher], has_threshold=False) == []
    assert words([training, teacher]) == ["The threshold of the exits was found on rows that no record at hand names"]


@pytest.mark.parametrize(
    ("data", "splits", "same"),
    [
        (DATA, ["validation"], True),
        (DATA, ["test"], False),
        ({"path": "rows", "sha256": "2"}, ["validation"], False),
        ({"path": "nyu-mll/glue sst2", "sha256": "hub"}, ["validation"], True),
        ({"path": "nyu-mll/glue mrpc", "sha256": "hub"}, ["validation"], False),
    ],
)
def test_scores_on_the_same_rows_are_said_to_be(data, splits, same):
    scored_on = {"path": "nyu-mll/glue sst2", "sha256": "hub"} if data["sha256"] == "hub" else DATA
    (chosen,) = chosen_rows([ancestor("calibrate", data=data, found_on={"rows": 1})], task=SST2, scored_on=scored_on, splits=splits, has_threshold=True)  # fmt: skip
    assert chosen["are_scored"] is same


def test_temperatures_of_a_tagger_are_of_words(tmp_path):
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps({"tokens": ["a", "town"], "tags": ["O", "B-LOC"]}) for _ in range(9)))  # fmt: skip
    task = find_task(str(tmp_path))
    assert task.has_tags
    behind = [ancestor("calibrate-scores", rows=1200)]
    assert words(behind, task=task, has_threshold=False) == ["The scores were calibrated on 1,200 words of validation"]
