"""The figures of the results pages: each stands in a record, and the check finds one that does not."""

import json
import sys

import pytest

from tests.support.documents import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import figures

RECORD = {"rows": [{"label": "ours", "metrics": {"accuracy": 85.3459}, "file_bytes": 7_812_345, "predictions": [41]}]}
PAGE = "# Results\n\n{}| model | accuracy | MB | rows |\n|---|---:|---:|---:|\n| ours | {} | 7.8 | 1,450 |\n"


def test_every_figure_has_its_record():
    assert figures.problems() == []


@pytest.fixture
def results(tmp_path, monkeypatch):
    pages = tmp_path / "docs" / "results"
    (pages / "records").mkdir(parents=True)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "RECORDS", pages / "records")
    (tmp_path / "scores.json").write_text(json.dumps(RECORD))
    (tmp_path / "latency.json").write_text(json.dumps({"examples": 1450}))
    figures.keep("ours", [tmp_path / "scores.json", tmp_path / "latency.json"])
    return pages


@pytest.mark.parametrize(
    ("marker", "score", "problem"),
    [
        ("<!-- figures: records/ours.json -->\n\n", "85.3 (85.346)", ""),
        ("<!-- figures: records/ours.json -->\n\n", "85.4", "no record of it has 85.4 (ours)"),
        ("<!-- figures: records/ours.json -->\n\n", "85", "no record of it has 85 (ours)"),
        ("<!-- figures: records/ours.json -->\n\n", "41", "no record of it has 41 (ours)"),
        ("<!-- figures: records/ours.json but for 85.4 -->\n\n", "85.4", ""),
        ("<!-- figures: records/ours.json but for ours -->\n\n", "85.4", ""),
        ("<!-- figures: records/ours.json but for theirs -->\n\n", "85.3", "no row and no number is theirs"),
        ("<!-- figures: records/theirs.json -->\n\n", "85.3", "there is no record records/theirs.json"),
        ("<!-- figures: none, measured elsewhere -->\n\n", "1.0", ""),
        ("", "85.3", "a table must name its records"),
    ],
)
def test_a_table_of_results(results, marker, score, problem):
    page = results / "page.md"
    page.write_text(PAGE.format(marker, score))
    found = list(figures.problems_of_results(page))
    assert (problem in found[0] and len(found) == 1) if problem else found == []


@pytest.mark.parametrize(("figure", "problems"), [("85.3", 0), ("85.9", 1)])
def test_a_row_elsewhere_says_what_the_page_says(results, figure, problems):
    (results / "page.md").write_text(PAGE.format("", "85.3"))
    readme = results.parents[1] / "README.md"
    readme.write_text(f"| | score |\n|---|---|\n| [ours](docs/results/page.md) | {figure} |\n| others | 1.23 |\n")
    assert len(list(figures.problems_elsewhere(readme))) == problems


def test_of_a_path_of_the_machine_its_name_alone_is_kept(results, tmp_path):
    words = {
        "path": "/data/glue/mrpc",
        "command": "eval models/a --data /data/glue --task mrpc",
        "rate": "1,200 texts / s",
    }
    (tmp_path / "record.json").write_text(json.dumps(words))
    kept = json.loads(figures.keep("paths", [tmp_path / "record.json"]).read_text())
    assert kept["record"] == {**words, "path": "mrpc", "command": "eval models/a --data glue --task mrpc"}


def test_documents_of_one_name_are_kept_beside_each_other(results, tmp_path):
    for folder, score in (("finals", 1), ("floor", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "scores.json").write_text(json.dumps({"score": score}))
    both = [tmp_path / folder / "scores.json" for folder in ("finals", "floor")]
    path = figures.keep("both", [*both, tmp_path / "latency.json"])
    kept = {"finals-scores": {"score": 1}, "floor-scores": {"score": 2}, "latency": {"examples": 1450}}
    assert json.loads(path.read_text()) == kept
    with pytest.raises(SystemExit, match="documents must differ in name or folder"):
        figures.keep("both", [both[0], both[0]])
