"""Conversions: the same outputs and hidden states as transformers' own models, over architectures, heads and shapes."""

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import (
    AlbertConfig,
    AlbertForPreTraining,
    AlbertModel,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    MobileBertConfig,
    MobileBertForMaskedLM,
    MobileBertModel,
    MPNetConfig,
    MPNetForSequenceClassification,
    MPNetModel,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMRobertaConfig,
)

from hf_albert_plus.checkpoints import has_tokenizer
from hf_albert_plus.conversion.families import FAMILIES
from hf_albert_plus.conversion.models import from_albert_plus, max_difference, to_albert_plus
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.heads import HEADS
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification, AlbertPlusModel
from hf_albert_plus.records.record import read_record
from hf_albert_plus.relative_positions_albert_plus import relative_buckets
from hf_albert_plus.tasks.glue import get_task
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, randomise, small_config

ALBERT_SHAPES = {
    "one group": {},
    "two groups": {"num_hidden_groups": 2},
    "a group a layer": {"num_hidden_groups": 4},
    "two inner layers": {"num_hidden_groups": 2, "inner_group_num": 2},
    "a cycle": {"num_hidden_layers": 2, "inner_group_num": 3},
    "a float-rounded group": {"num_hidden_layers": 18, "num_hidden_groups": 14},
    "erf gelu": {"hidden_act": "gelu"},
}
_ROBERTA = {**SMALL, "max_position_embeddings": 66, "pad_token_id": 1}
CONFIGS = {
    "Bert": BertConfig(**SMALL),
    "Bert, relu": BertConfig(**SMALL, hidden_act="relu", type_vocab_size=3),
    **{f"Albert, {name}": AlbertConfig(**{**SMALL, "embedding_size": 16, **more}) for name, more in ALBERT_SHAPES.items()},
    "DistilBert": DistilBertConfig(vocab_size=120, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64),
    "Roberta": RobertaConfig(**_ROBERTA, type_vocab_size=1),
    "Roberta, two token types": RobertaConfig(**_ROBERTA, type_vocab_size=2),
    "XLMRoberta": XLMRobertaConfig(**_ROBERTA, type_vocab_size=1),
    "MPNet": MPNetConfig(**_ROBERTA),
    "MobileBert": MobileBertConfig(**SMALL, embedding_size=16, intra_bottleneck_size=16),
    "MobileBert, plain pooler": MobileBertConfig(
        **{**SMALL, "intermediate_size": 24}, embedding_size=16, intra_bottleneck_size=8, num_feedforward_networks=2,
        classifier_activation=False,
    ),
}  # fmt: skip
# The real sizes of the released checkpoints. Weights are random.
REAL = {
    "albert-base-v2": (AlbertForPreTraining, AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)),
    "bert-base-uncased": (BertForPreTraining, BertConfig()),
    "MiniLM-L12-H384-uncased": (
        BertForSequenceClassification,
        BertConfig(hidden_size=384, num_hidden_layers=12, intermediate_size=1536),
    ),
    "distilbert-base-uncased": (transformers.DistilBertForMaskedLM, DistilBertConfig()),
    "roberta-base": (
        RobertaForMaskedLM,
        RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5),
    ),
    "mpnet-base": (MPNetForSequenceClassification, MPNetConfig(vocab_size=30527, max_position_embeddings=514, layer_norm_eps=1e-5)),
    "mobilebert-uncased": (MobileBertModel, MobileBertConfig(classifier_activation=False)),
}  # fmt: skip


def _pairs():
    for name, config in CONFIGS.items():
        family = FAMILIES[config.model_type]
        for head in HEADS:
            kind = getattr(transformers, f"{family.name}{head}", None)
            if kind is not None and family.obstacle(config, head) is None:
                yield pytest.param(kind, config, id=f"{name}-{head}")


def _save(model, directory, tokenizer_dir):
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(directory)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "config"), list(_pairs()))
def test_every_architecture_and_head(kind, config):
    source = randomise(kind(config))
    converted = to_albert_plus(source)
    name = FAMILIES[config.model_type].name
    assert type(converted).__name__.removeprefix("AlbertPlus") == kind.__name__.removeprefix(name)
    assert max_difference(source, converted) <= 1e-6
    offset = (
        2 * 32 if name in ("Roberta", "XLMRoberta", "MPNet") else 0
    )  # rows of its position table that no token reads
    biases = 3 * 32 * 4 if name == "MPNet" else 0  # of distances, which every block has for itself
    assert converted.num_parameters() == source.num_parameters() - offset + biases


