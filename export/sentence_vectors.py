"""Vectors of texts in the graph: pooling and length 1 behind an encoder, and the files by which the library sentence-transformers pools alike."""

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_albert_plus.config_files import load_config
from hf_albert_plus.conversion.settings import SentencePooling
from hf_albert_plus.engines.tensors import SentenceOutput
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.heads import architecture_of
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.pooling_albert_plus import read_sequences
from hf_albert_plus.records.files import write_json

# What a shorter vector, such as one of zeros, is divided by.
_LEAST_LENGTH = 1e-12


class SentenceEncoder(PreTrainedModel):
    """An encoder that gives the vector of each text beside its hidden states: the mean of the real tokens or the first token
    (Reimers and Gurevych, 2019, section 3), divided by its L2 norm where asked for."""

    # Its encoder was checked when it was opened.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True

    def __init__(self, encoder: PreTrainedModel, *, pooling: SentencePooling, normalize: bool):
        super().__init__(encoder.config)
        self.encoder, self.normalize = encoder, normalize
        self.read_by = "mean" if pooling == "mean" else "first"

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> SentenceOutput:
        """int64 tensors `[batch, sequence]` -> hidden states and vectors."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden_BSH = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
        vectors_BH = read_sequences(hidden_BSH, attention_mask, pooling=self.read_by)
        if self.normalize:
            # As torch.nn.functional.normalize, in operators that TensorRT's parser lists.
            vectors_BH = vectors_BH / vectors_BH.square().sum(dim=-1, keepdim=True).sqrt().clamp(min=_LEAST_LENGTH)
        return SentenceOutput(last_hidden_state=hidden_BSH, sentence_embedding=vectors_BH)

    def set_attn_implementation(self, *given: Any, **named: Any) -> None:
        """As the encoder's, whose layers read it."""
        self.encoder.set_attn_implementation(*given, **named)


def check_pooling(settings: ExportSettings, source: Path) -> None:
    """Refuses vectors of a model that is no bare encoder, and a length for vectors that nobody asked for.

    Raises:
        InvalidInput: one of these.
    """
    if settings.pooling is None:
        if settings.normalize:
            raise InvalidInput(
                "--normalize is for the vectors of --pooling", got="no --pooling", repair="add --pooling mean"
            )
        return
    architecture = architecture_of(load_config(source, option="DIR"))
    if not architecture.endswith("Model") or architecture.endswith("TwinModel"):
        raise InvalidInput(
            "--pooling makes vectors of a bare encoder",
            got=f"{architecture} in {source}",
            repair="leave it out, or save its encoder alone first: AutoModel.from_pretrained(DIR).save_pretrained(OUT)",
        )


def write_modules(directory: Path, config: Any, settings: ExportSettings) -> None:
    """Writes `modules.json` and the folders that it names, so that `SentenceTransformer(directory)` reads texts as the graphs do. The names are
    the library's old ones, which its release 6 reads as well."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if settings.normalize else [])]
    modules: list[dict[str, Any]] = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    write_json(directory / "modules.json", modules)
    write_json(
        directory / "sentence_bert_config.json", {"max_seq_length": longest_input(config), "do_lower_case": False}
    )
    for module in modules[1:]:
        (directory / module["path"]).mkdir()
    write_json(
        directory / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": settings.pooling == "cls",
            "pooling_mode_mean_tokens": settings.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
