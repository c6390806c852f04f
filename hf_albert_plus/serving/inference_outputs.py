"""What a model gives under the Open Inference Protocol: its outputs by name with their datatypes, and what the protocol says of them before."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from ..engines.text_answers import AnswerRule, ClassifierFacts, EncoderFacts, ModelFacts, TextAnswers
from ..engines.text_encoder import VECTORS
from .answer_kinds import threshold_of
from .span_outputs import limits_of, outputs_of_spans, tensors_of_spans

# The names of the texts that a request may have, beside the tensors.
TEXTS = ("text", "text_pair")
# Name -> datatype and values.
Outputs = dict[str, tuple[str, numpy.ndarray]]


def outputs_of(answers: TextAnswers, facts: ModelFacts, *, threshold: float | None = None) -> Outputs:
    """Everything that a model gives: the vectors of an encoder; of a classifier logits and scores, the best label or which of several
    labels reach their thresholds; of a model of spans its answers.

    Args:
        threshold: of no answer, that a request asks for.

    Raises:
        Unusable: a threshold that the model does not have.
    """
    if not isinstance(facts, ClassifierFacts):
        return {VECTORS: ("FP32", answers.values.astype(numpy.float32))}
    rule = facts.rule
    if rule.has_spans:
        return outputs_of_spans(answers, threshold_of(rule, threshold))
    if rule.is_by_token:
        return _outputs_by_token(answers, rule)
    exact = rule.scores(answers.values)
    scores = exact.astype(numpy.float32)
    outputs = {"logits": ("FP32", answers.values.astype(numpy.float32)), "scores": ("FP32", scores)}
    if rule.has_best:
        best = numpy.array(rule.labels, dtype=object)[scores.argmax(-1)]
        outputs["label"] = ("BYTES", best)
    elif rule.has_several:
        outputs["given"] = ("BOOL", rule.given(exact))
    return outputs


def _outputs_by_token(answers: TextAnswers, rule: AnswerRule) -> Outputs:
    """What a tagger gives of every token: logits, scores and the best tag, and of texts the characters that the token is of. Rows are as
    long as the longest; logits are 0 beyond their tokens, and say nothing there."""
    longest = max(map(len, answers.values))
    logits = numpy.stack([numpy.pad(each, ((0, longest - len(each)), (0, 0))) for each in answers.values])
    exact = rule.scores(logits)
    outputs = {
        "logits": ("FP32", logits.astype(numpy.float32)),
        "scores": ("FP32", exact.astype(numpy.float32)),
        "tag": ("BYTES", numpy.array(rule.labels, dtype=object)[rule.given(exact)]),
    }
    if answers.offsets:
        offsets = numpy.zeros((len(answers.offsets), longest, 2), dtype=numpy.int64)
        for row, of_text in zip(offsets, answers.offsets, strict=True):
            row[: len(of_text)] = of_text
        outputs["offsets"] = ("INT64", offsets)
    return outputs


def metadata_of(facts: ModelFacts, *, name: str, versions: Sequence[int], refused: Mapping[int, str]) -> dict[str, Any]:
    """What the protocol says of a model. A request has texts (`text`, and `text_pair` for pairs) or the tensors.

    Args:
        refused: version -> why it does not serve.
    """
    outputs, parameters = _of_classifier(facts) if isinstance(facts, ClassifierFacts) else _of_encoder(facts)
    return {
        "name": name,
        "versions": [str(version) for version in sorted(versions)],
        "platform": f"hf-albert-plus_{facts.runtime}",
        "inputs": [
            *({"name": text, "datatype": "BYTES", "shape": [-1]} for text in TEXTS[: None if facts.reads_pairs else 1]),
            *({"name": tensor, "datatype": "INT64", "shape": [-1, -1]} for tensor in facts.inputs),
        ],
        "outputs": outputs,
        "parameters": {
            **parameters,
            "max_length": facts.max_length,
            **({} if facts.long.is_cut else {"long": facts.long.way}),
            "refused": {str(version): why for version, why in sorted(refused.items())},
        },
    }


def _of_classifier(facts: ClassifierFacts) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The outputs and parameters of a classifier."""
    rule, classes = facts.rule, len(facts.rule.labels)
    tokens = [-1] if rule.is_by_token else []
    outputs: list[dict[str, Any]] = [
        {"name": output, "datatype": "FP32", "shape": [-1, *tokens, classes]} for output in ("logits", "scores")
    ]
    if rule.has_spans:
        outputs = tensors_of_spans()
    if rule.is_by_token:
        outputs.append({"name": "tag", "datatype": "BYTES", "shape": [-1, -1]})
        outputs.append({"name": "offsets", "datatype": "INT64", "shape": [-1, -1, 2]})
    if rule.has_best:
        outputs.append({"name": "label", "datatype": "BYTES", "shape": [-1]})
    elif rule.has_several:
        outputs.append({"name": "given", "datatype": "BOOL", "shape": [-1, classes]})
    parameters = {
        "labels": list(rule.labels),
        "problem_type": rule.problem_type,
        **({"thresholds": list(rule.thresholds)} if rule.has_several else {}),
        **({"tag_scheme": rule.scheme} if rule.is_by_token else {}),
        **(limits_of(rule) if rule.has_spans else {}),
    }
    return outputs, parameters


def _of_encoder(facts: EncoderFacts) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The output and parameters of an encoder."""
    outputs = [{"name": VECTORS, "datatype": "FP32", "shape": [-1, facts.dimension]}]
    return outputs, {"matryoshka_dims": list(facts.prefixes), "normalized": facts.is_normalized}