def test_buckets_of_distances():
    """Those of transformers' MPNet, over all distances of its 512 positions."""
    config = MPNetConfig(**_ROBERTA)
    distances = torch.arange(-511, 512)
    expected = MPNetModel(config).encoder.relative_position_bucket(distances)
    assert relative_buckets(512, 32).tolist() == expected.tolist()


@pytest.mark.parametrize("length", [1, 7, 300])
def test_long_distances(length):
    config = MPNetConfig(**{**_ROBERTA, "max_position_embeddings": 514})
    source = randomise(MPNetModel(config))
    converted = to_albert_plus(source)
    ids = torch.randint(2, 120, (2, length), generator=torch.Generator().manual_seed(0))
    for implementation in ("sdpa", "eager"):
        converted.set_attn_implementation(implementation)
        with torch.no_grad():
            expected, found = source(ids).last_hidden_state, converted(ids).last_hidden_state
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_an_attention_that_adds_nothing_to_scores_is_refused():
    model = AlbertPlusModel(small_config(relative_attention_buckets=8))
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="need attn_implementation='sdpa' or 'eager', .* got 'flex_attention'"):
        model.encoder(torch.zeros(1, 4, 32))


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_sizes(name):
    kind, config = REAL[name]
    torch.manual_seed(0)
    source = kind(config).eval()
    assert max_difference(source, to_albert_plus(source)) <= 1e-6


BACK = {
    "albert": [{}, {"num_hidden_groups": 2}, {"num_hidden_groups": 2, "inner_group_num": 2},
               {"num_hidden_layers": 2, "inner_group_num": 3}, {"num_hidden_layers": 18, "num_hidden_groups": 14}],
    "bert": [{}],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("to", "shape"), [(to, shape) for to, shapes in BACK.items() for shape in shapes])
def test_there_and_back_is_the_same_checkpoint(to, shape, head):
    family = FAMILIES[to]
    config = AlbertConfig(**{**SMALL, "embedding_size": 16, **shape}) if to == "albert" else BertConfig(**SMALL)
    source = randomise(getattr(transformers, f"{family.name}{head}")(config))
    again = from_albert_plus(to_albert_plus(source), to=to)
    assert type(again) is type(source)
    assert again.state_dict().keys() == source.state_dict().keys()
    for key, tensor in source.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key
    # How a config spells one function may differ (groups of layers that no group holds, BERT's default dropout).
    spelled = ("num_hidden_groups", "classifier_dropout", "architectures", "_name_or_path", "dtype")
    theirs, ours = ({k: v for k, v in model.config.to_dict().items() if k not in spelled} for model in (source, again))
    assert theirs == ours


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("attention", ["all", "none", 2, "cycle:2", [0, 1, 1, 0]])
@pytest.mark.parametrize("ffn", ["all", "none", "reversed_cycle:2"])
def test_any_sharing_runs_as_a_bert(attention, ffn, head):
    """BERT holds a copy of a shared block for every layer."""
    from hf_albert_plus.heads import albert_plus_class

    config = small_config(attention_sharing=attention, ffn_sharing=ffn, embedding_size=32, type_vocab_size=2)
    model = randomise(albert_plus_class(head)(config))
    assert max_difference(model, from_albert_plus(model, to="bert")) <= 1e-6


@pytest.mark.parametrize(
    ("sharing", "embedding_size"), [("all", 16), ("none", 16), ("cycle:2", 16), (2, 16), ("all", 32)]
)
def test_groups_run_as_an_albert(sharing, embedding_size):
    """Where nothing is projected, ALBERT's projection is the identity."""
    config = small_config(attention_sharing=sharing, ffn_sharing=sharing, embedding_size=embedding_size)
    model = randomise(AlbertPlusForSequenceClassification(config))
    albert = from_albert_plus(model, to="albert")
    assert max_difference(model, albert) <= 1e-6
    assert max_difference(albert, to_albert_plus(albert)) <= 1e-6


