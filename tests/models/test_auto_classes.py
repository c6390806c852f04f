"""Registration with transformers' Auto classes, whichever of the two is imported first.

A fork that has torch already runs each order of imports: a process of its own would import torch each time.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hf_albert_plus

# Lists what transformers opens as ours: the config, and for every Auto class of models the class that it gives.
REGISTERED = """
import transformers
from transformers.models.auto import modeling_auto
config = type(transformers.AutoConfig.for_model("albert_plus"))
found = [config.__name__]
for name in ("AutoModel", "AutoModelForPreTraining", "AutoModelForMaskedLM", "AutoModelForSequenceClassification",
             "AutoModelForTokenClassification", "AutoModelForQuestionAnswering", "AutoModelForMultipleChoice"):
    mapping = getattr(modeling_auto, name)._model_mapping
    models = mapping[config] if config in mapping else ()
    found += [model.__name__ for model in (models if isinstance(models, tuple) else (models,))]
print(*found)
"""
NAMES = [
    "AlbertPlusConfig",
    "AlbertPlusModel",
    "AlbertPlusForPreTraining",
    "AlbertPlusForMaskedLM",
    "AlbertPlusForSequenceClassification",
    "AlbertPlusForTokenClassification",
    "AlbertPlusForQuestionAnswering",
    "AlbertPlusForMultipleChoice",
]
OURS = sorted(path.stem for path in Path(hf_albert_plus.__path__[0]).glob("*_albert_plus.py"))
# Name -> the imports, then what prints what came of them.
ORDERS = {
    "the package, then transformers": ("import hf_albert_plus", REGISTERED),
    "transformers' Auto classes, then the package": (
        "from transformers import AutoConfig, AutoModel; import hf_albert_plus",
        REGISTERED,
    ),
    # These import the Auto classes by themselves, halfway.
    "the package, then a model of transformers": (
        "import hf_albert_plus, transformers.models.bert.modeling_bert",
        REGISTERED,
    ),
    "the package, then transformers' layers": ("import hf_albert_plus, transformers.modeling_layers", REGISTERED),
    "AutoConfig, then the package": ("from transformers import AutoConfig; import hf_albert_plus", REGISTERED),
    **{f"{module} first": (f"import hf_albert_plus.{module}", REGISTERED) for module in OURS},
    "the package, then AutoConfig alone": (
        "import hf_albert_plus; from transformers import AutoConfig",
        "print(type(AutoConfig.for_model('albert_plus')).__name__)",
    ),
    "the package, then a module's loader": (
        "import hf_albert_plus, inspect, pickle; from hf_albert_plus import modeling_albert_plus as module",
        "print(type(module.__loader__).__name__, module.__spec__.loader is module.__loader__,"
        " 'class AlbertPlusModel' in inspect.getsource(module),"
        " pickle.loads(pickle.dumps(module.AlbertPlusModel)).__name__)",
    ),
}
IN_FORKS = """
import contextlib, io, json, os, sys, traceback
import accelerate, safetensors.torch, scipy.optimize, torch._dynamo
import transformers
assert not any(name.startswith(("hf_albert_plus.", "transformers.models.")) for name in sys.modules)
for name, lines in json.load(sys.stdin).items():
    end, start = os.pipe()
    if (child := os.fork()) == 0:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                for line in lines:
                    exec(line, vars(sys.modules["__main__"]))
            answer = printed.getvalue().split()
        except BaseException:
            answer = traceback.format_exc()
        os.write(start, json.dumps(answer).encode())
        os._exit(0)
    os.close(start)
    with open(end) as pipe:
        print(json.dumps([name, json.loads(pipe.read())]), flush=True)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def printed():
    """Name of an order -> the words that its last lines print, or the error."""
    done = subprocess.run(
        [sys.executable, "-c", IN_FORKS], input=json.dumps(ORDERS), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.slow
@pytest.mark.parametrize("order", [order for order, (_, then) in ORDERS.items() if then is REGISTERED])
def test_every_head_is_registered(printed, order):
    assert isinstance(printed[order], list), printed[order]
    config, *models = printed[order]
    # transformers gives the twin beside the model where AutoModel has more than one.
    assert [config, *(name for name in models if name != "AlbertPlusTwinModel")] == NAMES


def test_auto_config_alone_knows_ours(printed):
    assert printed["the package, then AutoConfig alone"] == ["AlbertPlusConfig"]


def test_a_module_is_its_own_loaders_again(printed):
    """What reads a module's source or pickles its classes asks that one."""
    assert printed["the package, then a module's loader"] == ["SourceFileLoader", "True", "True", "AlbertPlusModel"]


def test_the_package_alone_imports_neither_torch_nor_transformers():
    code = "import sys, hf_albert_plus; print([name for name in ('torch', 'transformers') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
