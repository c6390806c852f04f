"""Windows against brute force."""

from itertools import pairwise

import pytest

from hf_albert_plus.tasks.windows import most_central, windows


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_place_stands_in_a_window_and_neighbours_share_enough(size: int) -> None:
    for length in range(40):
        for overlap in range(size):
            found = windows(length, size=size, overlap=overlap)
            assert sorted({place for span in found for place in span}) == list(range(length))
            if length <= size:
                assert found == [range(length)]
                continue
            assert {len(span) for span in found} == {size}
            shared = [len(set(one) & set(other)) for one, other in pairwise(found)]
            assert min(shared) >= overlap
            assert set(shared[:-1]) <= {overlap}
            # No fewer windows would do.
            assert len(found) == 1 + -(-(length - size) // (size - overlap))


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (4, 4), (4, 5), (4, -1)])
def test_windows_that_do_not_go_on_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        windows(10, size=size, overlap=overlap)


def test_the_most_central_window_by_hand() -> None:
    # 0 1 2 3 4 5
    #     2 3 4 5 6 7
    #       3 4 5 6 7 8
    spans = windows(9, size=6, overlap=4)
    assert spans == [range(6), range(2, 8), range(3, 9)]
    #                                    3: 2 beside it in the first, 1 in the second
    assert most_central(spans) == [0, 0, 0, 0, 1, 1, 2, 2, 2]


def test_the_most_central_window_by_brute_force() -> None:
    for length in range(1, 30):
        for size in range(1, 9):
            for overlap in range(size):
                spans = windows(length, size=size, overlap=overlap)
                for place, number in enumerate(most_central(spans)):
                    beside = [min(place - s.start, s.stop - 1 - place) if place in s else -1 for s in spans]
                    assert beside[number] == max(beside)
                    assert beside.index(max(beside)) == number
