"""The fuzzer by hand."""

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from tests.fuzz.cases import draw, numbers_of, valid_cases
from tests.fuzz.report import failures, report
from tests.fuzz.runs import run_cases, workplace
from tests.fuzz.verbs import VERBS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verb", choices=list(VERBS))
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    numbers = [given.case] if given.case is not None else list(numbers_of(given.verb, count=given.first + given.cases))
    numbers = numbers if given.case is not None else numbers[given.first :]
    done = 0

    def tell(answer: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        if answer["failure"]:
            print(
                f"{done} case {answer['number']}: {answer['group']}: {answer['command'][:160]}",
                file=sys.stderr,
                flush=True,
            )

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder of the cases goes in any event
    with workplace() as work:
        verbs = list(dict.fromkeys(list(VERBS)[number % len(VERBS)] for number in numbers))
        valid = run_cases(valid_cases(verbs), work, tell=tell)
        found = run_cases(draw(work / "inputs", seed=given.seed, numbers=numbers), work, tell=tell)
    text = report([*valid, *found], seed=given.seed)
    if given.report:
        given.report.write_text(text)
    if given.case is not None:
        print(found[0][1]["said"])
    print(text if not given.report else text.partition("\n")[0])
    return bool(failures([*valid, *found]))


if __name__ == "__main__":
    sys.exit(main())
