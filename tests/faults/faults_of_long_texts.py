"""Faults of texts that are longer than a model takes."""

from tests.faults.fault import Fault

LONG_TEXTS: tuple[Fault, ...] = (
    Fault(
        "sum-of-windows",
        "Answers to windows are added, not averaged.",
        "(numpy.add.reduceat(logits_WC, firsts, axis=0) / counts[:, None])",
        "numpy.add.reduceat(logits_WC, firsts, axis=0)",
        ("test_answers_are_joined_by_hand", "test_everything_that_asks_says_the_same"),
    ),
    Fault(
        "least-of-windows",
        "A label holds of a text only where every window shows it.",
        "numpy.maximum.reduceat(logits_WC, firsts, axis=0)",
        "numpy.minimum.reduceat(logits_WC, firsts, axis=0)",
        ("test_answers_are_joined_by_hand", "test_thresholds_are_fitted_to_answers_of_texts"),
    ),
    Fault(
        "first-window",
        "A word has the tag of the first window that it stands in.",
        "_beside(place, spans[number + 1]) > _beside(place, spans[number])",
        "_beside(place, spans[number]) < 0",
        ("test_the_most_central_window_by_hand", "test_tags_are_those_of_the_most_central_window"),
    ),
    Fault(
        "head-for-tail",
        "Of a long text three quarters of the beginning are read, and a quarter of the end.",
        "_HEAD = 128 / 510",
        "_HEAD = 382 / 510",
        ("test_head_and_tail_are_the_papers_at_its_length", "test_the_beginning_and_the_end_of_a_text_decide"),
    ),
    Fault(
        "aligned-ends",
        "Interpolated positions go from the first old one to the last, and pass by those between.",
        "* len(table_PE) / count",
        "* (len(table_PE) - 1) / (count - 1)",
        ("test_positions_lie_between_the_old_ones", "test_all_but_the_positions_stays"),
    ),
)
