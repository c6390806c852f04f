"""GLUE from its original TSV files and from parquet, prediction files, and the benchmark's submission."""

import csv
import io
import json
import zipfile

import numpy
import pytest
import sklearn.metrics
from datasets import Dataset

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.predictions import prediction_text, read_predictions, submission_files
from hf_albert_plus.tasks.glue import TASKS, get_task
from hf_albert_plus.tasks.splits import data_parent, load_split
from tests.support.command_line import invoke

# Lines as the distribution has them: quotes that never close, a byte order mark, columns by name or none at all.
FILES = {
    "CoLA/train.tsv": 'gj04\t1\t\tOur friends "won\'t buy this.\ngj04\t0\t*\tThey drank the pub.\n',
    "CoLA/dev.tsv": "gj04\t1\t\tThe sailors rode the breeze.\n",
    "CoLA/test.tsv": "index\tsentence\n0\tBill whistled past the house.\n1\tThe car \"honked\n",
    "SST-2/dev.tsv": 'sentence\tlabel\nit \'s a " charming journey \t1\nunflinchingly bleak \t0\n',
    "SST-2/test.tsv": "index\tsentence\n0\tuneasy mishmash .\n",
    "MRPC/dev.tsv": '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1355540\t1355592\tHe said "no .\t" He said no .\n',
    "MRPC/test.tsv": "\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA .\tB .\n",
    "QQP/train.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tHow?\tHow so?\t1\n4\t5\t6\tcut short\n",
    "QQP/dev.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tWhen?\t0\n",
    "STS-B/dev.tsv": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
                     "0\tm\tf\t2012\t1\tn\tn\tA man.\tA boy.\t3.250\n",
    "MNLI/dev_matched.tsv": "index\tpromptID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n7\t1\tg\tP\tH\tneutral\tneutral\n",
    "MNLI/dev_mismatched.tsv": "index\tpromptID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n0\t1\tg\tQ\tI\tx\tcontradiction\n",
    "QNLI/dev.tsv": "index\tquestion\tsentence\tlabel\n0\tWho?\tMe.\tentailment\n",
    "RTE/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n",
    "WNLI/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1\n",
    "diagnostic/diagnostic-full.tsv": "Lexical Semantics\tLogic\tDomain\tPremise\tHypothesis\tLabel\n\tx\ty\tP.\tH.\tcontradiction\n",
}  # fmt: skip


@pytest.fixture
def original(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("task", "split", "expected"),
    [
        ("cola", "train", [("Our friends \"won't buy this.", 1), ("They drank the pub.", 0)]),
        ("cola", "validation", [("The sailors rode the breeze.", 1)]),
        ("sst2", "validation", [("it 's a \" charming journey ", 1), ("unflinchingly bleak ", 0)]),
        ("mrpc", "validation", [('He said "no .', '" He said no .', 1)]),
        ("qqp", "train", [("How?", "How so?", 1)]),
        ("qqp", "validation", [("Why?", "When?", 0)]),
        ("stsb", "validation", [("A man.", "A boy.", 3.25)]),
        ("mnli", "validation_matched", [("P", "H", 1)]),
        ("mnli", "validation_mismatched", [("Q", "I", 2)]),
        ("qnli", "validation", [("Who?", "Me.", 0)]),
        ("rte", "validation", [("A.", "B.", 1)]),
        ("wnli", "validation", [("A.", "B.", 1)]),
        ("ax", "test", [("P.", "H.", 2)]),
    ],
)
def test_the_original_files_read_as_the_hub_has_them(original, task, split, expected):
    rows = load_split(str(original), get_task(task), split)
    columns = [*get_task(task).columns, "label"]
    assert [tuple(row[column] for column in columns) for row in rows] == expected
    assert data_parent(str(original), get_task(task))["sha256"] != "hub"


def test_test_splits_have_no_labels_and_keep_their_numbers(original):
    rows = load_split(str(original), get_task("cola"), "test", labelled=False)
    assert (rows["sentence"][:], rows["label"][:], rows["idx"][:]) == (
        ["Bill whistled past the house.", 'The car "honked'], [-1, -1], [0, 1],
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="got -1 and 1 more"):
        load_split(str(original), get_task("cola"), "test")


