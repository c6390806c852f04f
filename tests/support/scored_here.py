"""Batch scoring without a cluster."""

from contextlib import nullcontext

from hf_albert_plus.batch_scoring import distribution, stage


def score_in_this_process(monkeypatch):
    """Lets parts be scored one after the other in this process."""

    def score_parts(parts, job, pool):
        scorer = distribution.PartScorer(job, cores=1)
        for part in parts:
            yield from distribution.outcomes([scorer({"part": [distribution.as_item(part)["part"]]})])

    monkeypatch.setattr(stage, "cluster", lambda pool: nullcontext(pool))
    monkeypatch.setattr(stage, "score_parts", score_parts)
