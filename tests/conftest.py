"""Tiny models, tokenizers and data sets, made once a session. Nothing is downloaded."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import copy
import gc
import json
from pathlib import Path

import onnx
import onnx_ir
import pytest
import torch
from typer.testing import CliRunner

import hf_albert_plus
from hf_albert_plus.cli.app import app
from hf_albert_plus.cli.console import quiet_libraries
from hf_albert_plus.demo.data import VOCAB_SIZE, write_task
from hf_albert_plus.demo.tasks import GENERATORS
from hf_albert_plus.export.graph import apply_passes, save_graph, trace_graph
from hf_albert_plus.heads import albert_plus_class
from hf_albert_plus.tokenization import train_wordpiece

quiet_libraries()
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
if WORKER is not None and CORES:
    # A worker and all that it starts keep to a core: threads that wait for each other on a busy one take many times as long.
    os.sched_setaffinity(0, {CORES[int(WORKER.removeprefix("gw")) % len(CORES)]})
torch.set_num_threads(1 if WORKER is not None else 2)

# A worker takes a file at a time: the longest come first, so that none is left to one worker at the end.
LONGEST = (
    "test_cli.py", "test_common.py", "test_exit_exports.py", "test_qat.py", "test_exit_loop.py", "test_pretraining.py", "test_bench_modes.py",
    "test_distillation_stage.py", "test_export.py", "test_keep_fp32.py",
    "test_eval.py", "test_engines.py", "test_cards.py", "test_hub.py", "test_speed_passes.py", "test_records.py", "test_twin.py", "test_pretraining_processes.py",
    "test_packaging.py", "test_augmentation.py", "test_dual_training.py",
)  # fmt: skip

SMALL = {
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


# What the libraries' modules hold is never garbage, and tracing makes millions of objects: collecting at the usual pace is a tenth of a run.
gc.set_threshold(100_000, 20, 50)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def small_config(**fields) -> hf_albert_plus.AlbertPlusConfig:
    return hf_albert_plus.AlbertPlusConfig(**{**SMALL, "embedding_size": 16, **fields})


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """Gives every parameter a random value, biases and LayerNorms too: at their initial zeros and ones a swapped pair
    would go unseen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def traced(head: str = "ForSequenceClassification", **fields) -> tuple[torch.nn.Module, onnx_ir.Model]:
    """A small model with random weights and its traced graph without passes; tracing is slow, so it is kept for the
    tests that ask for the same."""
    key = (head, json.dumps(fields, sort_keys=True))
    if key not in _TRACED:
        model = randomise(albert_plus_class(head)(small_config(**fields)))
        _TRACED[key] = (model, onnx_ir.to_proto(trace_graph(model)).SerializeToString())
    model, graph = _TRACED[key]
    return copy.deepcopy(model), onnx_ir.from_proto(onnx.load_model_from_string(graph))


def exported_graph(path: Path, head: str = "ForSequenceClassification", **fields) -> torch.nn.Module:
    """Writes the graph of a small model with all passes, and returns the model."""
    model, graph = traced(head, **fields)
    apply_passes(graph)
    save_graph(graph, path)
    return model


def invoke(*words):
    """Runs the command line in this process; its errors are raised, its result returned."""
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


_TRACED: dict[tuple[str, str], tuple[torch.nn.Module, bytes]] = {}


