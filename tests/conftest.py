"""Tiny models, tokenizers and data sets, made once a run. Nothing is downloaded."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import gc
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy
import pytest
import torch
from filelock import FileLock

import hf_albert_plus
from hf_albert_plus.cli.console import quiet_libraries
from hf_albert_plus.demo.data import GENERATORS, SIZES, VOCAB_SIZE, pretraining_pair, write_task
from hf_albert_plus.text.vocabularies import train_wordpiece
from tests.support.benches import shortened_benches
from tests.support.cores import CORES
from tests.support.corpora import built_corpus, make_text
from tests.support.small_models import SMALL, randomise, small_config

quiet_libraries()
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
if WORKER is not None and CORES:
    # A worker and all that it starts keep to a core: threads that wait for each other on a busy one take many times as long.
    os.sched_setaffinity(0, {CORES[int(WORKER.removeprefix("gw")) % len(CORES)]})
torch.set_num_threads(1 if WORKER is not None else 2)

# A worker takes a file at a time: the longest come first, so that none is left to one worker at the end.
LONGEST = (
    "test_compress.py", "test_fuzz.py", "test_batch_scoring_cluster.py", "test_int8_thresholds.py", "test_serving_cluster.py", "test_resumed_losses.py",
    "test_tag_search.py", "test_export.py", "test_pretraining_processes.py", "test_browser.py", "test_run_searches.py", "test_adoption.py", "test_units.py",
    "test_keep_fp32.py", "test_opens_in.py", "test_lineage_cards.py", "test_studies.py", "test_zeros.py", "test_side_by_side.py", "test_bench_modes.py",
    "test_exit_exports.py", "test_common.py", "test_engines.py", "test_exits.py", "test_cli.py",
)  # fmt: skip


# What the libraries' modules hold is never garbage, and tracing makes millions of objects: collecting at the usual pace is a tenth of a run.
gc.set_threshold(100_000, 20, 50)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """What a test or a fixture draws does not hang on what ran before it."""
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


@pytest.fixture
def short_benches() -> Iterator[None]:
    """A bench in this test measures as little as it can."""
    with shortened_benches():
        yield


@pytest.fixture(scope="session")
def made_once(request, tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder once for all workers of a run: the first that needs it fills it, and the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if hasattr(request.config, "workerinput") else base

    def folder_of(name: str, make: Callable[[Path], object]) -> Path:
        folder, made = base / f"made-{name}", base / f"made-{name}.whole"
        with FileLock(base / f"made-{name}.lock"):
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                made.touch()
        return folder

    return folder_of


@pytest.fixture(scope="session")
def tokenizer_dir(made_once) -> Path:
    def make(directory: Path) -> None:
        drawn = Random(0)
        lines = ["\t".join(pretraining_pair(drawn)) for _ in range(800)]
        train_wordpiece(lambda: lines, vocab_size=VOCAB_SIZE, max_length=128).save_pretrained(directory)

    return made_once("tokenizer", make)


@pytest.fixture(scope="session")
def data_dir(made_once) -> Path:
    """A small GLUE-shaped folder with the demo's five tasks."""

    def make(directory: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(SIZES, "train", 96)
            patch.setitem(SIZES, "validation", 48)
            for name in GENERATORS:
                write_task(directory, name, seed=0)

    return made_once("glue", make)


@pytest.fixture(scope="session")
def encoder_dir(made_once, tokenizer_dir) -> Path:
    """A tiny BERT of transformers with its tokenizer: somebody else's checkpoint."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    def make(directory: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
        config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer)}, pad_token_id=tokenizer.pad_token_id)
        torch.manual_seed(0)
        BertModel(config).save_pretrained(directory)
        tokenizer.save_pretrained(directory)

    return made_once("bert", make)


@pytest.fixture(scope="session")
def sentence_dir(made_once, encoder_dir) -> Path:
    """The same BERT as a sentence encoder, whose vectors are the mean of the tokens, of length 1."""
    from transformers import AutoConfig

    from hf_albert_plus.conversion.sentence_modules import write_modules
    from hf_albert_plus.engines.sentence_files import SentenceForm

    def make(directory: Path) -> None:
        shutil.copytree(encoder_dir, directory, dirs_exist_ok=True)
        write_modules(directory, AutoConfig.from_pretrained(directory), SentenceForm("mean", normalize=True))

    return made_once("sentence", make)


@pytest.fixture(scope="session")
def classifier_dir(made_once, tokenizer_dir) -> Path:
    """An all-shared ALBERT-plus classifier for sst2, at random weights."""
    from transformers import AutoTokenizer

    def make(directory: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
        torch.manual_seed(0)
        model = randomise(hf_albert_plus.AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer))))
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)

    return made_once("student", make)


@pytest.fixture(scope="session")
def exported_dir(made_once, classifier_dir) -> Path:
    """The classifier with its ONNX exports."""
    from hf_albert_plus.export.stage import export

    folder = made_once("exported", lambda path: export(classifier_dir, to=["onnx", "onnx-int8"], output=path / "model"))
    return folder / "model"


@pytest.fixture(scope="session")
def vectors_dir(made_once, encoder_dir) -> Path:
    """The encoder with ONNX exports that give the vectors of texts, of length 1."""
    from hf_albert_plus.export.settings import ExportSettings
    from hf_albert_plus.export.stage import export

    settings = ExportSettings(pooling="mean", normalize=True)

    def make(folder: Path) -> None:
        export(encoder_dir, to=["onnx", "onnx-int8"], output=folder / "vectors", settings=settings)

    return made_once("vectors", make) / "vectors"


@pytest.fixture(scope="session")
def teachers(made_once, encoder_dir, data_dir):
    """Classifiers of three tasks, task -> directory."""
    from hf_albert_plus.tasks.glue import get_task
    from hf_albert_plus.training.finetuning import finetune
    from hf_albert_plus.training.settings import TrainSettings

    settings = TrainSettings(epochs=0.5, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")

    def make(folder: Path) -> None:
        for name in ("sst2", "mrpc", "stsb"):
            finetune(str(encoder_dir), data=str(data_dir), task=get_task(name), output=folder / name, settings=settings)

    return made_once("teachers", make)


@pytest.fixture(scope="session")
def masked_lm(made_once, encoder_dir):
    """The same encoder with a masked language modelling head."""
    from transformers import AutoTokenizer, BertForMaskedLM

    def make(directory: Path) -> None:
        torch.manual_seed(0)
        BertForMaskedLM.from_pretrained(encoder_dir).save_pretrained(directory)
        AutoTokenizer.from_pretrained(encoder_dir).save_pretrained(directory)

    return made_once("words", make)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    drawn, file = Random(1), tmp_path_factory.mktemp("text") / "text.txt"
    documents = ["\n".join(" ".join(pretraining_pair(drawn)) for _ in range(4)) for _ in range(12)]
    file.write_text("\n\n".join(documents) + "\n")
    return file


@pytest.fixture(scope="session")
def corpus(made_once, tokenizer_dir):
    return made_once("text-corpus", lambda path: built_corpus(make_text(count=150), path, tokenizer_dir)) / "corpus"


@pytest.fixture(scope="session")
def corpus_tokenizer(corpus):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(corpus / "tokenizer")
