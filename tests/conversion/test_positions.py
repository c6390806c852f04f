"""More positions than a checkpoint has: between its own ones by numpy, exactly these at the old places, and RoBERTa's counted from its first token."""

import numpy
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from hf_albert_plus.config_building import student_of
from hf_albert_plus.conversion.initialise import initialise
from hf_albert_plus.conversion.positions import interpolated_positions
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusModel
from tests.support.small_models import SMALL, randomise


@pytest.mark.parametrize("count", [16, 17, 24, 31, 32, 48, 100])
def test_positions_lie_between_the_old_ones(count):
    table = torch.randn(16, 5, generator=torch.Generator().manual_seed(count))
    places = numpy.arange(count) * 16 / count
    expected = numpy.stack([numpy.interp(places, numpy.arange(16), column) for column in table.double().numpy().T], 1)
    found = interpolated_positions(table, count)
    assert found.dtype == table.dtype
    numpy.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-6)
    if count % 16 == 0:
        assert torch.equal(found[:: count // 16], table)
    assert torch.equal(found[-1], table[-1]) or count < 32


@pytest.mark.parametrize(("made", "config"), [(RobertaModel, RobertaConfig), (MPNetModel, MPNetConfig)])
def test_positions_counted_past_the_padding_token_begin_at_their_first(tmp_path, made, config):
    """The two rows below the first token's are no positions, and none of the new ones lies between them and it."""
    fields = {**SMALL, "max_position_embeddings": 66, "pad_token_id": 1}
    model = randomise(made(config(**fields)))
    model.save_pretrained(tmp_path / "source")
    record = convert(str(tmp_path / "source"), output=tmp_path / "long", overrides={"max_position_embeddings": 192})
    assert record.result["initialised"].endswith("192 positions interpolated from 64")
    long = AlbertPlusModel.from_pretrained(tmp_path / "long")
    table = long.embeddings.position_embeddings.weight
    assert table.shape[0] == 192
    assert torch.equal(table[::3], model.embeddings.position_embeddings.weight[2:])
    assert torch.isfinite(long(torch.full((1, 192), 7)).last_hidden_state).all()


def test_all_but_the_positions_stays(tmp_path, tokenizer_dir):
    """A long model reads the old positions where they lie as the source does; and its tokenizer does not cut at the old length."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    source = randomise(BertForSequenceClassification(BertConfig(**{**SMALL, "vocab_size": len(tokenizer)})))
    source.save_pretrained(tmp_path / "source")
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(tmp_path / "source")
    convert(str(tmp_path / "source"), output=tmp_path / "long", overrides={"max_position_embeddings": 128})
    assert AutoTokenizer.from_pretrained(tmp_path / "long").model_max_length == 128
    from transformers import AutoModelForSequenceClassification

    long = AutoModelForSequenceClassification.from_pretrained(tmp_path / "long").eval()
    ids = torch.randint(5, len(tokenizer), (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = long(ids, position_ids=2 * torch.arange(40)[None]).logits
        torch.testing.assert_close(found, source(ids).logits, atol=1e-5, rtol=1e-4)


def test_a_student_with_more_positions_starts_from_its_teacher():
    teacher = randomise(BertForSequenceClassification(BertConfig(**SMALL)))
    student, done = initialise(
        teacher, student_of(teacher.config, overrides={"max_position_embeddings": 128}), method="average"
    )
    assert "128 positions interpolated from 64" in done
    assert student.config.max_position_embeddings == 128


def test_positions_that_are_distances_alone_are_refused(tmp_path):
    from transformers import T5Config, T5EncoderModel

    T5EncoderModel(T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)).save_pretrained(
        tmp_path / "source"
    )
    with pytest.raises(InvalidInput, match="SOURCE must be of one of the architectures"):
        convert(str(tmp_path / "source"), output=tmp_path / "long", overrides={"max_position_embeddings": 1024})
