"""How requests share batches: whose rows go together, in which order, and what becomes of those that fail or leave."""

import asyncio
import threading
import time
from types import SimpleNamespace

import numpy
import pytest

from hf_albert_plus.serving import batcher as batcher_module
from hf_albert_plus.serving.batcher import TokenBatcher
from hf_albert_plus.serving.refusals import NotReady, Overloaded
from hf_albert_plus.serving.settings import ServeSettings


def batched(run, requests, *, in_turn=False, **settings):
    """What each request is answered, and the batches that were made; in turn, a request comes once the one before it was answered."""
    batches = []

    def noted(rows):
        batches.append(list(rows))
        return run(rows)

    async def all_of_them():
        batcher = TokenBatcher(noted, **{"budget": 100, "wait_s": 0.05, "streams": 1, "bound": 10**6, **settings})

        async def one(rows):
            return await batcher.submit(rows, lengths=[row[1] for row in rows])

        if in_turn:
            answers = [await one(rows) for rows in requests]
        else:
            answers = await asyncio.gather(*map(one, requests), return_exceptions=True)
        await batcher.close()
        return answers

    return asyncio.run(all_of_them()), batches


def double(rows):
    return [2 * value for value, _ in rows]


def test_requests_share_batches_and_get_their_own_answers():
    generator = numpy.random.default_rng(0)
    requests = [
        [(int(v), int(n)) for v, n in generator.integers(1, 60, (int(size), 2))]
        for size in generator.integers(1, 30, 40)
    ]
    answers, batches = batched(double, requests, streams=3, budget=200)
    assert answers == [[2 * value for value, _ in rows] for rows in requests]
    assert all(len(rows) * max(length for _, length in rows) <= 200 for rows in batches)
    assert len(batches) < sum(len(rows) for rows in requests)
    assert sorted(row for rows in batches for row in rows) == sorted(row for rows in requests for row in rows)


def test_a_batcher_that_is_closed_says_so_at_once():
    async def ask():
        batcher = TokenBatcher(double, budget=100, wait_s=0.05, streams=1, bound=10**6)
        await batcher.close()
        await asyncio.wait_for(batcher.submit([(1, 10)], lengths=[10]), timeout=5)

    with pytest.raises(NotReady, match="another version has taken the place of this one; ask again"):
        asyncio.run(ask())


def test_a_batch_waits_for_its_deadline_and_no_longer():
    requests = [[(number, 10)] for number in range(3)]
    assert len(batched(double, requests, wait_s=0.2)[1]) == 1
    start = time.monotonic()
    answers, batches = batched(double, requests, wait_s=0.3, in_turn=True)
    assert len(batches) == 3
    assert answers == [[0], [2], [4]]
    assert 3 * 0.3 <= time.monotonic() - start < 2.5
    # A full batch does not wait.
    start = time.monotonic()
    batched(double, [[(1, 50), (2, 50)]], wait_s=60)
    assert time.monotonic() - start < 12


def test_what_fails_fails_alone():
    def run(rows):
        if any(value == 7 for value, _ in rows):
            raise ValueError("seven")
        return double(rows)

    answers, _ = batched(run, [[(1, 90)], [(7, 90)], [(3, 90)]])
    assert answers[0] == [2]
    assert isinstance(answers[1], ValueError)
    assert answers[2] == [6]


def test_more_than_may_wait_is_refused_with_a_time_to_come_back():
    answers, batches = batched(lambda rows: time.sleep(0.05) or double(rows), [[(n, 60)] for n in range(10)], bound=200)
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert 0 < len(refused) < 10
    assert all(error.retry_after_s > 0 for error in refused)
    assert len(batches) == 10 - len(refused)


def test_whoever_leaves_takes_the_rows_along():
    ran, held = [], threading.Event()

    def run(rows):
        ran.extend(rows)
        held.wait(5)
        return double(rows)

    async def leave():
        batcher = TokenBatcher(run, budget=10, wait_s=0, streams=1, bound=1000)
        first = asyncio.create_task(batcher.submit([(1, 10)], lengths=[10]))
        second = asyncio.create_task(batcher.submit([(2, 10)], lengths=[10]))
        third = asyncio.create_task(batcher.submit([(3, 10)], lengths=[10]))
        await asyncio.sleep(0.01)
        second.cancel()
        held.set()
        assert await first == [2]
        assert await third == [6]
        assert batcher.waiting_tokens == 0
        await batcher.close()

    asyncio.run(leave())
    assert ran == [(1, 10), (3, 10)]


