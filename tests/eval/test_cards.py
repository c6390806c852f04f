"""Cards from records, seeds as one row, traffic, the method's check of itself, and what the command line says of them."""

import json
import shutil

import numpy
import pytest
import yaml

from hf_albert_plus.config_building import variant_config
from hf_albert_plus.data_names import name_of_data
from hf_albert_plus.errors import AlbertPlusError, InvalidInput
from hf_albert_plus.eval.reporting.card import _letters, eval_results, render_card
from hf_albert_plus.eval.reporting.cards import read_facts
from hf_albert_plus.eval.targets import parse_targets
from hf_albert_plus.records.record import fingerprint, training_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.variants import published_training_speedup
from tests.support.benches import shortened_benches
from tests.support.command_line import invoke


@pytest.fixture(scope="module")
def seeds(exported_dir, tmp_path_factory):
    """Three directories of one architecture with other weights, as three seeds would be."""
    from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification

    found = []
    for seed in range(3):
        directory = tmp_path_factory.mktemp("seeds") / f"m{seed}"
        shutil.copytree(exported_dir, directory, ignore=shutil.ignore_patterns("onnx", "record.json"))
        model = AlbertPlusForSequenceClassification.from_pretrained(directory)
        model.classifier.weight.data.mul_(1 - seed)
        model.classifier.bias.data.add_(0.3 * seed)
        model.save_pretrained(directory)
        (directory / "record.json").write_text(
            json.dumps({"stage": "finetune", "settings": {"seed": seed, "max_length": 32}, "parents": {}, "files": {},
                        "result": {"steps": 9}, "command": f"albert-plus finetune --seed {seed}", "finished": "f",
                        "versions": {}, "platform": "p", "seconds": 1.0})
        )  # fmt: skip
        found.append(directory)
    return found


@pytest.fixture(scope="module")
def measured(seeds, exported_dir, data_dir, tmp_path_factory):
    """Scores of the three seeds as one row beside another model, and a bench of one of them with traffic."""
    folder = tmp_path_factory.mktemp("measured")
    row = [f"seeded={directory}" for directory in seeds]
    invoke("eval", *row, f"base={exported_dir}:onnx", "--task", "sst2", "--data", data_dir, "--max-length", 32, "--json",
            folder / "scores.json", "--save-predictions", folder)  # fmt: skip
    with shortened_benches():
        invoke("bench", f"seeded={seeds[0]}", "--baseline", f"base={exported_dir}:onnx", "--shapes", "1x8", "--data",
               data_dir, "--task", "sst2", "--max-length", 32, "--seconds", 0.2, "--rate", 50, "--threads", 1, "--json",
               folder / "bench.json")  # fmt: skip
    # The scores were measured with the default number of threads.
    for name in ("scores", "bench"):
        document = json.loads((folder / f"{name}.json").read_text())
        document["environment"]["threads"] = 1
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


@pytest.mark.slow
def test_seeds_are_one_row_with_median_and_range(measured, seeds):
    document = json.loads((measured / "scores.json").read_text())
    row, base = document["rows"]
    values = [run["metrics"]["accuracy"] for run in row["runs"]]
    assert [run["seed"] for run in row["runs"]] == [0, 1, 2]
    assert row["metrics"]["accuracy"] == numpy.median(values)
    assert row["spread"]["accuracy"] == [min(values), max(values)]
    labels = numpy.array(document["references"]["sst2"])
    for run in row["runs"]:
        assert run["metrics"]["accuracy"] == pytest.approx(100 * (numpy.array(run["predictions"]) == labels).mean())
    assert len(base["runs"]) == 1
    assert {path.name for path in measured.glob("*.tsv")} == {
        "sst2-seeded-torch-1.tsv", "sst2-seeded-torch-2.tsv", "sst2-seeded-torch-3.tsv", "sst2-base-onnx.tsv",
    }  # fmt: skip


def test_targets_are_seeds_only_under_a_given_name(seeds):
    assert len(parse_targets([f"a={directory}" for directory in seeds], runs=True)) == 3
    with pytest.raises(InvalidInput, match="different labels"):
        parse_targets([f"a={directory}" for directory in seeds])
    with pytest.raises(InvalidInput, match="different labels"):
        parse_targets([f"a={seeds[0]}", f"a={seeds[0]}"], runs=True)
    with pytest.raises(InvalidInput, match="different labels"):
        parse_targets([str(seeds[0]), f"m0={seeds[1]}"], runs=True)


