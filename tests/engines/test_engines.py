"""Engines: what they refuse, that they work in pipelines, and that batches keep the caller's order."""

import json
import os
import shutil
import subprocess
import sys

import numpy
import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.engines.batch_plans import file_batches, token_batches
from hf_albert_plus.engines.batching import pad_rows, run_batches
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.tensors import check_tensors
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.heads import albert_plus_class
from hf_albert_plus.machine import container_cores
from hf_albert_plus.model_inputs import longest_input
from tests.support.cores import CORES
from tests.support.small_models import pair_inputs, randomise, small_config

RUNTIMES_HERE = [
    "torch", "torch-bf16", "torch-compile", "onnx", "onnx-fp16", "onnx-int8", "onnx-qdq", "openvino", "openvino-bf16",
    "openvino-int8",
]  # fmt: skip
TEXTS = ["the film is superb .", "the plot is not very good .", "no", "the cast is never dull and the film is good ."]


@pytest.fixture(scope="module")
def every_dir(tmp_path_factory, classifier_dir, data_dir):
    """The classifier with every artefact that can be made here."""
    directory = tmp_path_factory.mktemp("every") / "model"
    to = ["onnx", "onnx-fp16", "onnx-bf16", "onnx-int8", "onnx-qdq", "openvino", "openvino-int8"]
    export(
        classifier_dir,
        to=to,
        output=directory,
        settings=ExportSettings(data=str(data_dir), task="sst2", examples=24),
        scorer=lambda engine: 50.0,
    )
    return directory


@pytest.mark.parametrize(
    "runtime",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "torch-compile" else []) for name in RUNTIMES_HERE],
)
def test_every_runtime_in_a_pipeline(every_dir, runtime, monkeypatch):
    complaints: list[tuple] = []
    monkeypatch.setattr("transformers.pipelines.base.logger.error", lambda *words: complaints.append(words))
    tokenizer = AutoTokenizer.from_pretrained(every_dir)
    engine = Engine.load(every_dir, runtime, threads=1)
    run = pipeline("text-classification", model=engine, tokenizer=tokenizer, device="cpu", top_k=None)
    assert complaints == []
    expected = pipeline("text-classification", model=str(every_dir), tokenizer=tokenizer, device="cpu", top_k=None)
    tolerance = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 5e-2, "int8": 0.1}[RUNTIMES[runtime].precision]
    for batch_size in (1, 3):
        for found, wanted in zip(run(TEXTS, batch_size=batch_size), expected(TEXTS), strict=True):
            scores = {row["label"]: row["score"] for row in found}
            assert scores == pytest.approx({row["label"]: row["score"] for row in wanted}, abs=tolerance)


def test_a_pipeline_on_another_device_is_told(every_dir):
    with pytest.raises(InvalidInput, match="tensors on the cpu, got device meta; pass device='cpu'"):
        pipeline(
            "text-classification",
            model=Engine.load(every_dir, "onnx"),
            tokenizer=AutoTokenizer.from_pretrained(every_dir),
            device="meta",
        )


GOOD = pair_inputs(60, batch=2, length=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input_ids": None}, "reads input_ids, attention_mask, token_type_ids, got no input_ids"),
        ({"token_type_ids": None}, "got no token_type_ids; pass what the tokenizer returns"),
        ({"input_ids": [[1, 2]]}, 'input_ids must be a tensor, got list; tokenise with return_tensors="pt"'),
        ({"input_ids": GOOD["input_ids"].float()}, "input_ids must hold int64, got float32; call .long()"),
        ({"attention_mask": GOOD["attention_mask"].bool()}, "attention_mask must hold int64, got bool"),
        ({"input_ids": torch.zeros(2, 0, dtype=torch.long)}, r"at least one token, got shape \[2, 0\]"),
        ({"input_ids": torch.zeros(5, dtype=torch.long)}, r"must be \[batch, sequence\].*got shape \[5\]"),
        ({"attention_mask": torch.ones(2, 4).long()}, r"shape of input_ids, \[2, 5\], got \[2, 4\]"),
        (
            {"input_ids": GOOD["input_ids"] + 10_000},
            "input_ids must lie between 0 and .*use the tokenizer of this model",
        ),
        ({"input_ids": GOOD["input_ids"] - 10_000}, r"input_ids must lie between 0 and \d+, got -\d+"),
        ({"token_type_ids": GOOD["input_ids"] * 0 + 2}, "token_type_ids must lie between 0 and 1, got 2"),
        ({"attention_mask": GOOD["attention_mask"] * 7}, "attention_mask must lie between 0 and 1, got 7"),
        ({name: torch.ones(1, 65).long() for name in GOOD}, "at most 64 tokens, got 65; tokenise with truncation=True"),
    ],
)
@pytest.mark.parametrize("runtime", ["torch", "onnx-int8", "openvino"])
def test_wrong_tensors_are_refused_alike(every_dir, runtime, change, words):
    engine = Engine.load(every_dir, runtime, verify=False)
    with pytest.raises(InvalidInput, match=words):
        engine(**{name: value for name, value in {**GOOD, **change}.items() if value is not None})
    assert engine(**GOOD).logits.shape == (2, 2)  # and the engine is as good as before
    assert engine(**{name: tensor.int() for name, tensor in GOOD.items()}).logits.shape == (2, 2)


