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
        "the-rest-never-comes",
        "What leads stays as it was after its first passes.",
        "            self.finish(waiting)",
        "            pass",
        (
            "test_the_rest_waits_where_a_shape_holds_after_its_first_passes",
            "test_there_is_time_left_for_the_rest_of_what_leads",
        ),
    ),
    Fault(
        "no-time-for-the-rest",
        "Shapes begin in the time that the rest of what leads needs.",
        "return self.waiting_leader() is None or self.time.left_s >= self.time.beginning_s() + self._kept_s()",
        "return True",
        ("test_there_is_time_left_for_the_rest_of_what_leads",),
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
    Fault(
        "one-setback-ends-all",
        "A candidate that cannot be exported ends the search.",
        "SETBACKS = (InvalidInput, ParityError, InvarianceError, QuantisationError)",
        "SETBACKS = (InvalidInput,)",
        ("test_what_cannot_be_exported_is_left_and_the_search_goes_on",),
    ),
    Fault(
        "shared-blocks-stored-often",
        "A block that layers share counts once a layer in the size of a file.",
        "return max(1, round(of_layers * kept * sum(sizes[block] for block in blocks)))",
        "return max(1, round(of_layers * kept * sum(sizes[block] for block in layer_map)))",
        ("test_a_block_that_layers_share_is_stored_once",),
    ),
    Fault(
        "slower-than-is-asked",
        "Shapes are tried that are too slow for what is asked.",
        "return wanted if wanted <= self.useful else None",
        "return wanted",
        ("test_nothing_slower_than_is_of_use_is_tried",),
    ),
    Fault(
        "slow-shapes-stay",
        "A shape that comes out slower than is asked is followed by none.",
        "ms *= _AIMED * share_of_asked(made[0], self.budget)",
        "return",
        ("test_a_shape_that_comes_out_slower_than_is_asked_is_followed_by_smaller_ones",),
    ),
)
