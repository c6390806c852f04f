"""The trials of a search in Optuna's storage: what a second run of it finds of the first one's proposals."""

import optuna
import pytest

from hf_albert_plus.search.shapes import Slimmed
from hf_albert_plus.search.study_log import StudyLog, TriedProposal

GIVEN = {"layers": 6, "slowest": 2.0, "fastest": 0.1, "seed": 1, "asked": "at most 1 point lost"}


def trials(folder):
    study = optuna.load_study(study_name="albert-plus compress", storage=f"sqlite:///{folder / 'optuna.db'}")
    return study.get_trials()


def test_proposals_are_found_again_in_their_order(tmp_path):
    log = StudyLog(tmp_path, **GIVEN)
    log.begin(Slimmed(6, 0.5), ms=1.0)  # of the search's own plan
    log.finish(Slimmed(6, 0.5), score=80.0, speedup=5.0, lost=1.0)
    asked = [log.propose()]
    log.decline("it was tried")
    asked.append(log.propose())
    log.begin(Slimmed(4, 0.3, 64, "layers6-width50"), ms=asked[1].ms)
    log.finish(Slimmed(4, 0.3, 64, "layers6-width50"), score=79.0, speedup=9.0, lost=2.0)
    asked.append(log.propose())
    log.begin(Slimmed(3, 1.0), ms=asked[2].ms)
    log.stop(Slimmed(3, 1.0), score=60.0, why="it was not to be expected that it would hold")

    again = StudyLog(tmp_path, **GIVEN)
    assert again.earlier == [
        TriedProposal(None, pytest.approx(asked[0].ms)),
        TriedProposal(Slimmed(4, 0.3, 64, "layers6-width50"), pytest.approx(asked[1].ms)),
        TriedProposal(Slimmed(3, 1.0), pytest.approx(asked[2].ms)),
    ]
    assert len(trials(tmp_path)) == 4


def test_what_another_budget_declined_or_proposed_is_not_followed(tmp_path):
    """It may be all that is left of a search that found nothing new, and would end the next one at once."""
    log = StudyLog(tmp_path, **GIVEN)
    for _ in range(3):
        log.propose()
        log.decline("it was tried")
    proposal = log.propose()
    log.begin(Slimmed(2, 0.7), ms=proposal.ms)  # and killed

    other = StudyLog(tmp_path, **{**GIVEN, "asked": "at most 3 points lost"})
    assert other.earlier == []
    assert [trial.state.name for trial in trials(tmp_path)] == ["PRUNED"] * 3 + ["FAIL"]
    assert len(StudyLog(tmp_path, **GIVEN).earlier) == 4


def test_a_search_that_was_killed(tmp_path):
    """A proposal in its midst is gone on with in its own trial; what the plan was about fails, and begins again."""
    log = StudyLog(tmp_path, **GIVEN)
    log.begin(Slimmed(6, 0.5), ms=1.0)
    proposal = log.propose()
    log.begin(Slimmed(2, 0.7), ms=proposal.ms)

    again = StudyLog(tmp_path, **GIVEN)
    assert again.earlier == [TriedProposal(Slimmed(2, 0.7), pytest.approx(proposal.ms))]
    again.begin(Slimmed(2, 0.7), ms=proposal.ms)
    again.finish(Slimmed(2, 0.7), score=70.0, speedup=12.0, lost=4.0)
    states = [trial.state.name for trial in trials(tmp_path)]
    assert states == ["FAIL", "COMPLETE"]
    assert trials(tmp_path)[1].values == [70.0, 12.0]
    assert trials(tmp_path)[1].user_attrs["lost"] == 4.0


def test_a_shape_that_was_left_in_the_queue_is_not_taken_for_another(tmp_path):
    log = StudyLog(tmp_path, **GIVEN)
    log.study.enqueue_trial({"layers": 6, "ms": 1.5})  # and killed before it was taken out

    again = StudyLog(tmp_path, **GIVEN)
    again.begin(Slimmed(3, 0.4), ms=0.4)
    again.finish(Slimmed(3, 0.4), score=70.0, speedup=12.0, lost=4.0)
    StudyLog(tmp_path, **GIVEN)
    left, done = trials(tmp_path)
    assert [left.state.name, done.state.name] == ["FAIL", "COMPLETE"]
    assert done.params == {"layers": 3, "ms": pytest.approx(0.4)}