FILES = {"onnx": "onnx/model.onnx", "onnx-int8": "onnx/model_int8.onnx", "openvino": "openvino/openvino_model.bin",
         "torch": "model.safetensors"}  # fmt: skip


@pytest.mark.parametrize("runtime", FILES)
def test_a_changed_file_does_not_have_its_recorded_hash(every_dir, tmp_path, runtime):
    directory = shutil.copytree(every_dir, tmp_path / "model")
    path = directory / FILES[runtime]
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="must be the file that .*record.json describes, got other content"):
        Engine.load(directory, runtime)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "foreign"])
@pytest.mark.parametrize("runtime", ["torch", "onnx", "openvino"])
def test_broken_and_foreign_files_are_named(every_dir, tmp_path, runtime, damage):
    directory = shutil.copytree(every_dir, tmp_path / "model")
    path = directory / RUNTIMES[runtime].file
    if damage == "foreign" and runtime == "torch":
        torch_model = randomise(albert_plus_class("ForTokenClassification")(small_config(num_hidden_layers=1)))
        torch_model.save_pretrained(tmp_path / "other")
        shutil.copyfile(tmp_path / "other" / "model.safetensors", path)
    elif damage == "foreign":
        _write_foreign(path)
    else:
        content = path.read_bytes()
        path.write_bytes({"truncated": content[: len(content) // 2], "garbage": b"\x80\x04half", "empty": b""}[damage])
    with pytest.raises(InvalidInput) as raised:
        Engine.load(directory, runtime, verify=False)
    assert str(path) in str(raised.value) or str(directory) in str(raised.value)
    assert "again" in str(raised.value) or "belong together" in str(raised.value) or "correct" in str(raised.value)


def _write_foreign(path):
    """A graph that loads, and is not of this model."""
    from onnx import TensorProto, helper, save

    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["pixels"], ["classes"])],
            "g",
            [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 4])],
            [helper.make_tensor_value_info("classes", TensorProto.FLOAT, [1, 4])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    if path.suffix == ".onnx":
        save(proto, path)
        return
    import openvino

    save(proto, path.with_name("foreign.onnx"))
    openvino.save_model(openvino.convert_model(path.with_name("foreign.onnx")), path)


def test_a_missing_weight_file_of_openvino_is_named(every_dir, tmp_path):
    directory = shutil.copytree(every_dir, tmp_path / "model")
    (directory / "openvino" / "openvino_model.bin").unlink()
    with pytest.raises(InvalidInput, match=r"openvino_model.bin must be the file .*got no such file"):
        Engine.load(directory, "openvino")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda d: Engine.load(d, "onnx", providers=["CudaExecutionProvider"]),
            "providers must be ones .*hf-albert-plus\\[gpu\\]",
        ),
        (lambda d: Engine.load(d, "openvino", providers=["NPU7"]), "must name a device that OpenVINO has, got NPU7"),
        (lambda d: Engine.load(d, "onnx", threads=0), "threads must be from 1 to 1024, got 0"),
        (lambda d: Engine.load(d, "tensorrt"), r"needs .*model.plan.*--to tensorrt"),
        (lambda d: Engine.load(d, "openvin"), "did you mean 'openvino'"),
        (lambda d: Engine.load(d, "onnx-bf16"), "onnx-bf16 .*GPU"),
    ],
)
def test_wrong_calls_say_what_to_do(every_dir, call, words):
    with pytest.raises(InvalidInput, match=words):
        call(every_dir)