@pytest.mark.parametrize(
    ("name", "text", "task", "split", "words"),
    [
        ("SST-2/dev.tsv", "sentence\tlabel\ngood\tpositive\nbad\tawful\n", "sst2", "validation", "'awful' in line 3"),
        ("SST-2/dev.tsv", "text\tlabel\ngood\t1\n", "sst2", "validation", "columns sentence, got text, label"),
        ("SST-2/dev.tsv", "", "sst2", "validation", "got an empty file"),
        ("QQP/dev.tsv", "id\tquestion1\tquestion2\tis_duplicate\n1\tcut\n", "qqp", "validation", "line 2 with 2 of 4"),
        (
            "STS-B/dev.tsv",
            "index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.5\n",
            "stsb",
            "validation",
            "0 to 5, got 5.5",
        ),
    ],
)
def test_broken_original_files_are_refused(original, name, text, task, split, words):
    (original / name).write_text(text)
    with pytest.raises(InvalidInput, match=words):
        load_split(str(original), get_task(task), split)


def test_splits_that_a_task_does_not_have_are_refused(original):
    with pytest.raises(InvalidInput, match="ax has the splits test, got train; .* train on mnli"):
        load_split(str(original), get_task("ax"), "train")
    with pytest.raises(InvalidInput, match="mnli has the splits train, validation_matched"):
        load_split(str(original), get_task("mnli"), "validation")


def test_the_diagnostics_without_labels_say_where_the_labels_are(tmp_path):
    (tmp_path / "diagnostic").mkdir()
    (tmp_path / "diagnostic" / "diagnostic.tsv").write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    assert len(load_split(str(tmp_path), get_task("ax"), "test", labelled=False)) == 1
    with pytest.raises(InvalidInput, match="diagnostic-full.tsv alone"):
        load_split(str(tmp_path), get_task("ax"), "test")


def test_parquet_and_original_files_of_one_task_are_told_apart(original):
    """Where both are there, parquet is read: the folder says what it is by its name."""
    (original / "sst2").mkdir()
    Dataset.from_list([{"sentence": "parquet", "label": 1}]).to_parquet(original / "sst2" / "validation.parquet")
    assert load_split(str(original), get_task("sst2"), "validation")["sentence"][:] == ["parquet"]


@pytest.mark.parametrize("name", TASKS)
def test_prediction_files_come_back(name, tmp_path):
    task = get_task(name)
    generator = numpy.random.default_rng(0)
    predicted = generator.random(30) * 5 if task.is_regression else generator.integers(0, task.num_labels, 30)
    (tmp_path / "p.tsv").write_text(prediction_text(predicted, task))
    numpy.testing.assert_allclose(read_predictions(tmp_path / "p.tsv", task), predicted, atol=6e-4)


def test_prediction_files_may_have_any_order_and_names(tmp_path):
    (tmp_path / "p.tsv").write_text("index\tprediction\n1\t0\n0\tnot_entailment\n2\tentailment\n")
    assert read_predictions(tmp_path / "p.tsv", get_task("rte")).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"columns index and prediction.*got \[\]"),
        ("index,prediction\n0,1\n", r"got \['index,prediction'\]"),
        ("index\tprediction\n0\n", r"got \['0'\]"),
        ("index\tprediction\n0\t1\n0\t1\n", "each once, got '0' in line 3"),
        ("index\tprediction\n0\t1\n2\t1\n", "got none for 1"),
        ("index\tprediction\nx\t1\n", "got 'x' in line 2"),
        ("index\tprediction\n0\t2\n", "0 entailment, 1 not_entailment, got '2'"),
        ("index\tprediction\n0\t0.7\n", "got '0.7'"),
        ("index\tprediction\n0\tnan\n", "got 'nan'"),
    ],
)
def test_broken_prediction_files_are_refused(text, words, tmp_path):
    (tmp_path / "p.tsv").write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_predictions(tmp_path / "p.tsv", get_task("rte"))