def test_no_token_types_become_zeros():
    model = randomise(AlbertPlusModel(small_config(type_vocab_size=0)))
    albert = from_albert_plus(model, to="albert")
    assert not albert.embeddings.token_type_embeddings.weight.any()
    assert max_difference(model, albert) <= 1e-6


@pytest.mark.parametrize(
    ("fields", "to", "words"),
    [
        ({"attention_sharing": "none"}, "albert", "shared differently"),
        (
            {"attention_sharing": [0, 1, 1, 0], "ffn_sharing": [0, 1, 1, 0]},
            "albert",
            r"not one of groups: \[0, 1, 1, 0\]",
        ),
        ({}, "bert", "embedding_size 16 beside hidden_size 32; use --to albert"),
        ({"attention_sharing": "none", "embedding_size": 32}, "albert", "shared differently; use --to bert"),
        ({"norm_type": "no_norm"}, "albert", "norm_type 'no_norm'"),
        ({"bottleneck_size": 16, "num_feedforward_networks": 2}, "albert", "networks 2; bottleneck_size 16"),
        ({"pooler": "relu", "embedding_size": 32}, "albert", "pooler 'relu'; keep it as an ALBERT-plus model"),
        ({"pooling": "mean"}, "albert", "pooling 'mean'; keep it as an ALBERT-plus model"),
        ({}, "robreta", "'robreta'"),
    ],
)
def test_what_another_architecture_cannot_compute_is_refused(fields, to, words):
    with pytest.raises(InvalidInput, match=words):
        from_albert_plus(AlbertPlusModel(small_config(**fields)), to=to)


def test_labels_and_dropout_come_along():
    config = BertConfig(**SMALL, id2label={0: "no", 1: "perhaps", 2: "yes"}, hidden_dropout_prob=0.2)
    converted = to_albert_plus(BertForSequenceClassification(config))
    assert converted.config.id2label == {0: "no", 1: "perhaps", 2: "yes"}
    assert converted.config.classifier_dropout_prob == 0.2


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: BertForNextSentencePrediction(BertConfig(**SMALL)), "BertForNextSentencePrediction"),
        (lambda: transformers.BertLMHeadModel(BertConfig(**SMALL)), "BertLMHeadModel"),
        (lambda: BertModel(BertConfig(**SMALL, is_decoder=True)), "is_decoder"),
        (lambda: AlbertModel(AlbertConfig(**SMALL, embedding_size=32)), "32 for both"),
        (lambda: AlbertForPreTraining(AlbertConfig(**SMALL, embedding_size=16, num_labels=3)), "num_labels 3"),
        (lambda: RobertaForMaskedLM(RobertaConfig(**_ROBERTA, hidden_act="relu")), "hidden_act 'relu'"),
        (lambda: MobileBertForMaskedLM(CONFIGS["MobileBert"]), "H columns a word"),
        (
            lambda: MobileBertModel(MobileBertConfig(**SMALL, intra_bottleneck_size=16, use_bottleneck_attention=True)),
            "use_bottleneck_attention",
        ),
        (lambda: transformers.ElectraModel(transformers.ElectraConfig(**SMALL)), "electra"),
    ],
)
def test_what_does_not_convert_is_refused(model, words):
    with pytest.raises(InvalidInput, match=words):
        to_albert_plus(model())


def test_a_tensor_without_a_counterpart_is_an_error():
    model = BertModel(BertConfig(**SMALL))
    model.encoder.adapter = torch.nn.Linear(4, 4)
    with pytest.raises(InvalidInput, match=r"unread \['encoder.adapter.bias', 'encoder.adapter.weight'\]"):
        to_albert_plus(model)
    model = BertForSequenceClassification(BertConfig(**SMALL))
    model.bert.pooler = None
    with pytest.raises(InvalidInput, match=r"missing \['albert_plus.pooler.bias', 'albert_plus.pooler.weight'\]"):
        to_albert_plus(model)
    model = BertForSequenceClassification(BertConfig(**SMALL))
    model.classifier = torch.nn.Linear(32, 5)
    with pytest.raises(InvalidInput, match=r"of another shape \['classifier.bias', 'classifier.weight'\]"):
        to_albert_plus(model)


