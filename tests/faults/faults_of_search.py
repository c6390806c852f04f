"""Faults of the search for a small model."""

from tests.faults.fault import Fault

SEARCH: tuple[Fault, ...] = (
    Fault(
        "exits-everywhere",
        "Shapes have exits although the teacher gained nothing by them.",
        "return gain_on_teacher(ledger) >= _WORTH_IT",
        "return gain_on_teacher(ledger) >= 0",
        ("test_exits_that_gain_nothing_on_the_teacher_are_not_tried_on_its_shapes",),
    ),
    Fault(
        "exits-with-the-whole-budget",
        "The exits of a shape may lose the whole budget, whatever the shape has lost.",
        "left = _rounded(ledger, left - max(0.0, ledger.losses[name].rank))",
        "left = _rounded(ledger, left)",
        ("test_what_exits_on_a_shape_may_lose_is_what_the_shape_has_left",),
    ),
    Fault(
        "begun-at-any-loss",
        "What has only begun is a candidate when the time ends, whatever it loses.",
        "return is_within(lost, self.budget) and (best is None or begun.ms < self.clock.ms_of(best))",
        "return best is None or begun.ms < self.clock.ms_of(best)",
        ("test_what_has_begun_and_loses_too_much_is_no_candidate",),
    ),
    Fault(
        "shapes-of-others-cost-time",
        "The shapes of another budget's search cost time of this one.",
        "shop.saved_s.append(sum(record.seconds for record in shop.records[before:] if record.finished < began))",
        "pass",
        ("test_another_budget_begins_with_the_shapes_of_the_first",),
    ),
    Fault(
        "dropout",
        "Candidates learn with their teacher's dropout.",
        "StudentSettings(student=student, overrides=_WITHOUT_DROPOUT)",
        "StudentSettings(student=student)",
        ("test_candidates_learn_without_dropout_a_quarter_and_then_the_rest",),
    ),
)