def test_a_library_that_is_not_there_is_named(every_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(InvalidInput, match=r"needs openvino, .*pip install 'hf-albert-plus\[openvino\]'"):
        Engine.load(every_dir, "openvino")


def test_threads_are_those_asked_for(every_dir):
    for threads in (1, 2):
        engine = Engine.load(every_dir, "onnx", threads=threads)
        assert engine.session.get_session_options().intra_op_num_threads == threads
        Engine.load(every_dir, "torch", threads=threads)
        assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_openvino_takes_the_threads_asked_for(every_dir):
    """OpenVINO counts the cores it may use once a process and takes no more threads than those."""
    script = f"""
import os
{f"os.sched_setaffinity(0, {CORES})" if CORES else ""}
from hf_albert_plus.engines.engine import Engine
for threads in (1, 2):
    print(Engine.load({str(every_dir)!r}, "openvino", threads=threads).compiled.get_property("INFERENCE_NUM_THREADS"))
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == [1, min(2, len(CORES) or 2)]


def test_nothing_of_the_users_is_unpickled(every_dir, tmp_path):
    """A pickle beside the weights, of the name that torch.load would open, goes unread."""
    directory = shutil.copytree(every_dir, tmp_path / "model")
    (directory / "model.safetensors").unlink()
    (directory / "record.json").unlink()
    (directory / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/unpickled'\ntR.")
    with pytest.raises(InvalidInput, match="no such file"):
        Engine.load(directory)


@pytest.mark.parametrize("budget", [1, 7, 64, 10_000])
def test_batches_hold_every_row_once_within_the_budget(budget):
    lengths = numpy.random.default_rng(0).integers(1, 60, 200).tolist()
    batches = token_batches(lengths, budget=budget)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget
    assert sum(map(len, file_batches(200, size=32))) == 200
    assert [len(batch) for batch in file_batches(70, size=32)] == [32, 32, 6]


def test_bucketing_pads_less_than_file_order():
    lengths = numpy.random.default_rng(0).integers(3, 60, 500).tolist()

    def padded(batches):
        return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)

    assert padded(token_batches(lengths, budget=512)) < 1.1 * sum(lengths) < padded(file_batches(500, size=32))


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_are_padded_as_the_tokenizer_does(every_dir, side):
    tokenizer = AutoTokenizer.from_pretrained(every_dir, padding_side=side)
    rows = [dict(tokenizer(text)) for text in TEXTS]
    expected = tokenizer.pad(rows, return_tensors="pt")
    found = pad_rows(rows, tokenizer)
    assert set(found) == set(expected)
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForTokenClassification", "ForPreTraining", "Model"])
def test_answers_come_in_the_callers_order(tmp_path, tokenizer_dir, head, streams):
    """Whatever the batches and streams: each row gets what it gets alone, without the values at padding."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    model = randomise(albert_plus_class(head)(small_config(vocab_size=len(tokenizer), num_hidden_layers=1)))
    model.save_pretrained(tmp_path / "model")
    export(tmp_path / "model", to=["onnx"], output=tmp_path / "out")
    engine = Engine.load(tmp_path / "out", "onnx", threads=1)
    rows = [dict(tokenizer(text)) for text in TEXTS * 5]
    batches = token_batches([len(row["input_ids"]) for row in rows], budget=40)
    assert len(batches) > 3
    found = run_batches(engine, rows, batches, pad=lambda some: pad_rows(some, tokenizer), streams=streams)
    for row, outputs in zip(rows, found, strict=True):
        alone = engine(**{name: torch.tensor([values]) for name, values in row.items()})
        for name, value in outputs.items():
            assert value.shape == alone[name][0].shape
            torch.testing.assert_close(value, alone[name][0], atol=2e-5, rtol=1e-4)


def test_streams_need_an_engine_that_can(every_dir):
    with pytest.raises(InvalidInput, match="openvino computes one batch at a time, got 2 streams"):
        run_batches(Engine.load(every_dir, "openvino"), [], [], pad=lambda rows: {}, streams=2)


def test_the_record_holds_every_artefacts_parity(every_dir):
    result = json.loads((every_dir / "record.json").read_text())["result"]
    assert set(result["exports"]) >= {
        "onnx",
        "onnx-fp16",
        "onnx-bf16",
        "onnx-int8",
        "onnx-qdq",
        "openvino",
        "openvino-int8",
    }
    inputs = result["parity_inputs"]
    assert "1 random sequences of up to 1 tokens" in inputs
    assert "1 random sequences of up to 64 tokens" in inputs
    assert {"real sentences", "real pairs", "8 of the examples"} <= set(inputs)
    limits = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
    for name, facts in result["exports"].items():
        (logits,) = facts["parity"]
        assert logits["output"] == "logits"
        if facts["precision"] == "int8":
            assert logits["cosine"] >= 0.9
            assert facts["quantised_products"] == facts["weight_products"] == 27
        else:
            assert logits["scaled"] <= limits[facts["precision"]], name


@pytest.mark.slow
def test_multiple_choice_has_three_axes(tmp_path, tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    fields = {"vocab_size": len(tokenizer), "num_hidden_layers": 1}
    model = randomise(albert_plus_class("ForMultipleChoice")(small_config(**fields)))
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the film\tis good .\nthe plot\tis dull .\n", encoding="utf-8")
    settings = ExportSettings(texts=tmp_path / "texts.txt", examples=2)
    export(tmp_path / "model", to=["onnx", "onnx-int8", "onnx-qdq"], output=tmp_path / "out", settings=settings)
    for runtime in ("torch", "onnx", "onnx-qdq"):
        engine = Engine.load(tmp_path / "out", runtime)
        assert engine(**{name: tensor[:, None].repeat(1, 3, 1) for name, tensor in GOOD.items()}).logits.shape == (2, 3)
        with pytest.raises(InvalidInput, match=r"must be \[batch, choices, sequence\].*got shape \[2, 5\]"):
            engine(**GOOD)
    with pytest.raises(InvalidInput, match=r"must be \[batch, sequence\].*got shape \[1, 2, 5\]"):
        check_tensors({name: tensor[None] for name, tensor in GOOD.items()}, tuple(GOOD), small_config())


def test_left_padded_rows_keep_their_own_tokens(tmp_path, tokenizer_dir):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir, padding_side="left")
    model = randomise(albert_plus_class("ForTokenClassification")(small_config(vocab_size=len(tokenizer))))
    model.save_pretrained(tmp_path / "model")
    engine = Engine.load(tmp_path / "model")
    rows = [dict(tokenizer(text)) for text in TEXTS]
    found = run_batches(engine, rows, [[0, 1, 2, 3]], pad=lambda some: pad_rows(some, tokenizer))
    whole = engine(**pad_rows(rows, tokenizer)).logits
    for row, outputs, logits in zip(rows, found, whole, strict=True):
        assert torch.equal(outputs["logits"], logits[-len(row["input_ids"]) :])


@pytest.mark.slow
def test_positions_that_begin_past_the_padding_token(tmp_path):
    """MPNet counts as RoBERTa does, and finds its relative positions by arithmetic that half precision must not touch."""
    from transformers import MPNetConfig, MPNetForSequenceClassification

    torch.manual_seed(0)
    config = MPNetConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                         max_position_embeddings=66)  # fmt: skip
    MPNetForSequenceClassification(config).eval().save_pretrained(tmp_path / "model")
    assert longest_input(config) == 64
    record = export(tmp_path / "model", to=["onnx", "onnx-fp16", "onnx-int8"], output=tmp_path / "out")
    assert "1 random sequences of up to 64 tokens" in record.result["parity_inputs"]
    with pytest.raises(InvalidInput, match="at most 64 tokens, got 65"):
        Engine.load(tmp_path / "out", "onnx")(input_ids=torch.full((1, 65), 7), attention_mask=torch.ones(1, 65).long())


@pytest.mark.parametrize(("text", "cores"), [("400000 100000\n", 4), ("250000 100000\n", 2), ("50000 100000\n", 1)])
def test_a_containers_quota_counts_as_cores(tmp_path, text, cores):
    (tmp_path / "cpu.max").write_text(text)
    assert container_cores(tmp_path / "cpu.max") == cores


def test_no_quota_is_all_cores(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert container_cores(tmp_path / "cpu.max") == container_cores(tmp_path / "none") == os.cpu_count()
