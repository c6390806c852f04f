"""The method of timing, on a clock of our own: what it finds is known before."""

import itertools

import numpy
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency import timing
from hf_albert_plus.eval.latency.timing import percentiles, speedup, summarise, take_turns, time_calls, warm
from hf_albert_plus.eval.load.traffic import open_loop

ROUNDS, PATIENCE = 24, 8


def test_users_have_the_method_that_is_tested_here():
    assert timing.current_method() == timing.Method(rounds=ROUNDS, patience=PATIENCE, settle_s=0.06)


def test_another_method_holds_in_its_context_alone(monkeypatch):
    users = timing.current_method()
    with timing.timed_by(timing.Method(rounds=3, patience=0, settle_s=0.0)):
        timings = _time(Machine(monkeypatch, jitter=0.5), a=4.0)
    assert len(timings.rounds["a"]) == 3
    assert timing.current_method() == users


class Machine:
    """A clock, and calls that take what is asked for times how busy the machine is at that moment."""

    def __init__(self, monkeypatch, busy=lambda seconds: 1.0, jitter=0.0):
        self.now, self.busy, self.jitter = 0.0, busy, jitter
        self.random = numpy.random.default_rng(0)
        self.order = []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def call(self, label, milliseconds):
        def run():
            self.order.append(label)
            noise = 1 + self.jitter * self.random.exponential()
            self.now += milliseconds / 1e3 * self.busy(self.now) * noise

        return run


def _time(machine, seconds=0.3, **milliseconds):
    calls = {label: machine.call(label, value) for label, value in milliseconds.items()}
    return time_calls(calls, baseline=next(iter(calls)), seconds=seconds, description="t")


# Loads from elsewhere, as factors on every call by the time of day: none, a slow drift to half the clock rate, bursts that
# triple, and one that begins in the middle and stays.
LOADS = {
    "quiet": lambda t: 1.0,
    "drift": lambda t: 1 + t / 8,
    "bursts": lambda t: 3.0 if (t * 7.3) % 1 < 0.3 else 1.0,
    "step": lambda t: 1.0 if t < 1.7 else 2.2,
}


@pytest.mark.parametrize("load", LOADS)
def test_an_engine_against_itself_is_one_and_a_tenth_is_found(monkeypatch, load):
    machine = Machine(monkeypatch, busy=LOADS[load], jitter=0.1)
    cells = summarise(_time(machine, seconds=2.0, base=4.0, same=4.0, slower=4.4, faster=2.0), baseline="base")
    assert cells["base"].speedup == 1.0
    assert cells["same"].speedup == pytest.approx(1.0, abs=0.03)
    assert cells["slower"].speedup == pytest.approx(1 / 1.1, abs=0.03)
    assert cells["slower"].speedup_interval[1] < 1
    low, high = cells["same"].speedup_interval
    assert low <= 1 <= high
    assert cells["faster"].speedup == pytest.approx(2.0, abs=0.06)


def test_one_after_the_other_would_not_find_it(monkeypatch):
    """The same drift, without turns: what is measured second looks slower by more than a tenth."""
    machine = Machine(monkeypatch, busy=LOADS["drift"])
    first, second = ([timing.elapsed_ms(machine.call(name, 4.0)) for _ in range(300)] for name in "ab")
    assert numpy.median(second) / numpy.median(first) > 1.1


def test_noise_makes_for_more_rounds(monkeypatch):
    quiet = _time(Machine(monkeypatch, jitter=0.01), a=4.0, b=4.0)
    machine = Machine(monkeypatch, busy=LOADS["bursts"], jitter=0.5)
    noisy = _time(machine, seconds=3.0, a=40.0, b=40.0)
    assert len(quiet.rounds["a"]) == ROUNDS < len(noisy.rounds["a"])
    assert machine.now < 15 + PATIENCE * 3.0 * 2  # the limit, a last round, the warm-up


def test_turns_rotate_and_blocks_begin_with_calls_that_do_not_count(monkeypatch):
    """Those fill the settling time, and are one at least."""
    machine = Machine(monkeypatch)
    timings = _time(machine, seconds=0.3, a=400.0, b=13.0, c=8.0)
    order = machine.order[sum(found.calls for found in timings.warm_up.values()) :]
    blocks = [(label, len(list(calls))) for label, calls in itertools.groupby(order)]
    counts = {label: len(timings.rounds[label][0]) for label in "abc"}
    assert counts == {"a": 2, "b": 2, "c": 2}
    sizes = {"a": 2 + 1, "b": 2 + 5, "c": 2 + 8}
    assert blocks[:3] == [("a", sizes["a"]), ("b", sizes["b"]), ("c", sizes["c"])]
    labels = [label for label, size in blocks for _ in range(round(size / sizes[label]))]
    assert labels == ["abc"[(turn + place) % 3] for turn in range(ROUNDS) for place in range(3)]


def test_warm_up_goes_on_until_calls_settle(monkeypatch):
    machine = Machine(monkeypatch)
    costs = iter([50.0, 40, 30, 20, 15, 12, 10, 9, 8, 7, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, *([6.0] * 50)])

    def call():
        machine.now += next(costs) / 1e3

    found = warm(call)
    assert found.stable
    assert found.calls == 20  # windows of five: medians 30, 9, 6, 6
    assert found.call_ms == pytest.approx(6)


def test_warm_up_that_never_settles_says_so(monkeypatch):
    machine, values = Machine(monkeypatch), itertools.count(1)

    def call():
        machine.now += next(values) / 1e3

    found = warm(call, seconds=0.2)
    assert not found.stable
    assert machine.now >= 0.2


