"""The table of artefacts: what makes and runs each, and that reading it imports no library."""

import subprocess
import sys

import pytest

from hf_albert_plus.compression.exits.criteria import Criterion
from hf_albert_plus.engines.artefacts import ARTEFACTS, RUNTIMES, TYPED_GRAPHS, names_in_words
from hf_albert_plus.engines.parity import ClassAgreement, Difference, Parity
from hf_albert_plus.export.exporters import EXPORTERS
from hf_albert_plus.export.facts import facts_of


def test_every_artefact_has_what_makes_it_and_what_runs_it():
    assert list(EXPORTERS) == list(ARTEFACTS)
    assert {runtime.target for runtime in RUNTIMES.values()} - {None} == set(ARTEFACTS) - {"triton", "web"}
    assert TYPED_GRAPHS == ["onnx-fp16", "onnx-bf16", "onnx-qdq"]


def test_runtimes_say_which_export_makes_their_file():
    assert RUNTIMES["openvino-bf16"].file == RUNTIMES["openvino"].file
    assert RUNTIMES["openvino-bf16"].command("DIR") == "albert-plus export DIR --to openvino --out OUT"
    assert {runtime.file for runtime in RUNTIMES.values() if runtime.target is None} == {"model.safetensors"}
    assert [name for name, runtime in RUNTIMES.items() if runtime.leaves_early] == ["onnx-exits", "onnx-int8-exits"]


@pytest.mark.parametrize("module", ["engines.artefacts", "export.settings"])
def test_the_table_and_the_settings_import_no_library(module):
    heavy = ("torch", "transformers", "numpy", "onnx", "onnxruntime", "datasets", "openvino")
    code = f"import sys, hf_albert_plus.{module}; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_package_offers_the_stage_its_settings_and_the_table():
    import hf_albert_plus.export as package

    assert {"ARTEFACTS", "ExportSettings", "export"} <= set(dir(package))
    assert package.ARTEFACTS is ARTEFACTS


def test_names_stand_in_words():
    assert [names_in_words(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b or c"]


def test_fields_of_results_are_the_keys_of_a_record():
    difference = Difference("logits", max_abs=0.5, scaled=0.25, cosine=1.0, inputs="x")
    facts = facts_of(Parity(0.5, 1.0, (difference,)), Criterion("entropy", 0.25))
    assert facts == {
        "max_abs_difference": 0.5,
        "least_cosine": 1.0,
        "parity": [{"output": "logits", "max_abs": 0.5, "scaled": 0.25, "cosine": 1.0, "inputs": "x"}],
        "kind": "entropy",
        "threshold": 0.25,
        "tolerance": 0.1,
        "label_thresholds": [],
    }
    assert facts_of(ClassAgreement(3, 0.5, same=2)) == {"predictions": 3, "max_abs_difference": 0.5, "same": 2}
