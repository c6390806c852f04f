"""Terms: the pure losses, applied to what student and teacher computed for a batch. A phase adds them up by weight."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from transformers.modeling_outputs import TokenClassifierOutput

from ..model_inputs import IGNORED
from . import losses
from .capture import Capture, Need


@dataclass(frozen=True)
class Batch:
    """What the terms of a phase see.

    Attributes:
        student, teacher: what each computed; the teacher is None where only its `teacher_logits` are read, or nothing.
        teacher_logits: `[B, C]`, `[B, S, C]` of tags, `[B, S, 2]` of spans, or `[B, S, V]` of a masked language model.
        mask_BS: 1 at real tokens.
        labels: of the rows `[B]`, or of masked or tagged tokens `[B, S]` with -100 elsewhere and -1 at words without a tag; None where
            there are none.
        layers: the teacher's layer, from 1, for each of the student's.
        projections: learned maps from the student's to the teacher's width, by name; absent where widths agree.
        depths: the layers, from 1, that the student's exits and its classifier follow.
        has_several_labels: whether any number of labels may hold of a row.
        labelled_B: which rows have a label; None where all do.
        orders_B: of the two segments of a row, as `text.formats.Example` has it; None where rows have one segment.
        has_spans: whether logits are of the start and the end of a span.
        teacher_vectors: `[B, W]` of a sentence encoder that was asked before; None where it is run, or gives none.
    """

    student: Capture
    teacher: Capture | None
    teacher_logits: Any
    mask_BS: torch.Tensor
    labels: Any
    layers: tuple[int, ...]
    projections: Any
    depths: tuple[int, ...]
    has_several_labels: bool = False
    labelled_B: torch.Tensor | None = None
    orders_B: torch.Tensor | None = None
    has_spans: bool = False
    teacher_vectors: torch.Tensor | None = None

    def classes(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits of classes that exclude each other, `[N, C]`: those of several labels one by one; of tags those of the first pieces of
        words: neither padding nor later pieces; and of spans the real tokens, of which one is the start and one the end."""
        if self.has_spans:
            return losses.span_logits(logits, self.mask_BS)
        if logits.dim() == 3:
            return logits[self.labels != IGNORED]
        return losses.binary_logits(logits) if self.has_several_labels else logits

    @property
    def counted(self) -> torch.Tensor:
        """The tokens whose states are compared one by one: the first pieces of words that are tagged, else all real ones."""
        has_tags = self.labels is not None and isinstance(self.student.output, TokenClassifierOutput)
        return self.labels != IGNORED if has_tags else self.mask_BS

    @property
    def taught(self) -> Capture:
        assert self.teacher is not None, "a phase whose terms read the teacher runs it"
        return self.teacher

    @property
    def taught_vectors(self) -> torch.Tensor:
        """The vectors that the teacher gives or has given."""
        return self.taught.vectors if self.teacher_vectors is None else self.teacher_vectors

    def projection(self, name: str) -> Any:
        return self.projections[name] if name in self.projections else None  # noqa: SIM401 (a ModuleDict has no get)


@dataclass(frozen=True)
class Term:
    """A loss with its weight.

    Attributes:
        needs: what it reads of the student.
        of_teacher: what it reads of the teacher.
        projection: the learned map that it uses, if any.
        paired: whether it reads the layer map.
        reads_tokens: whether its logits are a masked language model's.
        of_texts: whether it reads what a whole text is answered by, which models of tags do not have.
        own_space: whether its learned map is there where widths agree, too.
    """

    weight: float = 1.0
    needs: ClassVar[frozenset[Need]] = frozenset({"logits"})
    of_teacher: ClassVar[frozenset[Need]] = frozenset({"logits"})
    projection: ClassVar[str | None] = None
    paired: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = False
    of_texts: ClassVar[bool] = False
    own_space = False

    def loss(self, batch: Batch) -> torch.Tensor:
        raise NotImplementedError

    @property
    def name(self) -> str:
        words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(self).__name__)
        return words.strip().replace(" ", "_")


@dataclass(frozen=True)
class Labels(Term):
    """The task's own loss against the labels, of the rows that have one: cross-entropy, the mean of those of start and end where they are
    spans, or squared error in regression."""

    of_teacher = frozenset()

    def loss(self, batch: Batch) -> torch.Tensor:
        if batch.labelled_B is None:
            return batch.student.output.loss
        logits = batch.student.logits
        has_label = batch.labels >= 0 if logits.dim() == 3 else batch.labelled_B
        return losses.label_loss(logits[has_label], batch.labels[has_label])


@dataclass(frozen=True)
class SoftTargets(Term):
    """T²·KL(teacher ‖ student) of the classes, of each of several labels, or the mean of that of starts and that of ends, at temperature T
    (Hinton et al. 2015)."""

    temperature: float = 1.0

    def loss(self, batch: Batch) -> torch.Tensor:
        student, teacher = batch.classes(batch.student.logits), batch.classes(batch.teacher_logits)
        return losses.soft_target_loss(student, teacher, temperature=self.temperature)


