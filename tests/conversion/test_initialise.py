"""Starting a student from its teacher: averages by hand, and embeddings that keep what their rank can hold."""

import numpy as np
import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    MobileBertConfig,
)

from hf_albert_plus.config_building import student_of
from hf_albert_plus.conversion.initialise import factorise_embeddings, initialise
from hf_albert_plus.conversion.models import max_difference
from hf_albert_plus.conversion.occurrences import Occurrences
from hf_albert_plus.errors import InvalidInput
from tests.support.small_models import SMALL, randomise, small_config


@pytest.fixture
def teacher():
    return randomise(BertForSequenceClassification(BertConfig(**SMALL)))


def test_a_shared_block_is_the_average_of_all_layers(teacher):
    student, name = initialise(teacher, student_of(teacher.config), method="auto")
    expected = torch.stack([layer.attention.self.key.weight for layer in teacher.bert.encoder.layer]).mean(0)
    torch.testing.assert_close(student.albert_plus.encoder.attention[0].key.weight, expected)
    assert name == "average of the source's layers"


def test_narrow_embeddings_follow_the_teachers(teacher):
    """With E = H/2 the student's first hidden states resemble the teacher's; at random they do not."""
    config = student_of(teacher.config, overrides={"embedding_size": 16})
    student, name = initialise(teacher, config, method="average")
    other, _ = initialise(teacher, config, method="random")
    assert name == "average of the source's layers, embeddings by truncated SVD"
    ids = torch.arange(60).reshape(5, 12)
    with torch.no_grad():
        wanted = teacher.bert.embeddings(ids)
        similar, unlike = (
            torch.nn.functional.cosine_similarity(
                model.eval().albert_plus.embeddings(ids, None, None, None), wanted, dim=-1
            )
            for model in (student, other)
        )
    assert similar.mean() > 0.6
    assert unlike.mean().abs() < 0.3


def test_blocks_average_the_layers_they_stand_for(teacher):
    config = student_of(teacher.config, overrides={"ffn_sharing": "none"})
    student, _ = initialise(teacher, config, method="average")
    layers = teacher.bert.encoder.layer
    for block, members in ((0, (0, 1)), (1, (2, 3))):
        expected = torch.stack([layers[i].output.dense.weight for i in members]).mean(0)
        torch.testing.assert_close(student.albert_plus.encoder.ffn[block].output.weight, expected)


def test_first_takes_the_first_layer(teacher):
    student, _ = initialise(teacher, student_of(teacher.config), method="first")
    torch.testing.assert_close(
        student.albert_plus.encoder.ffn[0].output.weight, teacher.bert.encoder.layer[0].output.dense.weight
    )


def test_same_depth_and_no_sharing_is_the_teacher_itself(teacher):
    same = {"num_hidden_layers": 4, "attention_sharing": "none", "ffn_sharing": "none", "embedding_size": 32}
    student, _ = initialise(teacher, student_of(teacher.config, overrides=same), method="average")
    ids = torch.arange(24).reshape(2, 12)
    with torch.no_grad():
        torch.testing.assert_close(student.eval()(ids).logits, teacher(ids).logits, atol=1e-6, rtol=1e-5)


def test_factorised_embeddings_restore_tables_of_low_rank():
    """Rows in an E-dimensional space with a mean of zero come back as the wide LayerNorm gave them, up to the mean that
    the narrow LayerNorm removes."""
    torch.manual_seed(0)
    table = torch.randn(500, 8) @ torch.randn(8, 64)
    norm = torch.nn.LayerNorm(64)
    with torch.no_grad():
        norm.weight.normal_(1, 0.2)
        norm.bias.normal_(0, 0.2)
    (narrow,), projection, bias = factorise_embeddings([table], embedding_size=16, layer_norm=norm)
    assert narrow.shape == (500, 16)
    assert projection.shape == (64, 16)
    with torch.no_grad():
        wide = norm(table)
        restored = torch.nn.functional.layer_norm(narrow, (16,)) @ projection.T + bias
    similarity = torch.nn.functional.cosine_similarity(restored - norm.bias, wide - norm.bias)
    assert similarity.mean() > 0.95
    torch.testing.assert_close((restored - norm.bias).norm(dim=1), (wide - norm.bias).norm(dim=1), rtol=0.15, atol=0)