def test_equal_requests_in_several_batches_are_all_answered():
    """Some rows of a request are answered while others wait behind those of an equal one: which is which must not hang on what is in
    them."""
    kinds = [list(range(count)) for count in (24, 21, 19, 23, 22)]
    draw = numpy.random.default_rng(0)

    def compute(batch):
        time.sleep(0.0005)
        return [numpy.arange(2) + row for row in batch]

    async def run():
        batcher = TokenBatcher(compute, budget=32, wait_s=0.005, streams=2, bound=10**6)
        for _ in range(30):
            chosen = [kinds[number] for number in draw.integers(len(kinds), size=16)]
            asked = [batcher.submit(rows, lengths=[1 + 5 * row % 13 for row in rows]) for rows in chosen]
            for rows, answers in zip(chosen, await asyncio.wait_for(asyncio.gather(*asked), 60), strict=True):
                numpy.testing.assert_array_equal(answers, [[row, row + 1] for row in rows])
        await batcher.close()

    asyncio.run(run())


def test_a_batcher_without_threads_is_broken():
    async def run():
        batcher = TokenBatcher(lambda rows: rows, budget=8, wait_s=0.0, streams=1, bound=100)
        assert await batcher.submit([1], lengths=[1]) == [1]
        before = batcher.is_broken
        batcher._pool.shutdown()
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(batcher.submit([1], lengths=[1]), 60)
        return before, batcher.is_broken

    assert asyncio.run(run()) == (False, True)


@pytest.fixture
def order_of(monkeypatch):
    """Numbers of requests in the order in which they are answered, by one stream whose first batch takes a while; 10 ms lie between two."""
    now = [0.0]
    monkeypatch.setattr(batcher_module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def order_of(requests):
        order, held = [], threading.Event()

        def run(rows):
            held.wait(30)
            return rows

        async def ask():
            batcher = TokenBatcher(run, budget=100, wait_s=0.0, streams=1, bound=10**6)

            async def one(number, lengths):
                await batcher.submit([number] * len(lengths), lengths=lengths)
                order.append(number)

            tasks = []
            for number, lengths in enumerate(requests):
                tasks.append(asyncio.create_task(one(number, lengths)))
                # Once for the request to wait, and once for the stream to take it.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                now[0] += 0.01
            held.set()
            await asyncio.gather(*tasks)
            await batcher.close()

        asyncio.run(ask())
        return order

    return order_of


def test_a_request_of_many_texts_does_not_hold_up_one_that_comes_after_it(order_of):
    # 0 holds the stream; 1 has 100,000 tokens, some seconds at the pace that is assumed before one is measured; 2 and 3 are short.
    assert order_of([[10], [100] * 1000, [10], [10]]) == [0, 2, 3, 1]


def test_what_waits_is_overtaken_only_by_what_would_have_been_done_sooner(order_of):
    """Turns are moments: a request of 2,000 tokens has 0.1 s at 20,000 tokens a second, and what comes later than that comes after it."""
    late = [[50]] * 30
    # The nine that come in that time, and one that shares the batch of the ninth.
    assert order_of([[10], [100] * 20, *late]) == [0, *range(2, 12), 1, *range(12, 32)]


def test_what_would_be_mostly_padding_waits_for_company_of_its_kind():
    batches = []

    async def ask():
        batcher = TokenBatcher(
            lambda rows: batches.append(sorted(rows)) or time.sleep(0.05) or rows,
            budget=4000, wait_s=0.0, streams=1, bound=10**6, call_tokens=4,
        )  # fmt: skip
        lengths = [5, 500, 6, 503, 7, 8]
        first = asyncio.create_task(batcher.submit([0], lengths=[9]))
        await asyncio.sleep(0.01)
        await asyncio.gather(first, *(batcher.submit([length], lengths=[length]) for length in lengths))
        await batcher.close()

    asyncio.run(ask())
    assert batches[0] == [0]
    assert sorted(batches[1:]) == [[5, 6, 7, 8], [500, 503]]


def test_a_lone_text_does_not_wait_for_company(monkeypatch):
    """By default no timer stands between a text and its batch."""

    async def ask():
        loop, timers = asyncio.get_running_loop(), []
        wait_s = ServeSettings().wait_ms / 1e3
        batcher = TokenBatcher(lambda rows: rows, budget=512, wait_s=wait_s, streams=2, bound=512)
        monkeypatch.setattr(loop, "call_later", lambda *timer: timers.append(timer))
        return await batcher.submit([1], lengths=[8]), timers

    assert asyncio.run(ask()) == ([1], [])
