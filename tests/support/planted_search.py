"""A workshop of searches whose candidates have planted losses, speeds and times: nothing is trained."""

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import numpy

from hf_albert_plus.errors import ParityError
from hf_albert_plus.eval.resampling import Sample
from hf_albert_plus.search.ctrl_c import CtrlC
from hf_albert_plus.search.narrow_embeddings import bytes_of
from hf_albert_plus.search.paces import Paces
from hf_albert_plus.search.passes import Passes
from hf_albert_plus.search.settings import CompressSettings
from hf_albert_plus.search.shapes import Slimmed
from hf_albert_plus.tasks.glue import get_task

ROWS, LAYERS = 4000, 6
# The teacher in int8 is so much faster than in torch; exits on it or its shapes are so much faster again.
INT8, EXITS = 5.0, 1.5
# Seconds of a whole training of a candidate, and of everything else that is made.
TRAINED, MADE = 400.0, 10.0
# Points that a shape loses more after its first passes, where it holds no budget by then.
LATE = 50.0
CONFIG = SimpleNamespace(
    num_hidden_layers=LAYERS, num_attention_heads=12, attention_heads=[12] * LAYERS, intermediate_sizes=[1536] * LAYERS,
    attention_map=range(LAYERS), ffn_map=range(LAYERS), hidden_size=384, embedding_size=384, vocab_size=30_000, max_position_embeddings=512,
    block_attention_heads=None, block_intermediate_sizes=None, bottleneck_size=None, layer_rank=None, num_feedforward_networks=1,
)  # fmt: skip


class PlantedTime:
    """Every look at the clock is a second later than the last."""

    looks = itertools.count()

    @classmethod
    def now(cls, zone=timezone.utc):
        return datetime(2026, 1, 1, tzinfo=zone) + timedelta(seconds=next(cls.looks))


def relative_time(shape):
    return 0.02 + 0.98 * shape.width * shape.layers / LAYERS


@dataclass
class PlantedShop:
    """A workshop whose stages write nothing. What a candidate loses is read off the directory that it has."""

    out: Path
    settings: CompressSettings
    lost: dict = field(
        default_factory=dict
    )  # name -> points after all passes; others lose a hundred points of their time
    exits_gain: float = EXITS
    least_threshold: float = 0.0  # what may lose less has this one too
    exits_lose: float = 0.8  # of what they may lose on the rows that their thresholds are found on
    alone: float = 1.0  # the power of a speedup in batches that is the speedup of one text at a time
    broken: str = ""  # in the names of what cannot be exported
    first: float = 0.4  # points that a shape loses more after its first passes
    trims: bool = False  # the file has no room for all pieces of the vocabulary
    again: float = 0.0  # points that it loses less after each further round
    longer: float = 0.0  # points that it loses less when it has learned on
    whole_passes: float = 4.0  # that the task takes; a candidate learns four
    done: dict = field(default_factory=dict)  # what was made, in whichever run: directory -> record

    def __post_init__(self):
        self.teacher = self.whole = self.guide = self.out / "teacher-model"
        if self.trims:
            self.guide = self.out / "trimmed-model"
        self.task, self.passes, self.ctrl_c = (
            get_task("sst2"),
            Passes(4.0, self.whole_passes, seconds=TRAINED / 4),
            CtrlC(),
        )
        self.records, self.saved_s, self.taught, self.students = [], [], {}, {}
        self.shapes = dict.fromkeys(("teacher", "trimmed"), Slimmed(LAYERS, 1.0))
        self.rows = SimpleNamespace(data=self.out / "rows")

    spent_s = property(lambda self: sum(each.seconds for each in self.records) - sum(self.saved_s))

    def made(self, stage, directory, seconds=MADE, **settings):
        finished = PlantedTime.now().isoformat(timespec="seconds")
        record = self.done.setdefault(directory, SimpleNamespace(stage=stage, settings=settings, result={}, seconds=seconds, finished=finished))  # fmt: skip
        if not any(each is record for each in self.records):
            self.records.append(record)
        return directory

    def start(self, shape):
        self.shapes[shape.name] = shape
        return self.out / shape.name

    cut_to_be_timed = start

    def ahead(self, work, items):
        pass

    def begin(self, shape):
        self.start(shape)
        return self.made("distill", self.out / shape.name / "begun", TRAINED / 4, epochs=1.0)

    def finish(self, shape):
        taught = self.made("distill", self.out / shape.name / "taught", 3 * TRAINED / 4, epochs=3.0)
        self.taught[shape.name] = (shape, taught)
        return taught

    def was_made(self, directory):
        return directory in self.done

    def was_taught(self, name):
        return self.out / name / "taught" in self.done

    def teach(self, name, student):
        self.shapes[name] = Slimmed(2, 0.5)
        self.students[name] = self.made("distill", self.out / name / "taught", TRAINED, epochs=4.0)
        return self.students[name]

    def begun(self, name):
        return self.out / name / "begun"

    def learn_on(self, shape, *, source, name, passes):
        assert source in self.done
        self.shapes[name] = shape
        taught = self.made("distill", self.out / name / "taught", passes * TRAINED / 4, epochs=passes)
        self.taught[name] = (shape, taught)
        return taught

    def record_of(self, directory):
        return self.done[directory]

    def has_exits(self, name):
        return self.out / name / "exits" in self.done

    def learn_exits(self, model, name):
        return self.made("distill", self.out / name / "exits", MADE, epochs=1.0, phases=["exits"])

    def calibrate(self, exits, output, *, max_drop, scorer, answered):
        return self.made("calibrate", output), (max(max_drop, self.least_threshold), (1,))

    def export(self, trained, output, *, to=None):
        if self.broken and self.broken in output.parent.name and "shapes" not in output.parts:
            raise ParityError([], what="it", rule="says something else", repair="none")
        return self.made("export", output)

    def divergence(self, candidate, output):
        return self.points(self.shapes[candidate.parent.name])

    def points(self, shape):
        lost = self.lost.get(shape.name, max(0.0, 0.1 / relative_time(shape) - 0.5))
        return max(0.0, lost - self.again * (shape.rounds - 1))

    def score(self, target, output):
        self.made("eval", output)
        folder = target.directory
        shape = self.shapes.get(folder.parent.name, Slimmed(LAYERS, 1.0))
        lost = self.points(shape) + (self.first if "begun" in folder.name else 0.0)
        if "-longer" in folder.parent.name:
            lost = max(0.0, lost - self.longer)
        if folder.name.startswith("leaves-early-"):
            lost += self.exits_lose * float(folder.name.removeprefix("leaves-early-"))
        right = ROWS - round(lost * ROWS / 100) - ROWS // 10
        answers = Sample(numpy.array([[1] * right + [0] * (ROWS - right)]), numpy.ones(ROWS, int))
        return SimpleNamespace(answers=answers, score=100 * right / ROWS)

    def paces(self, target, output, *, baseline):
        self.made("paces", output)
        if baseline.name == "torch":
            return Paces(1.0, INT8, 1.0, INT8, round(self.bytes_of(self.shapes["teacher"])))
        ratio = 1 / relative_time(self.shapes[output.parent.name])
        if output.name.startswith("exit-paces"):
            ratio *= self.exits_gain
        alone = ratio**self.alone
        file_bytes = round(self.bytes_of(self.shapes[output.parent.name]))
        return Paces(
            alone_ms=1 / alone, alone_ratio=alone, batches_ms=1 / ratio, batches_ratio=ratio, file_bytes=file_bytes
        )

    def bytes_of(self, shape):
        return 1.02 * bytes_of(shape, CONFIG, width=shape.embedding_size)