@pytest.mark.parametrize("size", [1e2, 1e5, 1e7])
def test_mobilebert_of_large_activations(size):
    """Nothing normalises them: the released checkpoint's reach into the millions, where the last bit is 1."""
    torch.manual_seed(0)
    source = MobileBertModel(
        MobileBertConfig(**{**SMALL, "num_hidden_layers": 24}, embedding_size=16, intra_bottleneck_size=16)
    ).eval()
    with torch.no_grad():
        for layer in source.encoder.layer:
            layer.output.bottleneck.LayerNorm.weight.mul_(size ** (1 / 24) * 1.5)
            layer.output.bottleneck.LayerNorm.bias.normal_()
        ids = torch.arange(24)[None]
        assert source(ids)[0].abs().max() > size / 10
    assert max_difference(source, to_albert_plus(source)) <= 1e-6


def test_an_encoder_without_pooler(tmp_path, tokenizer_dir):
    tokens = len(AutoTokenizer.from_pretrained(tokenizer_dir))
    bert = BertModel(BertConfig(**{**SMALL, "vocab_size": tokens}), add_pooling_layer=False)
    source = _save(randomise(bert), tmp_path / "bare", tokenizer_dir)
    assert convert(str(source), output=tmp_path / "out").result["max_abs_difference"] <= 1e-6
    assert transformers.AutoModel.from_pretrained(tmp_path / "out").config.pooler == "none"


@pytest.mark.parametrize("to", ["bert", "albert"])
@pytest.mark.parametrize("head", ["ForQuestionAnswering", "ForPreTraining"])
def test_heads_of_two_outputs_whatever_the_labels(to, head):
    from hf_albert_plus.heads import albert_plus_class

    fields = {"embedding_size": 32, "num_labels": 3}
    model = randomise(albert_plus_class(head)(small_config(**fields)))
    assert max_difference(model, from_albert_plus(model, to=to)) <= 1e-6


@pytest.mark.parametrize("output", [0, 1, "hidden"])
def test_the_difference_sees_a_difference(output):
    one = randomise(BertForPreTraining(BertConfig(**SMALL)))
    other = to_albert_plus(one)
    places = [
        other.predictions.decoder.bias,
        other.sentence_order.bias,
        other.albert_plus.encoder.ffn[2].output.bias,
    ]
    with torch.no_grad():
        places[2 if output == "hidden" else output][0] += 1e-2
    assert max_difference(one, other) > 1e-3


def test_the_difference_sees_nan():
    one = randomise(BertModel(BertConfig(**SMALL)))
    other = to_albert_plus(one)
    with torch.no_grad():
        other.encoder.ffn[3].output.bias[0] = float("nan")
    assert not max_difference(one, other) <= 1e-4


def _bytes(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "record.json"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config"), [pair for pair in _pairs() if "float" not in pair.id and "relu" not in pair.id]
)
def test_a_converted_directory_reloads_and_saves_to_the_same_bytes(tmp_path, tokenizer_dir, kind, config):
    config = type(config)(**{**config.to_dict(), "vocab_size": 2000})
    source = _save(randomise(kind(config)), tmp_path / "source", tokenizer_dir)
    record = convert(str(source), output=tmp_path / "converted")
    head = kind.__name__.removeprefix(FAMILIES[config.model_type].name)
    assert record.result["architecture"] == f"AlbertPlus{head}"
    assert record.result["max_abs_difference"] <= 1e-6
    auto_class = getattr(transformers, f"Auto{head}" if head == "Model" else f"AutoModel{head}")
    auto_class.from_pretrained(tmp_path / "converted").save_pretrained(tmp_path / "again")
    AutoTokenizer.from_pretrained(tmp_path / "converted").save_pretrained(tmp_path / "again")
    assert _bytes(tmp_path / "again") == _bytes(tmp_path / "converted")


