"""What makes and measures candidates: each step is a stage of this package with a directory and a record of its own, so that a search that was
stopped goes on where it was, and every candidate can be made again by its commands."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.eval.measured_documents import Scores, read_scores
from hf_albert_plus.eval.scoring import SCORES, score
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.stage import export

from ..compression.exits.exit_answers import AnswersOfExits
from ..compression.exits.stage import calibrate_exits
from ..compression.pruning import prune
from ..compression.ranking import Ranking
from ..compression.settings import CalibrateSettings, PruneSettings
from ..configuration_albert_plus import DROPOUTS
from ..conversion.stage import convert
from ..distillation.settings import DEFAULT, DistilSettings, PhaseTraining, StudentSettings
from ..distillation.stage import check_distillation, distill
from ..records.files import read_kept, write_json
from ..records.record import Record, read_record
from ..tasks.task import Task
from .ctrl_c import CtrlC
from .divergence import measure_divergence
from .paces import Paces, measure_paces
from .passes import Passes
from .set_aside import DividedRows
from .setbacks import SETBACKS
from .settings import CompressSettings
from .shapes import Slimmed
from .side_by_side import run_side_by_side
from .tried import TEACHER

RUNTIME, WITH_EXITS = "onnx-int8", "onnx-int8-exits"
_BEGUN, _TAUGHT, _EXITS = "begun", "taught", "exits"
_RANKINGS, _SAVED = "rankings", "saved-by-jobs.json"
# Of a candidate's passes, those after which the shapes of one speed are compared.
FIRST_SHARE = 0.25
# A student that is smaller than its teacher, and learns what that says, has no more to learn than it can hold.
_WITHOUT_DROPOUT = tuple((name, 0.0) for name in DROPOUTS)
# The peak rate, found on candidates of this width. With Adam the rate that suits a layer falls as it becomes wider
# (Yang et al. 2022, Tensor Programs V, table 3).
_RATE, _WIDTH = 3e-4, 384
# Training examples that layers, heads and columns are ranked by.
_RANKED_BY, _RANKED_FOR_TIMES = 512, 32
# Exits learn alone; the encoder below them stays as it is.
_EXITS_RATE = 1e-3


# When texts leave, and after which layers they may.
Threshold = tuple[float, tuple[int, ...]]


@dataclass(frozen=True)
class Workshop:
    """The teacher, the data and the settings that all candidates share.

    Attributes:
        teacher: directory of the classifier.
        whole: the same as an ALBERT-plus model, which candidates start from.
        guide: what candidates learn from: the teacher, or what it is with the vocabulary that candidates have.
        data, task: whose validation rows judge.
        rows: what candidates learn from, and what thresholds are found on.
        depth, width: layers of the teacher, and its hidden size.
        passes: of a candidate over what it learns from.
        out: where the candidates' directories are made.
        unlabelled: more texts that candidates learn from, given or made up.
        records: of every stage that was run or found done, in their order.
        saved_s: seconds that stages took less, together, as they ran side by side.
        taught: name -> shape and directory of each candidate that was finished.
        students: name -> directory of each student that was given and has learned the task.
        answers: of models of the rows set aside, by directory, so that the teacher is asked once.
        ctrl_c: is obeyed after every stage.
    """

    teacher: Path
    whole: Path
    guide: Path
    data: str
    task: Task
    rows: DividedRows
    depth: int
    width: int
    passes: Passes
    out: Path
    settings: CompressSettings
    threads: int | None
    unlabelled: str | None = None
    records: list[Record] = field(default_factory=list)
    saved_s: list[float] = field(default_factory=list)
    taught: dict[str, tuple[Slimmed, Path]] = field(default_factory=dict)
    students: dict[str, Path] = field(default_factory=dict)
    answers: dict[Path, torch.Tensor] = field(default_factory=dict)
    ctrl_c: CtrlC = field(default_factory=CtrlC)

    @property
    def spent_s(self) -> float:
        """Seconds that all stages took, in whichever run they were made; those that ran side by side in this one as long as they took
        together."""
        return sum(record.seconds for record in self.records) - sum(self.saved_s)

    def start(self, shape: Slimmed) -> Path:
        """What a shape is cut from, the teacher or a candidate that was finished, without what it leaves out."""
        directory = self.out / shape.name
        base, source = (Slimmed(self.depth, 1.0), self.whole) if shape.base is None else self.taught[shape.base]
        ranking = self.out / _RANKINGS / f"{shape.base or TEACHER}.safetensors"
        source = self._cut(source, shape, base=base, output=directory / "cut", ranking=ranking)
        overrides: dict[str, Any] = {}
        if shape.embedding_size != base.embedding_size:
            overrides["embedding_size"] = shape.embedding_size
        if shape.rank != base.rank:
            overrides |= {"attention_sharing": "all", "ffn_sharing": "all", "layer_rank": shape.rank}
        if not overrides:
            return source
        smaller = directory / "smaller"
        self._done(
            convert(str(source), output=smaller, overrides=overrides, data=str(self.rows.data), task=self.rows.task)
        )
        return smaller

    def cut_to_be_timed(self, shape: Slimmed) -> Path:
        """A shape of the teacher that nothing will be learned from: which of its parts go does not matter."""
        whole, output = Slimmed(self.depth, 1.0), self.out / "shapes" / shape.name / "cut"
        return self._cut(self.whole, shape, base=whole, output=output, ranking=None)

    def _cut(self, source: Path, shape: Slimmed, *, base: Slimmed, output: Path, ranking: Path | None) -> Path:
        """What is left of a source where only the layers, heads and columns of a shape stay; itself where all of them do.

        Args:
            ranking: file of what is known of the source's parts; None where any layers may go, and few examples tell of heads and columns.
        """
        if shape.layers == base.layers and shape.width == base.width:
            return source
        settings = PruneSettings(
            heads=round(1 - shape.heads / base.heads, 4),
            columns=round(1 - shape.width / base.width, 4),
            depth=None if shape.layers == base.layers else shape.layers,
            examples=_RANKED_FOR_TIMES if ranking is None else _RANKED_BY,
            epochs=1,
            batch_size=self.task.batch_size,
            max_length=self.settings.max_length,
            seed=self.settings.seed,
        )
        known = Ranking(gone=list(range(base.layers))[::-1]) if ranking is None else Ranking.read(ranking)
        self._done(
            prune(
                str(source),
                data=str(self.rows.data),
                task=self.rows.task,
                output=output,
                settings=settings,
                ranking=known,
            )
        )
        if ranking is not None:
            known.write(ranking)
        return output

    def ahead(self, work: Callable[[Any], object], items: Sequence[Slimmed]) -> None:
        """Has several candidates' stages made side by side, where jobs are asked for; whoever asks for them then finds them done.

        Args:
            work: one of this workshop's own, of one argument.
        """
        jobs, address = self.settings.jobs, self.settings.address
        if len(items) < 2 or jobs < 2:
            return
        began, before = datetime.now(timezone.utc).isoformat(timespec="seconds"), len(self.records)
        took = run_side_by_side(work, items, jobs=jobs, address=address)
        for item in items:
            with suppress(*SETBACKS):  # it is told of when its turn comes
                work(item)
        made = sum(record.seconds for record in self.records[before:] if record.finished >= began)
        self.saved_s.append(self._keep_saved(items, max(0.0, made - took)))

    def _keep_saved(self, items: Sequence[Slimmed], seconds: float) -> float:
        """What shapes that began together saved, in whichever run they were made: a search that goes on finds them done."""
        path, name = self.out / _SAVED, " ".join(sorted(item.name for item in items))
        known = read_kept(path, what="the seconds saved", shape=dict[str, float])
        if seconds > known.get(name, 0.0):
            known[name] = seconds
            write_json(path, known)
        return known.get(name, 0.0)

    def begin(self, shape: Slimmed) -> Path:
        """A candidate after its first quarter, by which it is compared with others."""
        return self._learn(self.start(shape), self.begun(shape.name), epochs=FIRST_SHARE * self.passes.count)

    def finish(self, shape: Slimmed) -> Path:
        """A candidate that learned all that it is given."""
        taught = self._learn(
            self.begun(shape.name), self.out / shape.name / _TAUGHT, epochs=(1 - FIRST_SHARE) * self.passes.count
        )
        self.taught[shape.name] = (shape, taught)
        return taught

    def was_made(self, directory: Path) -> bool:
        """Whether a stage is whole, in whichever run."""
        return directory.is_dir()

    def was_taught(self, name: str) -> bool:
        """Whether a shape learned all that it is given, in whichever run."""
        return self.was_made(self.out / name / _TAUGHT)

    def has_exits(self, name: str) -> bool:
        """Whether a candidate was given exits, in whichever run."""
        return self.was_made(self.out / name / _EXITS)

    def begun(self, name: str) -> Path:
        """A shape after its first passes."""
        return self.out / name / _BEGUN

    def learn_on(self, shape: Slimmed, *, source: Path, name: str, passes: float) -> Path:
        """A shape that learns more than the others: the candidate of a name."""
        taught = self._learn(source, self.out / name / _TAUGHT, epochs=passes)
        self.taught[name] = (shape, taught)
        return taught

    def record_of(self, made: Path) -> Record:
        return read_record(made)

    def check_student(self, student: str) -> None:
        """
        Raises:
            InvalidInput: a student that cannot learn this task from this teacher.
        """
        check_distillation(method=self._method(student, epochs=self.passes.count), **self._distillation())

    def teach(self, name: str, student: str) -> Path:
        """A student that was given, after all passes."""
        taught = self._learn(Path(student), self.out / name / _TAUGHT, epochs=self.passes.count)
        self.students[name] = taught
        return taught

    def _learn(self, student: Path, output: Path, *, epochs: float) -> Path:
        return self._distil(self._method(str(student), epochs=epochs), output)

    def _method(self, student: str, *, epochs: float) -> DistilSettings:
        return DistilSettings(
            method=DEFAULT,
            student=StudentSettings(student=student, overrides=_WITHOUT_DROPOUT),
            epochs=epochs,
            learning_rate=self.settings.learning_rate or _RATE * min(1.0, _WIDTH / self.width),
            unlabelled=self.unlabelled,
        )

    def _distil(self, method: DistilSettings, output: Path) -> Path:
        self._done(distill(output=output, method=method, **self._distillation()))
        return output

    def _distillation(self) -> dict[str, Any]:
        """What all distillations of a search have in common."""
        training = PhaseTraining(
            batch_size=self.task.batch_size,
            max_length=self.settings.max_length,
            seed=self.settings.seed,
            precision=self.settings.precision,
            report_to=self.settings.report_to,
        )
        return {
            "teacher": str(self.guide),
            "data": str(self.rows.data),
            "task": self.rows.task,
            "settings": training,
        }

    def learn_exits(self, taught: Path, name: str) -> Path:
        """Exits on the candidate of a name, which was finished and stays as it is."""
        method = DistilSettings(
            method="fastbert",
            phases="exits",
            student=StudentSettings(student=str(taught)),
            epochs=self.passes.exits,
            learning_rate=_EXITS_RATE,
        )
        return self._distil(method, self.out / name / _EXITS)

    def calibrate(
        self,
        exits: Path,
        output: Path,
        *,
        max_drop: float,
        scorer: Callable[[Any, list[Any]], float],
        answered: AnswersOfExits,
    ) -> tuple[Path, Threshold]:
        """A candidate whose texts leave early, by a threshold of the rows that are set aside.

        Args:
            max_drop: points that this may lose there.
            answered: what these exits say, as far as they were asked.
        """
        settings = CalibrateSettings(max_drop=max_drop, max_length=self.settings.max_length, seed=self.settings.seed)
        if self.task.is_regression:
            settings = replace(settings, criterion="patience")
        record = calibrate_exits(
            exits,
            data=str(self.rows.data),
            task=self.rows.task,
            output=output,
            settings=settings,
            score=scorer,
            answered=answered,
        )
        self._done(record)
        return output, (record.result["threshold"], tuple(record.result["layers"]))

    def export(self, trained: Path, output: Path, *, to: str = RUNTIME) -> Path:
        self._done(export(trained, to=[to], output=output))
        return output

    def score(self, target: Target, output: Path) -> Scores:
        """What a target says of the rows that judge, and its scores."""
        settings = EvalSettings(max_length=self.settings.max_length, every_split=False)
        self._done(
            score([target], data=self.data, task=self.task, output=output, settings=settings, threads=self.threads)
        )
        return read_scores(output / SCORES)

    def divergence(self, candidate: Path, output: Path) -> float:
        """How far a candidate's answers are from those that it learns from, on the rows set aside."""
        divergence, record = measure_divergence(
            candidate,
            self.guide,
            answered=self.answers,
            rows=self.rows,
            output=output,
            max_length=self.settings.max_length,
            precision=self.settings.precision,
        )
        self._done(record)
        return divergence

    def paces(self, target: Target, output: Path, *, baseline: Target) -> Paces:
        """How fast a target is beside another one, on the rows that judge."""
        paces, record = measure_paces(
            target,
            baseline,
            data=self.data,
            task=self.task,
            max_length=self.settings.max_length,
            output=output,
            threads=self.threads,
        )
        self._done(record)
        return paces

    def _done(self, record: Record) -> None:
        if record not in self.records:
            self.records.append(record)
        self.ctrl_c.obey()
