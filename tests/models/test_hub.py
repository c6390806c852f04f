"""The Hub: what is pushed opens on a machine without this package, with every head. The Hub is one in memory, over HTTP;
the clients are processes of their own."""

import json

import pytest

from tests.support.local_hub import LocalHub

HEADS = ["Model", "ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
         "ForQuestionAnswering", "ForMultipleChoice"]  # fmt: skip
COMMON = f"""
import json, sys, torch, transformers

HEADS = {HEADS}

def auto_class(head):
    return getattr(transformers, f"Auto{{head}}" if head == "Model" else f"AutoModel{{head}}")

def outputs(model):
    ids = torch.arange(5, 29).reshape(2, 12)
    ids = ids[:, None] if "MultipleChoice" in type(model).__name__ else ids
    with torch.no_grad():
        return model.eval()(ids)[0].flatten()[:40].tolist()
"""
PUSH = """
import hf_albert_plus

fields, tokenizer = json.loads(sys.argv[1]), transformers.AutoTokenizer.from_pretrained(sys.argv[2])
torch.manual_seed(0)
for head in HEADS:
    model = auto_class(head).from_config(hf_albert_plus.AlbertPlusConfig(**fields))
    model.push_to_hub(f"user/{head}", tags=["demo"])
    print(json.dumps(outputs(model)))
tokenizer.push_to_hub("user/ForSequenceClassification")
"""
WITHOUT_PACKAGE = """
sys.modules["hf_albert_plus"] = None  # importing the package fails here, as where it is not installed

def opened(source, head, **options):
    kind = auto_class(head)
    model, report = kind.from_pretrained(source, trust_remote_code=True, output_loading_info=True, **options)
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    return model, report
"""
OPEN_EACH = """
for head in HEADS:
    model, report = opened(f"user/{head}", head)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    print(json.dumps(outputs(model)))
"""
OPEN_WITH_EVERY_HEAD = """
for source in HEADS:
    for head in HEADS:
        model, report = opened(f"user/{source}", head, ignore_mismatched_sizes=True)
        ours = [key for key in report["missing_keys"] if {"encoder", "embeddings"} & set(key.split("."))]
        assert not ours, (source, head, ours)
        outputs(model)
    print(json.dumps(source))
"""
SAVE_AND_OPEN = """
model, _ = opened("user/ForSequenceClassification", "ForSequenceClassification")
model.save_pretrained("copy")
print(json.dumps(outputs(opened("copy", "ForSequenceClassification")[0])))
"""
TOKENISE = """
tokenizer = transformers.AutoTokenizer.from_pretrained("user/ForSequenceClassification")
print()  # ends the line on which it was asked whether to trust
print(json.dumps(tokenizer("the film", "a plot")["token_type_ids"]))
"""
ARCHITECTURES = {
    "shared": {"attention_sharing": "all", "ffn_sharing": 2},
    "bottleneck": {"norm_type": "no_norm", "bottleneck_size": 16, "num_feedforward_networks": 2, "type_vocab_size": 0},
}
CODE = {"configuration_albert_plus.py", "layers_albert_plus.py", "modeling_albert_plus.py", "hub_albert_plus.py"}


def _lines(printed):
    return [json.loads(line) for line in printed.splitlines() if line.startswith(("[", '"'))]


@pytest.fixture(scope="module", params=["shared", pytest.param("bottleneck", marks=pytest.mark.slow)])
def pushed(request, tmp_path_factory, tokenizer_dir):
    """A hub to which every head was pushed, and the outputs they gave before."""
    fields = {
        "vocab_size": 2000, "hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 48, "max_position_embeddings": 64, **ARCHITECTURES[request.param],
    }  # fmt: skip
    with LocalHub() as hub:
        printed = hub.client(tmp_path_factory.mktemp("pusher"), COMMON + PUSH, json.dumps(fields), str(tokenizer_dir))
        yield hub, _lines(printed)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_a_push_sends_weights_code_and_card(pushed, head):
    hub, _ = pushed
    files = hub.repos[f"user/{head}"]
    assert {"config.json", "model.safetensors", "README.md", *CODE} <= set(files)
    auto_map = json.loads(files["config.json"])["auto_map"]
    assert set(auto_map) == {"AutoConfig", "AutoModel", *(f"AutoModel{other}" for other in HEADS if other != "Model")}
    card, auto_class = files["README.md"].decode(), f"AutoModel{head.removesuffix('Model')}"
    assert f'{auto_class}.from_pretrained("user/{head}", trust_remote_code=True)' in card
    for tag in ("albert-plus", "demo"):
        assert tag in card.split("---")[1]
    assert hub.unexpected == []
    uploads = [path for method, path in hub.requests if method == "PUT"]
    assert len(uploads) == len(HEADS)
    assert all("/lfs/" in path for path in uploads)


@pytest.mark.slow
def test_every_repository_opens_without_the_package(tmp_path, pushed):
    hub, expected = pushed
    printed = _lines(hub.client(tmp_path, COMMON + WITHOUT_PACKAGE + OPEN_EACH))
    for values, others in zip(printed, expected, strict=True):
        assert values == pytest.approx(others, abs=1e-6)


@pytest.mark.slow
def test_every_repository_opens_with_every_head(tmp_path, pushed):
    hub, _ = pushed
    assert _lines(hub.client(tmp_path, COMMON + WITHOUT_PACKAGE + OPEN_WITH_EVERY_HEAD)) == HEADS


@pytest.mark.slow
def test_a_copy_saved_without_the_package_takes_the_code_along(tmp_path, pushed):
    hub, expected = pushed
    printed = hub.client(tmp_path, COMMON + WITHOUT_PACKAGE + SAVE_AND_OPEN)
    (logits,) = _lines(printed)
    assert logits == pytest.approx(expected[HEADS.index("ForSequenceClassification")], abs=1e-6)
    assert {path.name for path in (tmp_path / "copy").iterdir()} >= CODE


@pytest.mark.slow
def test_the_tokenizer_opens_without_trust_and_gives_token_types(tmp_path, pushed):
    hub, _ = pushed
    (types,) = _lines(hub.client(tmp_path, COMMON + WITHOUT_PACKAGE + TOKENISE))
    assert set(types) == {0, 1}


@pytest.mark.slow
def test_code_is_not_run_without_trust(tmp_path, pushed):
    hub, _ = pushed
    script = (COMMON + WITHOUT_PACKAGE + OPEN_EACH).replace("trust_remote_code=True", "trust_remote_code=False")
    with pytest.raises(AssertionError, match="trust_remote_code=True"):
        hub.client(tmp_path, script)


@pytest.mark.slow
def test_a_second_push_keeps_the_card_that_is_there(tmp_path, tokenizer_dir):
    by_hand = """
from huggingface_hub import HfApi
HfApi().create_repo("user/Model")
HfApi().upload_file(path_or_fileobj=b"---\\ntags: [mine]\\n---\\nBy hand.", path_in_repo="README.md", repo_id="user/Model")
HEADS = ["Model"]
"""
    fields = {"vocab_size": 2000, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    with LocalHub() as hub:
        push = PUSH.replace('tokenizer.push_to_hub("user/ForSequenceClassification")', "")
        hub.client(tmp_path, COMMON + by_hand + push, json.dumps(fields), str(tokenizer_dir))
        assert "By hand." in hub.repos["user/Model"]["README.md"].decode()
        assert "model.safetensors" in hub.repos["user/Model"]
