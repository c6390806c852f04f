"""What taggers say of words, as it is compared from one way to ask to another.

W words of a text, S tokens, C tags. A word that is beyond the longest input has NaN, and is compared with nothing.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import TokenClassificationPipeline, pipeline

from hf_albert_plus.engines.padding import OFFSETS
from hf_albert_plus.tasks.word_pieces import UNSEEN, first_pieces, joined


def pieces_of(sentence: Sequence[str], row: dict[str, Any]) -> list[int]:
    """The place of each word's first piece in a row of tokens, or `UNSEEN`."""
    text, spans = joined(sentence)
    return first_pieces(text, row[OFFSETS], spans)


def of_words(tokens_SC: torch.Tensor, pieces: Sequence[int]) -> torch.Tensor:
    """What is said of each word, `[W, C]`: what is said of its first piece."""
    places_W = torch.tensor(pieces)
    words_WC = tokens_SC[places_W].clone()
    words_WC[places_W == UNSEEN] = torch.nan
    return words_WC


def in_both(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """All texts' or words' values, `[n, C]` twice, where both have some."""
    one, other = (torch.cat([value.reshape(-1, value.shape[-1]) for value in each]) for each in (some, others))
    kept = one.isfinite().all(dim=-1) & other.isfinite().all(dim=-1)
    return one[kept], other[kept]


def best_alone(scores_WC: torch.Tensor) -> torch.Tensor:
    """The score of each word's best tag, and 0 for all other tags: as much as a server says."""
    best_W1 = scores_WC.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores_WC).scatter(-1, best_W1, scores_WC.gather(-1, best_W1))


def served_tags(prediction: dict[str, Any], labels: Sequence[str]) -> torch.Tensor:
    """A server's answer to a text in that form."""
    words = prediction["words"]
    scores_WC = torch.zeros(len(words), len(labels), dtype=torch.float64)
    for place, word in enumerate(words):
        score = word["score"]
        scores_WC[place, list(labels).index(word["tag"])] = torch.nan if score is None else score
    return scores_WC


class _LogitsPipeline(TokenClassificationPipeline):
    """transformers' own pipeline, which gives the logits of a text's tokens in the place of labels."""

    def postprocess(self, all_outputs: Any, *_: Any, **__: Any) -> torch.Tensor:  # type: ignore[override]
        (of_text,) = all_outputs
        logits_SC: torch.Tensor = of_text["logits"][0][of_text["attention_mask"][0].bool()]
        return logits_SC


def logits_by_pipeline(
    engine: Any, tokenizer: Any, texts: Sequence[str], *, max_length: int, batch_size: int
) -> list[torch.Tensor]:
    """The logits of the tokens of texts in batches, `[S, C]` of each."""
    tokenizer.model_max_length = max_length
    runs: Any = pipeline("token-classification", model=engine, tokenizer=tokenizer, pipeline_class=_LogitsPipeline)
    answers: list[torch.Tensor] = runs(list(texts), batch_size=batch_size)
    return answers