def test_traffic_is_timed_in_three_scenarios(measured):
    document = json.loads((measured / "bench.json").read_text())
    assert document["loads"] == ["1x8", "sst2 single stream", "sst2 offline", "sst2 server 50/s"]
    for row in document["rows"]:
        cells = row["loads"]
        assert set(cells) == set(document["loads"])
        offline = cells["sst2 offline"]
        passes = [value for block in offline["rounds"] for value in block]
        assert offline["items_per_s"] == pytest.approx(48e3 / numpy.mean(passes), rel=1e-3)
        server = cells["sst2 server 50/s"]
        assert server["samples"] >= 6 * 8
        assert server["mean_batch"] >= 1
        assert server["kept_up"]
    assert document["traffic"]["task"] == "sst2"
    base = next(row for row in document["rows"] if row["label"] == document["baseline"])
    assert all(cell["speedup"] == 1.0 for cell in base["loads"].values())


def test_the_card_of_a_directory(measured, seeds, tmp_path):
    directory = shutil.copytree(seeds[0], tmp_path / "m")
    document = json.loads((measured / "scores.json").read_text())
    document["rows"][0]["runs"][0]["directory"] = str(directory)
    (tmp_path / "scores.json").write_text(json.dumps(document))
    before = fingerprint(directory)
    words = ("card", directory, "--scores", tmp_path / "scores.json", "--bench", measured / "bench.json")
    invoke(*words, "--data-name", "nyu-mll/glue")
    assert fingerprint(directory) == before  # a card is no part of the model
    card = (directory / "README.md").read_text()
    _, head, body = card.split("---\n", 2)
    metadata = yaml.safe_load(head)
    median = document["rows"][0]["metrics"]["accuracy"]
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["value"] == pytest.approx(median / 100, abs=1e-4)
    (entry,) = yaml.safe_load((directory / ".eval_results" / "glue-sst2.yaml").read_text())
    assert entry["dataset"] == {"id": "nyu-mll/glue", "task_id": "sst2"}
    assert entry["value"] == pytest.approx(median / 100, abs=1e-4)
    low, high = document["rows"][0]["intervals"]["accuracy"]
    assert f"{median:.1f} ({low:.1f} to {high:.1f}), 3 runs" in body
    assert "```bash\nalbert-plus finetune --seed 0\n```" in body
    assert "48 of 872" in body
    assert "sst2 server 50/s" in body
    # From its own record alone it comes out the same.
    (directory / "README.md").unlink()
    invoke("card", directory)
    assert (directory / "README.md").read_text() == card
    invoke("card", directory, "--check")
    (directory / "README.md").write_text(card.replace("Limits", "No limits"))
    with pytest.raises(AlbertPlusError, match="cards differ from their records: .*README.md"):
        invoke("card", directory, "--check")


def test_a_card_keeps_what_each_seed_scored(measured, tmp_path):
    invoke("report", "--scores", measured / "scores.json", "--bench", measured / "bench.json", "--out", tmp_path / "r")
    document = json.loads((measured / "scores.json").read_text())
    seeded, base = (read_facts(tmp_path / "r" / "cards" / f"{name}-sst2.json") for name in ("seeded", "base"))
    expected = [{"seed": run["seed"], "metrics": run["metrics"]} for run in document["rows"][0]["runs"]]
    (row,) = seeded["scores"]
    assert row["runs"] == expected
    assert [run["seed"] for run in expected] == row["seeds"] == [0, 1, 2]
    markdown = render_card(seeded)
    for run in expected:
        assert (
            f"| seeded torch fp32 | sst2 validation | {run['seed']} | {run['metrics']['accuracy']:.2f} |\n" in markdown
        )
    # A row of one run is that run.
    assert all("runs" not in row for row in base["scores"])
    assert "Each run" not in render_card(base)
    row["runs"][0]["metrics"] = {"f1": 1.0}
    (tmp_path / "card.json").write_text(json.dumps(seeded))
    with pytest.raises(InvalidInput, match="belong together, got scores that are none of 'sst2'"):
        read_facts(tmp_path / "card.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data_name", "as_type", "is_on_hub"),
    [
        ("nyu-mll/glue", "nyu-mll/glue", True),
        ("the demo's generated data", "the-demo-s-generated-data", False),
        ("/home/me/my.csv", "home-me-my.csv", False),
    ],
)
def test_data_have_a_name_that_the_hub_takes(data_name, as_type, is_on_hub, measured, tmp_path):
    invoke("report", "--scores", measured / "scores.json", "--bench", measured / "bench.json", "--out", tmp_path / "r",
            "--data-name", data_name)  # fmt: skip
    facts = read_facts(tmp_path / "r" / "cards" / "seeded-sst2.json")
    metadata = yaml.safe_load(render_card(facts).split("---\n")[1])
    assert metadata["model-index"][0]["results"][0]["dataset"]["type"] == as_type
    assert (eval_results(facts) is not None) == is_on_hub
    assert (metadata.get("datasets") == [data_name]) == is_on_hub


def test_names_of_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "my.csv").touch()
    assert name_of_data("data/my.csv") == name_of_data(str(tmp_path / "data" / "my.csv")) == "my.csv"
    assert name_of_data("owner/name:configuration") == "owner/name"


