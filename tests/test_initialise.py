"""Starting a student from its teacher: averages by hand, and embeddings that keep what their rank can hold."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.initialise import factorise_embeddings, initialise_student
from hf_albert_plus.variants import student_of
from tests.conftest import SMALL, randomise


@pytest.fixture
def teacher():
    return randomise(BertForSequenceClassification(BertConfig(**SMALL)))


def test_a_shared_block_is_the_average_of_all_layers(teacher):
    student, name = initialise_student(teacher, student_of(teacher.config), method="auto")
    expected = torch.stack([layer.attention.self.key.weight for layer in teacher.bert.encoder.layer]).mean(0)
    torch.testing.assert_close(student.albert_plus.encoder.attention[0].key.weight, expected)
    assert name == "average of the teacher's layers"


def test_narrow_embeddings_follow_the_teachers(teacher):
    """With E = H/2 the student's first hidden states resemble the teacher's; at random they do not."""
    config = student_of(teacher.config, overrides={"embedding_size": 16})
    student, name = initialise_student(teacher, config, method="average")
    other, _ = initialise_student(teacher, config, method="random")
    assert name == "average of the teacher's layers, embeddings by truncated SVD"
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
    student, _ = initialise_student(teacher, config, method="average")
    layers = teacher.bert.encoder.layer
    for block, members in ((0, (0, 1)), (1, (2, 3))):
        expected = torch.stack([layers[i].output.dense.weight for i in members]).mean(0)
        torch.testing.assert_close(student.albert_plus.encoder.ffn[block].output.weight, expected)


def test_first_takes_the_first_layer(teacher):
    student, _ = initialise_student(teacher, student_of(teacher.config), method="first")
    torch.testing.assert_close(
        student.albert_plus.encoder.ffn[0].output.weight, teacher.bert.encoder.layer[0].output.dense.weight
    )


def test_same_depth_and_no_sharing_is_the_teacher_itself(teacher):
    same = {"num_hidden_layers": 4, "attention_sharing": "none", "ffn_sharing": "none", "embedding_size": 32}
    student, _ = initialise_student(teacher, student_of(teacher.config, overrides=same), method="average")
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


def test_random_where_widths_differ_and_an_error_where_asked(teacher):
    config = student_of(teacher.config, overrides={"intermediate_size": 64})
    _, name = initialise_student(teacher, config, method="auto")
    assert name == "random: intermediate_size differs (48 in the teacher, 64 in the student)"
    with pytest.raises(InvalidInput, match="intermediate_size differs .* use --initialise random"):
        initialise_student(teacher, config, method="average")
