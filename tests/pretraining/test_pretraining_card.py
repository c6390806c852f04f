"""The card of a pretrained encoder against the records of its run and the scores of what was fine-tuned from it."""

import json

import pytest
import yaml

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.reporting.cards import read_facts
from hf_albert_plus.records.record import fingerprint, read_record
from tests.support.command_line import invoke
from tests.support.pretraining import words


@pytest.mark.parametrize(
    "facts", [{"kind": "card", "task": "nope"}, {"kind": "card"}, {"kind": "scores", "task": "sst2"}]
)
def test_the_record_of_something_else_is_no_cards(facts, tmp_path):
    (tmp_path / "card.json").write_text(json.dumps(facts))
    with pytest.raises(InvalidInput, match="a card's record must come from albert-plus card or report"):
        read_facts(tmp_path / "card.json")


@pytest.mark.slow
def test_the_card_of_a_pretrained_encoder(corpus, data_dir, tmp_path):
    encoder, scores = tmp_path / "encoder", tmp_path / "scores.json"
    invoke(*words(corpus, encoder, "--epochs", 1))
    before = fingerprint(encoder)
    card = encoder / "README.md"
    invoke("card", encoder)
    assert "## Fine-tuned\n\nnot measured\n" in card.read_text()
    for name, model in (("mine", encoder), ("elsewhere", encoder)):
        invoke("finetune", "--model", model, "--data", data_dir, "--task", "sst2", "--epochs", 0.2, "--max-length", 32,
               "--seed", len(name), "--out", tmp_path / name)  # fmt: skip
    # As if it had begun with another encoder.
    record = json.loads((tmp_path / "elsewhere" / "record.json").read_text())
    record["parents"]["model"]["sha256"] = "0" * 64
    (tmp_path / "elsewhere" / "record.json").write_text(json.dumps(record))
    invoke("eval", *(f"{name}={tmp_path / name}" for name in ("mine", "elsewhere")), "--task", "sst2", "--data", data_dir,
           "--max-length", 32, "--json", scores)  # fmt: skip
    invoke("card", encoder, "--scores", scores)
    assert fingerprint(encoder) == before

    _, head, body = card.read_text().split("---\n", 2)
    result = read_record(encoder).result
    metrics = {m["type"]: m["value"] for m in yaml.safe_load(head)["model-index"][0]["results"][0]["metrics"]}
    metrics |= {m["type"]: m["value"] for m in yaml.safe_load(head)["model-index"][0]["results"][-1]["metrics"]}
    assert metrics["loss"] == round(result["held_out_mlm_loss"], 4)
    assert metrics["accuracy"] == round(result["held_out_mlm_accuracy"], 4)
    for row in result["held_out"]:
        assert (
            f"| {row['step']} | {row['mlm_loss']:.3f} | {100 * row['mlm_accuracy']:.1f} % | "
            f"{100 * row['order_accuracy']:.1f} % |" in body
        )
    assert "| learning rate | 0.01 | 0.00176 |" in body
    assert "| batch | 8 examples | 4,096 examples |" in body
    # What is as published does not differ.
    assert "| order |" not in body
    assert "| optimizer | lamb |\n" in body
    found = json.loads(scores.read_text())["rows"][0]["metrics"]["accuracy"]
    assert f"accuracy {found:.1f} (" in body.split("## Fine-tuned")[1]
    assert body.count("| sst2 validation |") == 1
    assert ") | 4 |\n" in body

    invoke("card", encoder, "--check")
    elsewhere = tmp_path / "cards" / "encoder.json"
    elsewhere.parent.mkdir()
    elsewhere.write_text((encoder / "card.json").read_text())
    invoke("card", elsewhere)
    assert elsewhere.with_suffix(".md").read_text() == card.read_text()