def test_cards_of_a_data_set_off_the_hub_have_no_hub_results(measured, seeds, tmp_path):
    invoke("report", "--scores", measured / "scores.json", "--bench", measured / "bench.json", "--out", tmp_path / "r",
            "--data-name", "toy data")  # fmt: skip
    facts = read_facts(tmp_path / "r" / "cards" / "seeded-sst2.json")
    assert eval_results(facts) is None
    assert render_card(facts) == (tmp_path / "r" / "cards" / "seeded-sst2.md").read_text()
    markdown = (tmp_path / "r" / "report.md").read_text()
    assert "Rows that were scored, of those that GLUE has: sst2 validation 48 of 872." in markdown
    assert "GLUE's macro averages: not measured" in markdown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{seed}",), "a card needs measurements, or card.json"),
        (
            ("{seed}", "--scores", "{m}/scores.json"),
            "needs --scores and --bench, got --scores alone; make the other: albert-plus bench .* --baseline TEACHER --json latency.json, and add",
        ),
        (
            ("{seed}", "--bench", "{m}/bench.json"),
            "got --bench alone; make the other: albert-plus eval .* --data DATA --json",
        ),
        (("{m}/bench.json",), "must come from albert-plus card or report"),
        (
            ("{m}", "--scores", "{m}/scores.json", "--bench", "{m}/bench.json"),
            "its model among the scores, got none of",
        ),
    ],
)
def test_a_card_without_facts_is_refused(measured, seeds, words, message):
    with pytest.raises(InvalidInput, match=message):
        invoke("card", *(word.format(seed=seeds[1], m=measured) for word in words))


def test_letters_of_blocks():
    assert [_letters(number) for number in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        "A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip


@pytest.mark.slow
def test_an_export_carries_the_record_of_its_training(seeds, tmp_path):
    from hf_albert_plus.export.stage import export
    from hf_albert_plus.records.files import write_json
    from hf_albert_plus.records.record import describe_files

    source = shutil.copytree(seeds[1], tmp_path / "trained")
    record = {**json.loads((source / "record.json").read_text()), "versions": {}, "platform": "p", "seconds": 1.0}
    write_json(source / "record.json", {**record, "files": describe_files(source)})
    export(source, to=["onnx"], output=tmp_path / "out")
    found = training_record(tmp_path / "out")
    assert (found["command"], found["settings"]["seed"]) == ("albert-plus finetune --seed 1", 1)
    assert training_record(tmp_path) == {}


def test_the_papers_training_speedups_stand_apart():
    """ALBERT, Table 2; nothing for shapes that it does not have."""
    published = {"bert-base": 4.7, "bert-large": 1.0, "albert-base-v2": 5.6, "albert-large-v2": 1.7,
                 "albert-xlarge-v2": 0.6, "albert-xxlarge-v1": 0.3, "distilbert": None, "albert-base-e128-ffn": None}  # fmt: skip
    assert {name: published_training_speedup(variant_config(name)) for name in published} == published


@pytest.mark.slow
def test_the_method_checks_itself(exported_dir, tmp_path, short_benches):
    """The rows are there and the slowed one is slower; how well it tells them apart is a benchmark's business."""
    invoke("bench", "self-check", f"{exported_dir}:onnx", "--shapes", "4x32", "--seconds", 0.3, "--json",
            tmp_path / "c.json")  # fmt: skip
    rows = {row["label"]: row["loads"]["4x32"] for row in json.loads((tmp_path / "c.json").read_text())["rows"]}
    assert set(rows) == {"the target", "itself", "itself, 10 % slower"}


def test_a_slowed_engine_takes_a_tenth_longer(monkeypatch):
    from types import SimpleNamespace

    from hf_albert_plus.eval.latency import self_check

    now = [0.0]

    def clock():
        now[0] += 1e-4
        return now[0]

    class Engine(SimpleNamespace):
        def __call__(self, **tensors):
            now[0] += 0.5
            return "answer"

    monkeypatch.setattr(self_check.time, "perf_counter", clock)
    slowed = self_check.Slowed(Engine(config=None, inputs=()))
    start = now[0]
    assert slowed() == "answer"
    assert now[0] - start == pytest.approx(0.55, rel=0.01)


@pytest.mark.parametrize("text", ["0", "-3"])
def test_a_rate_that_is_none_is_refused(text, exported_dir, data_dir):
    with pytest.raises(InvalidInput, match="--rate must be greater than 0"):
        invoke("bench", f"{exported_dir}:onnx", "--baseline", f"{exported_dir}:onnx", "--data", data_dir, "--task", "sst2",
                "--scenario", "server", "--max-length", 32, "--rate", text)  # fmt: skip


def test_task_metrics_have_names_on_the_hub():
    from hf_albert_plus.eval.reporting.card import _HUB_METRICS

    assert {_HUB_METRICS.get(name, name) for name in get_task("stsb").metrics} == {"pearsonr", "spearmanr"}