def test_rows_weigh_as_often_as_they_are_read():
    """As if a table held each row once, and once more for each time that it is read."""
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(rows, 32, generator=generator) for rows in (40, 6)]
    counts = [torch.randint(0, 9, (rows,), generator=generator).double() for rows in (40, 6)]
    norm = torch.nn.LayerNorm(32)
    weighted, projection, _ = factorise_embeddings(tables, embedding_size=8, layer_norm=norm, counts=counts)
    read = [table.repeat_interleave(1 + count.long(), dim=0) for table, count in zip(tables, counts, strict=True)]
    repeated, expected, _ = factorise_embeddings(read, embedding_size=8, layer_norm=norm)
    # Directions are known up to their sign.
    torch.testing.assert_close(projection @ projection.T, expected @ expected.T, atol=1e-5, rtol=0)
    for one, other, count in zip(weighted, repeated, counts, strict=True):
        again = one.repeat_interleave(1 + count.long(), dim=0)
        torch.testing.assert_close(again @ projection.T, other @ expected.T, atol=1e-5, rtol=0)


def test_occurrences_counted_by_hand():
    rows = [
        {"input_ids": [2, 7, 7, 3], "token_type_ids": [0, 0, 1, 1]},
        {"input_ids": [2, 5, 3], "token_type_ids": [0, 0, 1]},
    ]
    found = Occurrences.of(rows, small_config(vocab_size=9, max_position_embeddings=5))
    assert found.pieces_V.tolist() == [0, 0, 2, 2, 0, 1, 0, 2, 0]
    assert found.positions_P.tolist() == [2, 2, 2, 1, 0]
    assert found.types_T.tolist() == [4, 3]
    without = [{"input_ids": row["input_ids"]} for row in rows]
    config = small_config(vocab_size=9, max_position_embeddings=5, type_vocab_size=0)
    for given in (without, rows):  # a student may have no types where its teacher reads them
        assert Occurrences.of(given, config).pieces_V.tolist() == found.pieces_V.tolist()


@pytest.mark.parametrize("types", [2, 0])
def test_what_texts_read_is_kept_best(teacher, types):
    """Embeddings of the pieces that texts read come back better than without the texts, beside token types or without."""
    config = student_of(teacher.config, overrides={"embedding_size": 8, "type_vocab_size": types})
    ids = torch.arange(5, 17).reshape(2, 6)
    occurrences = Occurrences.of([{"input_ids": row} for row in ids.tolist()] * 50, config)
    similar = []
    for counted in (occurrences, None):
        student, name = initialise(teacher, config, method="average", occurrences=counted)
        assert name.endswith("weighted by how often each row is read") == (counted is not None)
        with torch.no_grad():
            wanted, found = teacher.bert.embeddings(ids), student.albert_plus.embeddings(ids, None, None, None)
        similar.append(float(torch.nn.functional.cosine_similarity(wanted, found, dim=-1).mean()))
    assert similar[0] > similar[1] + 0.05


def test_random_where_widths_differ_and_an_error_where_asked(teacher):
    config = student_of(teacher.config, overrides={"intermediate_size": 64})
    _, name = initialise(teacher, config, method="auto")
    assert name == "random: intermediate_size differs (48 in the source, 64 in the new model)"
    with pytest.raises(InvalidInput, match="intermediate_size differs .* start at random"):
        initialise(teacher, config, method="average")


def test_svd_takes_what_layers_have_in_common(teacher):
    """Layers that are multiples c of one matrix W are of rank one, so the outcome is their mean. Beside noise it is the
    mean of the best rank-one approximation that numpy's SVD gives."""
    layers = teacher.bert.encoder.layer
    with torch.no_grad():
        for layer, scale in zip(layers, (0.5, 1.0, 1.5, 3.0), strict=True):
            layer.intermediate.dense.weight.copy_(layers[0].intermediate.dense.weight.clone() * scale * 2)
    student, name = initialise(teacher, student_of(teacher.config), method="svd")
    assert name == "svd of the source's layers"
    network = student.albert_plus.encoder.ffn[0]
    mean = torch.stack([layer.intermediate.dense.weight for layer in layers]).mean(0)
    torch.testing.assert_close(network.intermediate.weight, mean, atol=1e-6, rtol=1e-4)
    rows = np.stack([layer.output.dense.weight.detach().numpy().ravel() for layer in layers])
    u, s, v = np.linalg.svd(rows, full_matrices=False)
    expected = (s[0] * np.outer(u[:, 0], v[0])).mean(0).reshape(network.output.weight.shape)
    np.testing.assert_allclose(network.output.weight.detach(), expected, atol=1e-6)


def test_layer_selection_copies_the_named_layers(teacher):
    config = student_of(teacher.config, overrides={"attention_sharing": "none", "ffn_sharing": "none"})
    student, name = initialise(teacher, config, method="average", layers=[1, 3])
    assert name == "average of the source's layers [1, 3]"
    for block, layer in ((0, 1), (1, 3)):
        torch.testing.assert_close(
            student.albert_plus.encoder.attention[block].value.weight,
            teacher.bert.encoder.layer[layer].attention.self.value.weight,
        )