def test_a_saved_prediction_file_scores_as_the_model_did(exported_dir, data_dir, tmp_path):
    common = ("--task", "sst2", "--data", data_dir)
    invoke("eval", f"m={exported_dir}:onnx", *common, "--max-length", 32, "--save-predictions", tmp_path, "--json",
            tmp_path / "model.json")  # fmt: skip
    invoke("eval", "--predictions", tmp_path / "sst2-m-onnx.tsv", *common, "--json", tmp_path / "file.json")
    (model,), (file,) = (json.loads((tmp_path / f"{name}.json").read_text())["rows"] for name in ("model", "file"))
    assert (model["metrics"], model["intervals"]) == (file["metrics"], file["intervals"])
    labels = load_split(str(data_dir), get_task("sst2"), "validation")["label"][:]
    lines = list(csv.reader(io.StringIO((tmp_path / "sst2-m-onnx.tsv").read_text()), delimiter="\t"))[1:]
    assert file["metrics"]["accuracy"] == pytest.approx(
        100 * sklearn.metrics.accuracy_score(labels, [int(line[1]) for line in lines])
    )
    assert file["examples"] == 48
    assert file["glue_examples"] == 872


def test_a_prediction_file_of_another_length_or_row_is_refused(data_dir, tmp_path):
    (tmp_path / "p.tsv").write_text("index\tprediction\n0\t1\n")
    with pytest.raises(InvalidInput, match="answer the 48 rows of the split, got 1"):
        invoke("eval", "--predictions", tmp_path / "p.tsv", "--task", "sst2", "--data", data_dir)
    with pytest.raises(InvalidInput, match="must name a row of sst2, got 'mnli-mm'"):
        invoke("eval", "--predictions", f"mnli-mm={tmp_path}/p.tsv", "--task", "sst2", "--data", data_dir)
    with pytest.raises(InvalidInput, match="scores targets or --predictions, got neither"):
        invoke("eval", "--task", "sst2", "--data", data_dir)


def test_a_submission_has_the_servers_files(exported_dir, data_dir, tmp_path):
    """Test rows without labels, answered under their own numbers, in the same bytes each time."""
    data = tmp_path / "data"
    rows = [{"sentence": row["sentence"], "label": -1, "idx": 100 + i}
            for i, row in enumerate(load_split(str(data_dir), get_task("sst2"), "validation"))]  # fmt: skip
    (data / "sst2").mkdir(parents=True)
    Dataset.from_list(rows).to_parquet(data / "sst2" / "test-00000-of-00001.parquet")
    words = ("submit", f"sst2={exported_dir}:onnx", "--data", data, "--max-length", 32, "--json", "--out")
    told = json.loads(invoke(*words, tmp_path / "a.zip").stdout)
    invoke(*words, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert told["missing"] == [stem for stem in submission_files() if stem != "SST-2"]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["SST-2.tsv"]
        lines = archive.read("SST-2.tsv").decode().splitlines()
    assert lines[0] == "index\tprediction"
    assert [int(line.split("\t")[0]) for line in lines[1:]] == [100 + i for i in range(48)]
    invoke("eval", f"m={exported_dir}:onnx", "--task", "sst2", "--data", data_dir, "--max-length", 32,
            "--save-predictions", tmp_path)  # fmt: skip
    saved = (tmp_path / "sst2-m-onnx.tsv").read_text().splitlines()
    assert [line.split("\t")[1] for line in lines] == [line.split("\t")[1] for line in saved]


def test_the_server_asks_for_eleven_files():
    assert set(submission_files()) == {"CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE",
                                       "WNLI", "AX"}  # fmt: skip


def test_names_and_numbers_are_written_where_the_server_reads_them():
    assert (
        prediction_text(numpy.array([0, 1]), get_task("rte")) == "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    )
    assert prediction_text(numpy.array([1]), get_task("wnli"), index=[7]) == "index\tprediction\n7\t1\n"
    assert prediction_text(numpy.array([-0.2, 5.4]), get_task("stsb")) == "index\tprediction\n0\t0.000\n1\t5.000\n"


@pytest.mark.parametrize("answer", ["sst2", "sst3=DIR", "=DIR"])
def test_a_wrong_answer_is_refused(answer, data_dir):
    with pytest.raises(InvalidInput, match="must be TASK=TARGET"):
        invoke("submit", answer, "--data", data_dir)