@dataclass(frozen=True)
class SoftCrossEntropy(Term):
    """T²·cross-entropy with the teacher's classes at temperature T (TinyBERT, eq. 10)."""

    temperature: float = 1.0

    def loss(self, batch: Batch) -> torch.Tensor:
        student, teacher = batch.classes(batch.student.logits), batch.classes(batch.teacher_logits)
        return losses.soft_cross_entropy_loss(student, teacher, temperature=self.temperature)


@dataclass(frozen=True)
class MaskedWords(Term):
    """Cross-entropy of the masked words (BERT)."""

    of_teacher = frozenset()
    reads_tokens = True

    def loss(self, batch: Batch) -> torch.Tensor:
        return losses.masked_lm_loss(batch.student.logits, batch.labels)


@dataclass(frozen=True)
class SoftWords(Term):
    """T²·KL(teacher ‖ student) of the vocabulary at every real token (DistilBERT, section 2), or at the masked ones."""

    temperature: float = 1.0
    masked_only: bool = False
    reads_tokens = True

    def loss(self, batch: Batch) -> torch.Tensor:
        counted_BS = batch.labels != IGNORED if self.masked_only else batch.mask_BS
        return losses.token_soft_target_loss(
            batch.student.logits, batch.teacher_logits, counted_BS, temperature=self.temperature
        )


@dataclass(frozen=True)
class SentenceOrder(Term):
    """Cross-entropy of whether the second segment follows the first (BERT, section 3.1), or whether the two are swapped (ALBERT,
    section 3.1)."""

    of_teacher = frozenset()
    reads_tokens = True

    def loss(self, batch: Batch) -> torch.Tensor:
        assert batch.orders_B is not None, "a phase that asks for the order of segments reads pairs of them"
        return losses.sentence_order_loss(batch.student.output.sop_logits.float(), batch.orders_B)


@dataclass(frozen=True)
class Cosine(Term):
    """1 - cosine of the last hidden states (DistilBERT, section 2)."""

    needs = of_teacher = frozenset({"hidden_states"})
    projection = "hidden"

    def loss(self, batch: Batch) -> torch.Tensor:
        student, teacher = batch.student.hidden_states[-1], batch.taught.hidden_states[-1]
        projection = batch.projection("hidden")
        return losses.cosine_loss(projection(student) if projection else student, teacher, batch.counted)


@dataclass(frozen=True)
class HiddenStates(Term):
    """Squared error of the paired layers' hidden states, summed over the layers (TinyBERT, eq. 8)."""

    needs = of_teacher = frozenset({"hidden_states"})
    projection = "hidden"
    paired = True

    def loss(self, batch: Batch) -> torch.Tensor:
        pairs = zip(batch.student.hidden_states[1:], batch.layers, strict=True)
        return _total(
            losses.hidden_state_loss(
                student, batch.taught.hidden_states[layer], batch.counted, projection=batch.projection("hidden")
            )
            for student, layer in pairs
        )


@dataclass(frozen=True)
class Embeddings(Term):
    """Squared error of the embeddings, as they enter the first layer (TinyBERT, eq. 9)."""

    needs = of_teacher = frozenset({"hidden_states"})
    projection = "embedding"

    def loss(self, batch: Batch) -> torch.Tensor:
        return losses.embedding_loss(
            batch.student.hidden_states[0],
            batch.taught.hidden_states[0],
            batch.counted,
            projection=batch.projection("embedding"),
        )


@dataclass(frozen=True)
class AttentionScores(Term):
    """Squared error of the paired layers' attention before the softmax, summed over the layers (TinyBERT, eq. 7)."""

    needs = of_teacher = frozenset({"attention"})
    paired = True

    def loss(self, batch: Batch) -> torch.Tensor:
        return _total(
            losses.attention_score_loss(_scores(batch.student, m), _scores(batch.taught, layer - 1), batch.mask_BS)
            for m, layer in enumerate(batch.layers)
        )


@dataclass(frozen=True)
class PatientStates(Term):
    """Squared error of what heads read of the paired layers, the last one left out (PKD, eq. 7, on first tokens; on the mean of the
    tokens where the model is read by it)."""

    normalise: bool = True
    of_texts = True
    needs = of_teacher = frozenset({"hidden_states"})
    projection = "hidden"
    paired = True

    def loss(self, batch: Batch) -> torch.Tensor:
        if len(batch.layers) < 2:
            return batch.student.hidden_states[0].new_zeros(())
        student = batch.student.read(slice(1, -1), batch.mask_BS)
        teacher = batch.taught.read(batch.layers[:-1], batch.mask_BS)
        projection = batch.projection("hidden")
        return losses.patient_loss(projection(student) if projection else student, teacher, normalise=self.normalise)