def pair_inputs(vocab_size: int, *, batch: int = 3, length: int = 11) -> dict[str, torch.Tensor]:
    """Random pairs of sentences with padding."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(5, vocab_size, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, batch):
        mask[row, length - 2 * row :] = 0
    types = torch.zeros_like(ids)
    types[:, length // 2 :] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types * mask}


@pytest.fixture(scope="session", autouse=True)
def short_benches():
    """Few rounds, no settling, and one process a runtime: what a bench writes is tested here, not how well it measures.
    `test_timing` has the method itself, on a clock of its own, and `test_bench_modes` the processes."""
    from hf_albert_plus.eval import latency, timing

    measure, measured = latency.measure_process, {}

    def measure_once(target, **options):
        if target.runtime not in measured:
            measured[target.runtime] = measure(target, **options)
        return measured[target.runtime]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latency, "measure_process", measure_once)
        for name, value in {"ROUNDS": 4, "PATIENCE": 0, "SETTLE_S": 0.0}.items():
            patch.setattr(timing, name, value)
        yield


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    from random import Random

    from hf_albert_plus.demo.tasks import pretraining_pair

    random = Random(0)
    lines = ["\t".join(pretraining_pair(random)) for _ in range(800)]
    train_wordpiece(lambda: lines, vocab_size=VOCAB_SIZE, max_length=128).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    """A small GLUE-shaped folder with the demo's five tasks."""
    from hf_albert_plus.demo import data

    directory = tmp_path_factory.mktemp("glue")
    sizes = data.SIZES.copy()
    data.SIZES.update(train=96, validation=48)
    try:
        for name in GENERATORS:
            write_task(directory, name, seed=0)
    finally:
        data.SIZES.update(sizes)
    return directory


@pytest.fixture(scope="session")
def encoder_dir(tmp_path_factory, tokenizer_dir) -> Path:
    """A tiny BERT of transformers with its tokenizer: somebody else's checkpoint."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    directory = tmp_path_factory.mktemp("bert")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer)}, pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(0)
    BertModel(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def classifier_dir(tmp_path_factory, tokenizer_dir) -> Path:
    """An all-shared ALBERT-plus classifier for sst2, at random weights."""
    from transformers import AutoTokenizer

    directory = tmp_path_factory.mktemp("student")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    torch.manual_seed(0)
    model = randomise(hf_albert_plus.AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer))))
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def exported_dir(tmp_path_factory, classifier_dir) -> Path:
    """The classifier with its ONNX exports."""
    from hf_albert_plus.export.stage import export

    directory = tmp_path_factory.mktemp("exported") / "model"
    export(classifier_dir, to=["onnx", "onnx-int8"], output=directory)
    return directory


@pytest.fixture(scope="session")
def teachers(tmp_path_factory, encoder_dir, data_dir):
    """Classifiers of three tasks, task -> directory."""
    from hf_albert_plus.finetune import finetune
    from hf_albert_plus.glue import get_task
    from hf_albert_plus.training import TrainSettings

    folder = tmp_path_factory.mktemp("teachers")
    settings = TrainSettings(epochs=0.5, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")
    for name in ("sst2", "mrpc", "stsb"):
        finetune(str(encoder_dir), data=str(data_dir), task=get_task(name), output=folder / name, settings=settings)
    return folder


@pytest.fixture(scope="session")
def masked_lm(tmp_path_factory, encoder_dir):
    """The same encoder with a masked language modelling head."""
    from transformers import AutoTokenizer, BertForMaskedLM

    directory = tmp_path_factory.mktemp("words")
    torch.manual_seed(0)
    BertForMaskedLM.from_pretrained(encoder_dir).save_pretrained(directory)
    AutoTokenizer.from_pretrained(encoder_dir).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    from random import Random

    from hf_albert_plus.demo.tasks import pretraining_pair

    random, file = Random(1), tmp_path_factory.mktemp("text") / "text.txt"
    documents = ["\n".join(" ".join(pretraining_pair(random)) for _ in range(4)) for _ in range(12)]
    file.write_text("\n\n".join(documents) + "\n")
    return file


def built_corpus(documents, directory, tokenizer_dir, **settings):
    """Examples of at most 32 tokens of documents, each a list of lines, a fifth of them held out."""
    from hf_albert_plus.corpus import CorpusSettings, build_corpus
    from tests.test_corpus import as_text

    (directory / "text.txt").write_text(as_text(documents), encoding="utf-8")
    build_corpus(
        [str(directory / "text.txt")],
        tokenizer=str(tokenizer_dir),
        output=directory / "corpus",
        settings=CorpusSettings(max_length=32, held_out=0.2, **settings),
        workers=1,
    )
    return directory / "corpus"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, tokenizer_dir):
    from tests.test_corpus import make_text

    return built_corpus(make_text(count=150), tmp_path_factory.mktemp("corpus"), tokenizer_dir)


@pytest.fixture(scope="session")
def corpus_tokenizer(corpus):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(corpus / "tokenizer")
