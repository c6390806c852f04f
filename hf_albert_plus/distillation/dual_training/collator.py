"""Rows of words as batches: a mixed sequence for the teacher, the student's own cut for the student."""

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from ...draws import RowDraws
from ...pretraining.masking import IGNORED, MASKED_SHARE
from .segmentation import Pieces, Vocabulary, draw_words, mask_words, mix_words

MIXED = "mixed_"


class DualCollator:
    """Cuts and masks rows anew each time.

    The columns with `mixed_` before their names are the teacher's: `mixed_by_student` says which pieces the student's
    vocabulary cut. Special tokens there are the teacher's, and the same words are masked for both.

    Args:
        share: probability that a word of the teacher's sequence is cut by the student's tokenizer (the paper's p_DT).
    """

    def __init__(self, *, teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase, share: float, seed: int):
        self.teacher, self.student = teacher, student
        self.share = share
        self.draws = RowDraws(seed)
        self.vocabularies = _vocabulary(teacher), _vocabulary(student)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        sequences: list[dict[str, torch.Tensor]] = []
        for row in rows:
            cuts = row["teacher_pieces"], row["student_pieces"]
            count = len(row["student_pieces"])
            generator = self.draws.generator([piece for pieces in row["student_pieces"] for piece in pieces])
            masked = draw_words(count, MASKED_SHARE, generator=generator)
            by_student = draw_words(count, self.share, generator=generator)
            mixed = self._sequence(mix_words(*cuts, by_student), masked, self.teacher, generator)
            own = self._sequence(mix_words(*cuts, [True] * count), masked, self.student, generator)
            del own["by_student"]
            sequences.append({**own, **{MIXED + name: values for name, values in mixed.items()}})
        return {name: self._pad(name, [sequence[name] for sequence in sequences]) for name in sequences[0]}

    def _sequence(
        self, pieces: Pieces, masked: list[bool], tokenizer: PreTrainedTokenizerBase, generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        teacher, student = self.vocabularies
        ids, labels = mask_words(pieces, masked, teacher=teacher, student=student, generator=generator)
        return {
            "input_ids": torch.tensor([tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]),
            "attention_mask": torch.ones(len(ids) + 2, dtype=torch.long),
            "labels": torch.tensor([IGNORED, *labels, IGNORED]),
            "by_student": torch.tensor([False, *pieces.by_student, False]),
        }

    def _pad(self, name: str, values: list[torch.Tensor]) -> torch.Tensor:
        tokenizer = self.teacher if name.startswith(MIXED) else self.student
        padding: Any = {"input_ids": tokenizer.pad_token_id, "labels": IGNORED}.get(name.removeprefix(MIXED), 0)
        return pad_sequence(values, batch_first=True, padding_value=padding)


def _vocabulary(tokenizer: Any) -> Vocabulary:
    return Vocabulary(len(tokenizer), tokenizer.mask_token_id)


__all__ = ["MIXED", "DualCollator"]
