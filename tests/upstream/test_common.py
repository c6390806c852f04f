"""transformers' own common tests on our models, once a configuration."""

import unittest
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.testing_utils import torch_device

import hf_albert_plus
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from tests.support.common_tests import load, why_unavailable

if reason := why_unavailable():
    pytest.skip(reason, allow_module_level=True)

configuration_common = load("test_configuration_common")
modeling_common = load("test_modeling_common")

# Under our own settings a warning fails the test; these tests are not written for that.
pytestmark = pytest.mark.filterwarnings("ignore")

MODEL_CLASSES = (
    hf_albert_plus.AlbertPlusModel,
    hf_albert_plus.AlbertPlusForPreTraining,
    hf_albert_plus.AlbertPlusForMaskedLM,
    hf_albert_plus.AlbertPlusForSequenceClassification,
    hf_albert_plus.AlbertPlusForTokenClassification,
    hf_albert_plus.AlbertPlusForQuestionAnswering,
    hf_albert_plus.AlbertPlusForMultipleChoice,
)
SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,  # the most that the common tests allow
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
# Test class -> the config fields that are not SMALL's or the defaults.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "AllSharedTest": {"attention_sharing": "all", "ffn_sharing": "all"},
    "NoneSharedTest": {"attention_sharing": "none", "ffn_sharing": "none", "embedding_size": 32},
    "AttentionSharedTest": {"attention_sharing": "all", "ffn_sharing": "none"},
    "NoNormBottleneckTest": {
        "norm_type": "no_norm",
        "bottleneck_size": 16,
        "num_feedforward_networks": 2,
        "type_vocab_size": 0,
        "hidden_act": "relu",
    },
}
# Test -> why it is left out, beyond what the common tests skip themselves.
EXCLUDED: dict[str, str] = {}


def register_names() -> None:
    """The common tests know the task of a class by the library's tables of names, where registered classes are not."""
    for table, names in list(vars(modeling_common).items()):
        if not table.endswith("_MAPPING_NAMES"):
            continue
        mapping = getattr(modeling_auto, table.removesuffix("_NAMES"))
        if AlbertPlusConfig in mapping:
            ours = {AlbertPlusConfig.model_type: mapping[AlbertPlusConfig].__name__}
            setattr(modeling_common, table, {**names, **ours})


register_names()


class ModelTester:
    """Sizes and inputs, under the names that the common tests read."""

    batch_size = 5
    seq_length = 7
    num_choices = 4
    is_training = True

    def __init__(self, fields: dict[str, Any]):
        self.fields = {**SMALL, **fields}
        self.hidden_size = self.fields["hidden_size"]
        self.num_hidden_layers = self.fields["num_hidden_layers"]
        self.num_attention_heads = self.fields["num_attention_heads"]

    def get_config(self) -> AlbertPlusConfig:
        return AlbertPlusConfig(**self.fields)

    def prepare_config_and_inputs_for_common(self) -> tuple[AlbertPlusConfig, dict[str, torch.Tensor]]:
        config = self.get_config()
        shape = (self.batch_size, self.seq_length)
        inputs = {
            "input_ids": modeling_common.ids_tensor(shape, config.vocab_size),
            "attention_mask": modeling_common.random_attention_mask(shape),
        }
        if config.type_vocab_size:
            inputs["token_type_ids"] = modeling_common.ids_tensor(shape, config.type_vocab_size)
        return config, inputs


class CommonTests(modeling_common.ModelTesterMixin):
    fields: dict[str, Any]
    all_model_classes = MODEL_CLASSES
    # Else a test is skipped where the config's file has no copyright line with a year from 2023 on.
    test_can_init_all_missing_weights_before_2023 = True

    def setUp(self):
        if self._testMethodName in EXCLUDED:
            self.skipTest(EXCLUDED[self._testMethodName])
        transformers.set_seed(0)
        modeling_common.global_rng.seed(0)
        self.model_tester = ModelTester(self.fields)
        self.config_tester = configuration_common.ConfigTester(
            self, config_class=AlbertPlusConfig, **self.model_tester.fields
        )

    def _prepare_for_class(self, inputs_dict, model_class, return_labels=False):
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels=return_labels)
        if return_labels and model_class is hf_albert_plus.AlbertPlusForPreTraining:
            shape = (self.model_tester.batch_size, self.model_tester.seq_length)
            inputs["labels"] = torch.zeros(shape, dtype=torch.long, device=torch_device)
            inputs["sentence_order_label"] = torch.zeros(shape[0], dtype=torch.long, device=torch_device)
        return inputs

    def test_config(self):
        self.config_tester.run_common_tests()


for _name, _fields in CONFIGURATIONS.items():
    globals()[_name] = type(_name, (CommonTests, unittest.TestCase), {"fields": _fields})