@pytest.mark.parametrize("kind", [BertForPreTraining, BertForTokenClassification])
def test_heads_come_along(kind):
    source = randomise(kind(BertConfig(**SMALL)))
    same = {"num_hidden_layers": 4, "attention_sharing": "none", "ffn_sharing": "none", "embedding_size": 32}
    model, _ = initialise(source, student_of(source.config, overrides=same), method="average")
    assert max_difference(source, model) <= 1e-6


def test_a_head_of_another_size_starts_at_random():
    source = randomise(AlbertForMaskedLM(AlbertConfig(**{**SMALL, "embedding_size": 16})))
    config = student_of(source.config, overrides={"embedding_size": 8})
    model, name = initialise(source, config, method="first")
    assert (
        name
        == "first of the source's layers, embeddings by truncated SVD, predictions.dense, predictions.layer_norm at random"
    )
    torch.testing.assert_close(model.predictions.decoder.bias, source.predictions.decoder.bias)


def test_fewer_token_types_and_positions(teacher):
    """A student without token types gets what every token of a single text had added."""
    fields = {"type_vocab_size": 0, "max_position_embeddings": 20, "embedding_size": 32}
    student, _ = initialise(teacher, student_of(teacher.config, overrides=fields), method="average")
    ids = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        theirs = teacher.bert.embeddings(ids)
        torch.testing.assert_close(student.albert_plus.embeddings(ids, None, None, None), theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"norm_type": "no_norm"}, "norm_type differs"),
        ({"bottleneck_size": 16}, "bottleneck_size differs"),
        ({"embedding_size": 64}, "embedding_size grows"),
    ],
)
def test_what_weights_cannot_fill_is_refused(teacher, fields, words):
    with pytest.raises(InvalidInput, match=words):
        initialise(teacher, student_of(teacher.config, overrides=fields), method="average")


def test_an_untied_decoder_comes_along():
    source = randomise(BertForPreTraining(BertConfig(**SMALL, tie_word_embeddings=False)))
    same = {"num_hidden_layers": 4, "attention_sharing": "none", "ffn_sharing": "none", "embedding_size": 32}
    model, _ = initialise(
        source, student_of(source.config, overrides={**same, "tie_word_embeddings": False}), method="first"
    )
    assert max_difference(source, model) <= 1e-6


def test_auto_starts_at_random_where_the_source_does_not_convert():
    source = AlbertForMaskedLM(AlbertConfig(**SMALL, embedding_size=32))
    _, name = initialise(source, student_of(source.config), method="auto")
    assert name.startswith("random: the source has no exact conversion to start from (32 for both")
    layer_norms = MobileBertConfig(**SMALL, intra_bottleneck_size=16, normalization_type="layer_norm")
    assert student_of(layer_norms).hidden_size == 32


RELAXED = {"num_hidden_layers": 4, "embedding_size": 32, "attention_sharing": "all", "ffn_sharing": 2}


def test_differences_of_full_rank_are_the_teacher_itself(teacher):
    config = student_of(teacher.config, overrides={**RELAXED, "layer_rank": 40})
    student, name = initialise(teacher, config, method="average")
    assert name == "average of the source's layers, differences of rank 40 by truncated SVD"
    assert max_difference(teacher, student) <= 1e-5
    # And back: layers that share nothing.
    alone = student_of(student.config, overrides={**RELAXED, "attention_sharing": "none", "ffn_sharing": "none"})
    unshared, _ = initialise(student, alone, method="average")
    assert unshared.config.layer_rank is None
    assert max_difference(teacher, unshared) <= 1e-5


@pytest.mark.parametrize("rank", [1, 5])
def test_differences_of_a_rank_come_as_near_as_it_allows(teacher, rank):
    """The squared distance that is left is the sum of the squared singular values that were cut (Eckart and Young)."""
    config = student_of(teacher.config, overrides={**RELAXED, "layer_rank": rank})
    student, _ = initialise(teacher, config, method="average")
    encoder = student.albert_plus.encoder
    wanted = [layer.intermediate.dense for layer in teacher.bert.encoder.layer]
    for layer, members in ((0, (0, 1)), (3, (2, 3))):
        mean = np.mean([wanted[member].weight.detach().numpy() for member in members], axis=0)
        own = encoder.layers[layer].own_ffn["intermediate"]
        near = (encoder.ffn[layer // 2].intermediate.weight + own.up.weight @ own.down.weight).detach().numpy()
        cut = np.linalg.svd(wanted[layer].weight.detach().numpy() - mean, compute_uv=False)[rank:]
        assert np.square(wanted[layer].weight.detach().numpy() - near).sum() == pytest.approx(
            np.square(cut).sum(), rel=1e-4
        )
        torch.testing.assert_close(own.up.bias, wanted[layer].bias)
        torch.testing.assert_close(
            encoder.layers[layer].own_ffn["layer_norm"].weight,
            teacher.bert.encoder.layer[layer].output.LayerNorm.weight,
        )
