"""GLUE's metrics in points (100 is perfect), computed by scikit-learn and scipy."""

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.glue import Task


def predictions(logits: numpy.ndarray, task: Task) -> numpy.ndarray:
    """Logits `[examples, num_labels]` -> label ids, or the one value for regression, `[examples]`."""
    return logits[:, 0] if task.is_regression else logits.argmax(axis=-1)


def compute_metrics(logits: numpy.ndarray, labels: numpy.ndarray, task: Task) -> dict[str, float | None]:
    """The task's metrics, its score first.

    Args:
        logits: `[examples, num_labels]`.
        labels: `[examples]`.

    Returns:
        Metric name -> points. None where the metric is not defined: a correlation of constant predictions.

    Raises:
        InvalidInput: no examples, or logits that are not finite.
    """
    if len(labels) == 0:
        raise InvalidInput("a score needs examples", got="none", repair="choose a split with rows")
    if not numpy.isfinite(logits).all():
        raise InvalidInput(
            "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
        )
    predicted = predictions(logits, task)
    return {name: _METRICS[name](predicted, labels) for name in task.metrics}


def _accuracy(predicted: numpy.ndarray, labels: numpy.ndarray) -> float:
    from sklearn.metrics import accuracy_score

    return 100 * float(accuracy_score(labels, predicted))


def _f1(predicted: numpy.ndarray, labels: numpy.ndarray) -> float:
    from sklearn.metrics import f1_score

    return 100 * float(f1_score(labels, predicted, zero_division=0))


def _matthews(predicted: numpy.ndarray, labels: numpy.ndarray) -> float:
    from sklearn.metrics import matthews_corrcoef

    return 100 * float(matthews_corrcoef(labels, predicted))


def _pearson(predicted: numpy.ndarray, labels: numpy.ndarray) -> float | None:
    from scipy.stats import pearsonr

    return 100 * float(pearsonr(predicted, labels).statistic) if _vary(predicted, labels) else None


def _spearman(predicted: numpy.ndarray, labels: numpy.ndarray) -> float | None:
    from scipy.stats import spearmanr

    return 100 * float(spearmanr(predicted, labels).statistic) if _vary(predicted, labels) else None


def _vary(*series: numpy.ndarray) -> bool:
    return all(len(values) > 1 and numpy.ptp(values) > 0 for values in series)


_METRICS = {"accuracy": _accuracy, "f1": _f1, "matthews": _matthews, "pearson": _pearson, "spearman": _spearman}

__all__ = ["compute_metrics", "predictions"]