@dataclass(frozen=True)
class Relations(Term):
    """KL of softmax(A·Bᵀ/√D) in the last layer, summed over the pairs of A and B (MiniLM, eq. 3 to 5; MiniLMv2, eq. 2).

    Attributes:
        of: pairs of letters: `qk` and `vv` are MiniLM's; `qq`, `kk` and `vv` v2's.
        heads: relation heads that the states are split into anew (v2); 0 keeps the model's own.
        teacher_layer: the teacher's layer, from 1; 0 is its last.
    """

    of: tuple[str, ...] = ("qk", "vv")
    heads: int = 0
    teacher_layer: int = 0
    needs = of_teacher = frozenset({"attention"})

    def loss(self, batch: Batch) -> torch.Tensor:
        return _total(
            losses.relation_loss(
                self._pair(batch.student, pair, -1),
                self._pair(batch.taught, pair, self.teacher_layer - 1),
                batch.mask_BS,
            )
            for pair in self.of
        )

    def _pair(self, seen: Capture, pair: str, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        states = {"q": seen.queries, "k": seen.keys, "v": seen.values}
        left, right = (states[letter][layer] for letter in pair)
        if self.heads:
            return losses.split_heads(left, self.heads), losses.split_heads(right, self.heads)
        return left, right


@dataclass(frozen=True)
class FeatureMaps(Term):
    """Squared error of the normalised feature maps of some layers, from 1 (MobileBERT, eq. 2)."""

    of_layers: tuple[int, ...] = ()
    needs = of_teacher = frozenset({"hidden_states"})
    projection = "hidden"
    paired = True

    def loss(self, batch: Batch) -> torch.Tensor:
        projection = batch.projection("hidden")
        students, teachers = batch.student.hidden_states, batch.taught.hidden_states
        return _total(
            self.compare(
                projection(students[m]) if projection else students[m], teachers[batch.layers[m - 1]], batch.counted
            )
            for m in self.of_layers
        )

    def compare(self, student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
        """One layer's maps."""
        return losses.feature_map_loss(student_BSH, teacher_BSH, mask_BS)


@dataclass(frozen=True)
class FeatureMeans(FeatureMaps):
    """Squared difference of the means of some layers' feature maps (MobileBERT's release)."""

    def compare(self, student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
        return losses.feature_statistics_losses(student_BSH, teacher_BSH, mask_BS)[0]


@dataclass(frozen=True)
class FeatureVariances(FeatureMaps):
    """Difference of the variances of some layers' feature maps (MobileBERT's release)."""

    def compare(self, student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
        return losses.feature_statistics_losses(student_BSH, teacher_BSH, mask_BS)[1]


@dataclass(frozen=True)
class AttentionTransfer(Term):
    """Cross-entropy of the attention of some layers, from 1 (MobileBERT, eq. 3)."""

    of_layers: tuple[int, ...] = ()
    needs = of_teacher = frozenset({"attention"})
    paired = True

    def loss(self, batch: Batch) -> torch.Tensor:
        return _total(
            losses.attention_transfer_loss(
                _scores(batch.student, m - 1), _scores(batch.taught, batch.layers[m - 1] - 1), batch.mask_BS
            )
            for m in self.of_layers
        )


@dataclass(frozen=True)
class Exits(Term):
    """KL of every exit to the model's own last layer, summed over the exits (FastBERT, eq. 8)."""

    of_texts = True
    needs = frozenset({"logits", "exits"})
    of_teacher = frozenset()

    def loss(self, batch: Batch) -> torch.Tensor:
        exits = [batch.classes(logits.float()) for logits in batch.student.output.exit_logits]
        return losses.self_distillation_loss(exits, batch.classes(batch.student.logits))


@dataclass(frozen=True)
class ExitsByDepth(Term):
    """The task's loss at every exit and the last layer, weighted by depth (PABEE, eq. 5)."""

    of_texts = True
    needs = frozenset({"logits", "exits"})
    of_teacher = frozenset()

    def loss(self, batch: Batch) -> torch.Tensor:
        logits = [*batch.student.output.exit_logits, batch.student.logits]
        return losses.exits_by_depth_loss([each.float() for each in logits], batch.depths, batch.labels)


@dataclass(frozen=True)
class TwoTowers(Term):
    """T²·cross-entropy of the pair's score with the cross-encoder's (TwinBERT, section 3.4)."""

    temperature: float = 1.0
    of_texts = True

    def loss(self, batch: Batch) -> torch.Tensor:
        return losses.two_tower_loss(batch.student.logits, batch.teacher_logits, temperature=self.temperature)


def _total(terms: Any) -> torch.Tensor:
    return torch.stack(list(terms)).sum()


def _scores(seen: Capture, layer: int) -> torch.Tensor:
    return losses.attention_scores(seen.queries[layer], seen.keys[layer])