def test_back_again_through_directories(tmp_path, encoder_dir):
    convert(str(encoder_dir), output=tmp_path / "ours")
    record = convert(str(tmp_path / "ours"), output=tmp_path / "bert", to="bert")
    assert record.result["architecture"] == "BertModel"
    one, other = (
        transformers.AutoModel.from_pretrained(path).state_dict() for path in (encoder_dir, tmp_path / "bert")
    )
    assert all(torch.equal(one[key], other[key]) for key in one)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "<s>", "</s>", "<mask>", "a", "b", "▁a", "▁b"]
TOKENIZERS = {
    "AlbertTokenizer": lambda: transformers.AlbertTokenizer(vocab=[(word, -1.0 - i) for i, word in enumerate(WORDS)]),
    "BertTokenizer": lambda: transformers.BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}),
    "DistilBertTokenizer": lambda: transformers.DistilBertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}),
    "RobertaTokenizer": lambda: transformers.RobertaTokenizer(
        vocab={word: i for i, word in enumerate([*WORDS, "Ġ", "Ġa", "Ġb"])}, merges=[]
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("types", [0, 1, 2])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizers_give_types_exactly_where_the_model_reads_them(tmp_path, name, types):
    """transformers 5's own AlbertTokenizer gives none, so that both sentences of a pair would be segment 0; BertTokenizer
    gives them to models that have none."""
    source = tmp_path / "source"
    tokenizer = TOKENIZERS[name]()
    tokenizer.save_pretrained(source)
    randomise(AlbertModel(AlbertConfig(**SMALL, embedding_size=16))).save_pretrained(source)
    names = AutoTokenizer.from_pretrained(source).model_input_names
    assert ("token_type_ids" in names) == (name == "BertTokenizer")
    convert(str(source), output=tmp_path / "converted", overrides={"type_vocab_size": types})
    again = AutoTokenizer.from_pretrained(tmp_path / "converted")
    again.save_pretrained(tmp_path / "saved")
    model = transformers.AutoModel.from_pretrained(tmp_path / "converted")
    for directory in ("converted", "saved"):
        pair = AutoTokenizer.from_pretrained(tmp_path / directory)("a", "b", return_tensors="pt")
        assert ("token_type_ids" in pair) == (types == 2)
        if types == 2 and name != "RobertaTokenizer":  # which marks pairs by separators alone
            assert set(pair["token_type_ids"][0].tolist()) == {0, 1}
        model(**pair)


def test_a_directory_without_tokenizer_is_converted_and_gets_none(tmp_path, capsys):
    """transformers 5 would make up an empty one."""
    BertModel(BertConfig(**SMALL)).save_pretrained(tmp_path / "bare")
    record = convert(str(tmp_path / "bare"), output=tmp_path / "out")
    assert record.result["max_abs_difference"] < 1e-5
    assert AutoModel.from_pretrained(tmp_path / "out").config.vocab_size == SMALL["vocab_size"]
    assert not has_tokenizer(tmp_path / "out")
    assert f"{tmp_path / 'bare'} has no tokenizer" in capsys.readouterr().err


def test_a_directory_with_a_part_of_a_tokenizer_is_refused(tmp_path):
    BertModel(BertConfig(**SMALL)).save_pretrained(tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer_config.json").write_text("{}")
    with pytest.raises(InvalidInput, match="must hold its tokenizer"):
        convert(str(tmp_path / "bare"), output=tmp_path / "out")


def test_a_directory_with_another_head_or_missing_weights_is_refused(tmp_path):
    BertForNextSentencePrediction(BertConfig(**SMALL)).save_pretrained(tmp_path / "nsp")
    with pytest.raises(InvalidInput, match="got BertForNextSentencePrediction"):
        convert(str(tmp_path / "nsp"), output=tmp_path / "out")
    BertModel(BertConfig(**SMALL)).save_pretrained(tmp_path / "bare")
    BertConfig(**SMALL, architectures=["BertForMaskedLM"]).save_pretrained(tmp_path / "bare")
    with pytest.raises(InvalidInput, match=r"missing .cls\.predictions"):
        convert(str(tmp_path / "bare"), output=tmp_path / "out")
    BertForPreTraining(BertConfig(**SMALL)).save_pretrained(tmp_path / "more")
    BertConfig(**SMALL, architectures=["BertModel"]).save_pretrained(tmp_path / "more")
    with pytest.raises(InvalidInput, match=r"unread .cls\."):
        convert(str(tmp_path / "more"), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pickled_weights_are_not_opened(tmp_path):
    model = BertModel(BertConfig(**SMALL))
    BertConfig(**SMALL, architectures=["BertModel"]).save_pretrained(tmp_path / "old")
    torch.save(model.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="must hold its weights as safetensors"):
        convert(str(tmp_path / "old"), output=tmp_path / "out")


def test_a_config_with_fewer_layers_than_weights_is_refused(tmp_path):
    from hf_albert_plus.checkpoints import load_classifier

    source = tmp_path / "four"
    BertModel(BertConfig(**SMALL)).save_pretrained(source)
    BertConfig(**{**SMALL, "num_hidden_layers": 3}, architectures=["BertModel"]).save_pretrained(source)
    with pytest.raises(InvalidInput, match=r"16 unread \(encoder.layer.3"):
        load_classifier(source, option="--model", task=get_task("sst2"))
    with pytest.raises(InvalidInput, match=r"16 unread \(encoder.layer.3"):
        convert(str(source), output=tmp_path / "out")


def test_starting_a_variant(tmp_path, encoder_dir):
    """A shared model from an unshared one: trained weights in, something to train out, and the record says so."""
    settings = {"attention_sharing": "all", "ffn_sharing": 2, "embedding_size": 16}
    record = convert(str(encoder_dir), output=tmp_path / "shared", overrides=settings)
    assert record.result["initialised"] == "average of the source's layers, embeddings by truncated SVD"
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "shared")
    record = convert(str(encoder_dir), output=tmp_path / "half", overrides={"num_hidden_layers": 2}, layers=[1, 3])
    assert record.result["initialised"] == "average of the source's layers [1, 3]"
    with pytest.raises(InvalidInput, match="--initialise svd alone"):
        convert(str(encoder_dir), output=tmp_path / "no", initialise="svd")
    with pytest.raises(InvalidInput, match=r"hidden_size differs \(32 in the source, 768"):
        convert(str(encoder_dir), output=tmp_path / "no", variant="albert-base-v2")
    with pytest.raises(InvalidInput, match="--to bert beside them"):
        convert(str(encoder_dir), output=tmp_path / "no", variant="albert-base-v2", to="bert")
    with pytest.raises(InvalidInput, match="got 0,9; use --layers 0,2"):
        convert(str(encoder_dir), output=tmp_path / "no", overrides={"num_hidden_layers": 2}, layers=[0, 9])


def test_an_albert_plus_source_needs_a_target(tmp_path, classifier_dir):
    with pytest.raises(InvalidInput, match="ALBERT-plus model already"):
        convert(str(classifier_dir), output=tmp_path / "out")


@pytest.mark.slow
def test_embeddings_that_keep_what_a_task_reads(teachers, data_dir, tmp_path):
    """By the command line, and the same by a distillation of the same texts: students start with what `convert` makes."""
    narrow = {"embedding_size": 16, "num_hidden_layers": 2, "attention_sharing": "none", "ffn_sharing": "none"}
    sets = [word for name, value in narrow.items() for word in ("--set", f"{name}={value}")]
    on = ("--data", data_dir, "--task", "sst2")
    invoke("convert", teachers / "sst2", *sets, "--layers", "0,3", *on, "--out", tmp_path / "narrow")
    record = read_record(tmp_path / "narrow")
    assert record.result["initialised"].endswith("embeddings by truncated SVD, weighted by how often each row is read")
    assert record.parents["data"]["path"].endswith("sst2")
    invoke("distill", "--teacher", teachers / "sst2", *on, "--student", "half", *sets, "--epochs", "0.001", "--learning-rate", "1e-9",
           "--max-length", "64", "--precision", "fp32", "--out", tmp_path / "student")  # fmt: skip
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("narrow", "student"))
    for part in ("word_embeddings", "position_embeddings", "projection"):
        name = f"albert_plus.embeddings.{part}.weight"
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-5, rtol=0)
    with pytest.raises(InvalidInput, match="--data says which texts .* got --data .* alone; add --set"):
        convert(str(teachers / "sst2"), output=tmp_path / "same", data=str(data_dir), task=get_task("sst2"))
