"""The tiny inputs of every verb, made once: `python -m tests.fuzz.inputs FOLDER`."""

import json
import os
import shutil
import sys
from pathlib import Path
from random import Random

TINY = {
    "hidden_size": 16,
    "embedding_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
ROWS = {"train": 24, "validation": 16, "test": 8}
SERVED = ((1, 400.0), (51, 2040.0))


def make_inputs(folder: Path) -> None:
    """Writes everything that `verbs.VERBS` names under `{in}`."""
    os.chdir(folder)
    _tokenizers_and_text()
    _tasks()
    _models()
    _corpus()
    _exports()
    _measurements()


def _tokenizers_and_text() -> None:
    import sentencepiece

    from hf_albert_plus.demo.data import pretraining_pair
    from hf_albert_plus.text.vocabularies import train_wordpiece

    random = Random(0)
    pairs = [pretraining_pair(random) for _ in range(400)]
    train_wordpiece(lambda: [" ".join(pair) for pair in pairs], vocab_size=200, max_length=64).save_pretrained(
        "tokenizer"
    )
    Path("text.txt").write_text("\n\n".join("\n".join(pair) for pair in pairs[:60]) + "\n")
    Path("texts.tsv").write_text("\n".join("\t".join(pair) for pair in pairs[:8]) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(" ".join(pair) for pair in pairs), model_prefix="spiece", vocab_size=120, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], user_defined_symbols=[*'()"-.–£€'], normalization_rule_name="nmt_nfkc_cf",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    words = sorted({word for pair in pairs for text in pair for word in text.split()})
    numbers = [" ".join(f"{random.gauss(0, 1):.4f}" for _ in range(8)) for _ in words]
    Path("vectors.txt").write_text("".join(f"{word} {row}\n" for word, row in zip(words, numbers, strict=True)))
    Path("token.txt").write_text("0123456789abcdef\n")


def _tasks() -> None:
    import pyarrow
    import pyarrow.parquet

    from hf_albert_plus.demo import data

    data.SIZES.clear()
    data.SIZES.update(ROWS)
    for name in ("sst2", "mrpc"):
        data.write_task(Path(f"glue-{name}"), name, seed=0)
    rows = pyarrow.parquet.read_table("glue-sst2/sst2/validation-00000-of-00001.parquet")
    pyarrow.parquet.write_table(rows, "rows.parquet")
    texts = rows["sentence"].to_pylist()
    Path("rows.jsonl").write_text(
        "".join(json.dumps({"text": text, "number": n}) + "\n" for n, text in enumerate(texts))
    )
    Path("rows.txt").write_text("".join(f"{text}\n" for text in texts))
    Path("predictions.tsv").write_text("index\tprediction\n" + "".join(f"{n}\t{n % 2}\n" for n in range(len(texts))))


def _models() -> None:
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

    import hf_albert_plus as plus
    from tests.support.small_models import randomise, small_config

    tokenizer = AutoTokenizer.from_pretrained("tokenizer")
    size = {**TINY, "vocab_size": len(tokenizer), "max_position_embeddings": 64}
    config = BertConfig(
        **{name: value for name, value in size.items() if name != "embedding_size"}, pad_token_id=tokenizer.pad_token_id
    )
    torch.manual_seed(0)
    models = {
        "encoder": BertModel(config),
        "masked-lm": BertForMaskedLM(config),
        "classifier": plus.AlbertPlusForSequenceClassification(small_config(**size)),
        "exits": plus.AlbertPlusForSequenceClassification(small_config(**size, exit_layers=[1])),
        "twin": plus.AlbertPlusTwinModel(small_config(**size)),
    }
    for name, model in models.items():
        randomise(model).save_pretrained(name)
        tokenizer.save_pretrained(name)


def _corpus() -> None:
    from hf_albert_plus.text.corpus import build_corpus
    from hf_albert_plus.text.settings import CorpusSettings

    settings = CorpusSettings(max_length=32, held_out=0.2, language="none")
    build_corpus(["text.txt"], tokenizer="tokenizer", output=Path("corpus"), settings=settings, workers=1)


def _exports() -> None:
    from hf_albert_plus.export.settings import ExportSettings
    from hf_albert_plus.export.stage import export

    export(Path("classifier"), to=["onnx", "onnx-int8"], output=Path("exported"))
    export(Path("encoder"), to=["onnx"], output=Path("vectors"), settings=ExportSettings(pooling="mean"))


def _albert_plus(line: str) -> None:
    from tests.support.command_line import invoke

    invoke(*line.split())


def _measurements() -> None:
    from hf_albert_plus.eval.latency import bench as latency
    from hf_albert_plus.eval.latency import costs
    from hf_albert_plus.eval.latency.timing import Method, timed_by

    latency.measure_process = lambda target, **options: costs.ProcessCosts(**PROCESS)
    _albert_plus(
        "eval exported exported:onnx-int8 --task sst2 --data glue-sst2 --max-length 32 --threads 1 --json scores.json"
    )
    with timed_by(Method(rounds=4, patience=0, settle_s=0.0)):
        _albert_plus(
            "bench exported:onnx-int8 --baseline exported --shapes 1x8 --seconds 0.01 --threads 1 --json latency.json"
        )
    shutil.copytree("exported", "carded")
    for name in ("scores", "latency"):
        text = Path(f"{name}.json").read_text().replace('"exported"', '"carded"')
        Path(f"{name}-carded.json").write_text(text)
    _albert_plus("card carded --scores scores-carded.json --bench latency-carded.json")
    for texts, pace in SERVED:
        document = {
            "kind": "served", "texts_a_request": texts, "environment": {"cores": 2}, "throughput": {"served": {"items_per_s": pace}},
            "one_at_a_time": {"p50_ms": 4.0}, "half_pace": {"p99_ms": 9.0},
        }  # fmt: skip
        Path(f"served-{texts}.json").write_text(json.dumps(document))


# What a target takes in a process of its own, which would be most of a case's time.
PROCESS = {"load_ms": 1.0, "load_mb": 1.0, "peak_rss_mb": 1.0}


__all__ = ["PROCESS", "make_inputs"]

if __name__ == "__main__":
    from tests.fuzz.rights import give_up_root

    give_up_root()
    make_inputs(Path(sys.argv[1]))
