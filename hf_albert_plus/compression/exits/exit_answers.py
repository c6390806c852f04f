"""What every exit of a classifier says of rows: the rows are asked once for all thresholds that are looked for."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from ...records.progress import bar
from ...tasks.task import Task
from ...training.collators import TextCollator
from ...training.finetuning import task_rows
from ..settings import CalibrateSettings
from .cross_fitting import FoldedSearch, Score
from .thresholds import SearchRule


class Answers(NamedTuple):
    """Of rows: what each exit and the last layer say, `[J, B, C]`, their labels, and their tokens in the mean."""

    logits_JBC: torch.Tensor
    labels: list[Any]
    length: float


@dataclass
class AnswersOfExits:
    """The answers of one classifier to the rows of one split, and the thresholds that were tried on them, once they were asked for."""

    known: Answers | None = None
    searched: FoldedSearch | None = None

    def search(self, rule: SearchRule, *, score: Score, settings: CalibrateSettings) -> FoldedSearch:
        """What finds thresholds on the answers, which must be known."""
        assert self.known is not None
        if self.searched is None:
            logits_JBC, labels, _ = self.known
            folds, seed = settings.folds, settings.seed
            self.searched = FoldedSearch(logits_JBC, labels=labels, rule=rule, score=score, folds=folds, seed=seed)
        return self.searched

    def of(self, classifier: Any, model: Path, *, data: str, task: Task, settings: CalibrateSettings) -> Answers:
        """
        Args:
            model: the classifier's directory.
        """
        if self.known is None:
            tokenizer, rows = task_rows(
                model,
                classifier.config,
                data=data,
                task=task,
                max_length=settings.max_length,
                split=settings.split or task.judging_split,
            )
            bare = rows.remove_columns(["labels", "length"])
            logits_JBC = exit_logits(classifier, bare, tokenizer, settings.batch_size)
            self.known = Answers(logits_JBC, rows["labels"][:], fmean(rows["length"][:]))
        return self.known


@torch.no_grad()
def exit_logits(model: Any, rows: Any, tokenizer: Any, batch_size: int) -> torch.Tensor:
    """What every exit and the last layer say of every row, `[J, B, C]`."""
    collator, said = TextCollator(tokenizer), []
    with bar(total=len(rows), description="every exit of every row") as progress:
        for start in range(0, len(rows), batch_size):
            members = [rows[index] for index in range(start, min(start + batch_size, len(rows)))]
            output = model(**collator(members), output_exits=True)
            said.append(torch.stack([*output.exit_logits, output.logits]))
            progress.update(len(members))
    return torch.cat(said, dim=1)