def test_percentiles_count_outliers_and_keep_them():
    samples = numpy.concatenate([numpy.linspace(9, 11, 97), [40.0, 50.0, 60.0]])
    found = percentiles(samples)
    assert found.outliers == 3
    assert found.samples == 100
    assert found.max_ms == 60
    for name, share in (("p50_ms", 50), ("p90_ms", 90), ("p95_ms", 95), ("p99_ms", 99)):
        assert getattr(found, name) == pytest.approx(numpy.percentile(samples, share), abs=1e-3)


def test_the_interval_holds_the_ratio_as_often_as_it_says():
    """95 of 100 times, for rounds whose ratio varies by 5 % around 1.25."""
    generator, held = numpy.random.default_rng(0), 0
    for _ in range(400):
        base = generator.lognormal(sigma=0.5, size=24)
        row = base / 1.25 * generator.lognormal(sigma=0.05, size=24)
        _, (low, high) = speedup([[value] for value in row], [[value] for value in base])
        held += low <= 1.25 <= high
    assert 0.93 <= held / 400 <= 1.0


def test_a_summary_comes_from_the_samples():
    rounds = {"a": [[4.0, 6.0], [5.0, 5.0]] * 12, "b": [[2.0, 2.0], [2.5, 2.5]] * 12}
    warm_up = {label: timing.WarmUp(calls=10, stable=True, call_ms=1.0) for label in rounds}
    cells = summarise(timing.Timings(rounds=rounds, warm_up=warm_up), baseline="a", items=8)
    assert cells["b"].speedup == pytest.approx(numpy.median([5 / 2, 5 / 2.5]), abs=1e-3)
    assert cells["a"].items_per_s == pytest.approx(8 / 0.005)
    assert cells["b"].rounds == rounds["b"]


class VirtualTime:
    """Time that passes only while one sleeps or serves."""

    def __init__(self):
        self.now = 0.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 1e-5)


def _open_loop(rate, service, *, count=40000, budget=1, batch_cost=0.0):
    time = VirtualTime()
    arrivals = numpy.random.default_rng(1).exponential(1 / rate, size=count).cumsum()

    def answer(numbers):
        time.now += service + batch_cost * len(numbers)

    return open_loop(arrivals, lengths=[1] * count, answer=answer, budget=budget, clock=time.clock, sleep=time.sleep)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_a_queue_waits_as_long_as_queueing_theory_says(load):
    """One sentence at a time with a fixed service time is an M/D/1 queue: a mean wait of ρ·D / (2·(1 - ρ)) before D
    (Pollaczek and Khinchine)."""
    service = 0.004
    loop = _open_loop(load / service, service)
    expected = service + load * service / (2 * (1 - load))
    assert numpy.mean(loop.latencies_ms) / 1e3 == pytest.approx(expected, rel=0.06)
    assert set(loop.batches) == {1}


def test_latency_counts_from_the_arrival_not_from_the_start_of_service():
    """Arrivals twice as fast as the service: the n-th waits for all before it."""
    time = VirtualTime()

    def answer(numbers):
        time.now += 0.010

    arrivals = [0.005 * number for number in range(100)]
    loop = open_loop(arrivals, lengths=[1] * 100, answer=answer, budget=1, clock=time.clock, sleep=time.sleep)
    assert loop.latencies_ms == pytest.approx([10 * (number + 1) - 5 * number for number in range(100)], abs=0.2)
    assert loop.seconds == pytest.approx(1.0, abs=0.01)


def test_what_waits_is_answered_together_within_the_budget():
    slow = _open_loop(1000, 0.010, budget=4, count=2000)
    assert max(slow.batches) == 4
    assert sum(slow.batches) == 2000
    time, seen = VirtualTime(), []

    def answer(numbers):
        seen.append(numbers)
        time.now += 1

    open_loop([0.0] * 6, lengths=[3, 3, 5, 1, 1, 9], answer=answer, budget=10, clock=time.clock, sleep=time.sleep)
    assert seen == [[0, 1], [2, 3], [4], [5]]  # 2 x 3; 2 x 5; 2 x 9 is too much


def test_rounds_without_a_limit_stop(monkeypatch):
    machine = Machine(monkeypatch, jitter=3.0)
    calls = {label: machine.call(label, 1.0) for label in "ab"}
    players = {label: lambda _, call=call: [timing.elapsed_ms(call)] for label, call in calls.items()}
    found = take_turns(players, settle=calls, baseline="a", description="t", rounds=7)
    assert len(found["a"]) == 7


def test_what_the_one_before_leaves_running_is_not_counted(monkeypatch):
    """Threads that spin on for 50 ms after a switch double what runs then; neither row is slower for it."""
    machine = Machine(monkeypatch)
    last = {"label": "", "until": 0.0}

    def call(label):
        def run():
            if last["label"] != label:
                last.update(label=label, until=machine.now + 0.05)
            machine.now += 0.012 * (2 if machine.now < last["until"] else 1)

        return run

    timings = time_calls({label: call(label) for label in "ab"}, baseline="a", seconds=0.3, description="t")
    assert {round(value, 6) for label in "ab" for value in timings.samples(label)} == {12.0}


def test_a_bench_without_a_load_is_refused(exported_dir):
    from hf_albert_plus.eval.latency.bench import bench_targets
    from hf_albert_plus.eval.targets import parse_target

    target = parse_target(str(exported_dir))
    with pytest.raises(InvalidInput, match="a bench needs a load"):
        bench_targets([target], shapes=[], baseline=target)
