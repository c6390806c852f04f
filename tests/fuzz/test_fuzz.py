"""The command line under bad values, bad files and what earlier runs left: it does its work, or says in a sentence what to repair."""

import pytest

from tests.fuzz.cases import Case, draw, numbers_of, valid_cases
from tests.fuzz.report import failures, report
from tests.fuzz.runs import run_cases, workplace
from tests.fuzz.verbs import VERBS, declared

CASES, SEED = 200, 0


def test_every_verb_has_a_command_line_that_works():
    assert set(VERBS) == set(declared())


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_command_lines_name_options_of_their_verbs(verb):
    known = {word for parameter in declared()[verb] for word in parameter.words}
    assert {word for line in VERBS[verb] for word in line.split() if word.startswith("--")} <= known


@pytest.fixture(scope="module")
def work():
    with workplace() as folder:
        yield folder


@pytest.fixture(scope="module")
def valid(work):
    """What comes of the command lines that work. The fuzzer puts its bad values into them, and damages what they left."""
    return run_cases(valid_cases(VERBS), work)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_lines_that_work_do(valid):
    assert not failures(valid), report(valid, seed=SEED)
    assert all(answer["code"] == 0 for _, answer in valid)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_is_given_ends_well(work, valid, capsys):
    found = run_cases(draw(work / "inputs", seed=SEED, numbers=numbers_of(None, count=CASES)), work)
    text = report(found, seed=SEED)
    with capsys.disabled():
        print(f"\n{text.partition('## ')[0]}")
    assert len(found) == CASES
    assert not failures(found), text


@pytest.mark.slow
def test_a_case_is_its_seed_and_number(work, valid):
    def drawn(numbers) -> list[Case]:
        return list(draw(work / "inputs", seed=3, numbers=numbers))

    many = drawn(range(300))
    assert len({(case.verb, case.line, case.kind, case.where, case.value, case.file) for case in many}) > 280
    assert drawn([211, 7]) == [many[211], many[7]]
