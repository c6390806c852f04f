"""GLUE's metrics as a module of `evaluate`, offline: `evaluate.load(hf_albert_plus.eval.glue_metric.__file__, "mrpc")`.

Names and values, as fractions of 1, are those of the `glue` metric on the Hub.
"""

import datasets
import evaluate
import numpy

from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.tasks.glue import get_task

_HUB_NAMES = {"matthews": "matthews_correlation", "spearman": "spearmanr"}


class GlueMetric(evaluate.Metric):
    """Metrics of the task in `config_name`; `mnli_matched` and `mnli_mismatched` are MNLI's."""

    @property
    def task(self):
        return get_task(self.config_name.removesuffix("_matched").removesuffix("_mismatched"))

    def _info(self):
        value = datasets.Value("float32" if self.task.is_regression else "int64")
        return evaluate.MetricInfo(
            description="Metrics of the GLUE benchmark.",
            citation="Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform, 2018.",
            inputs_description="predictions and references: label ids, or values for stsb.",
            features=datasets.Features({"predictions": value, "references": value}),
            format="numpy",
        )

    def _compute(self, predictions, references):
        metrics = compute_metrics(numpy.asarray(predictions), numpy.asarray(references), self.task)
        return {
            _HUB_NAMES.get(name, name): float("nan") if points is None else points / 100
            for name, points in metrics.items()
        }
