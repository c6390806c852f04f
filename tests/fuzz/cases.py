"""A case: a command line that works, spoiled in one place. The seed and the number of a case say all of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.contents import spoils_of
from tests.fuzz.states import FINISHED, FRESH
from tests.fuzz.values import bad_values
from tests.fuzz.verbs import COPIED, VERBS, Parameter, declared, occurrences

# Of twenty cases of a verb, how many are of which kind.
_SHARES = "ofosofofosofofosofof"


@dataclass(frozen=True)
class Case:
    """What is run.

    Attributes:
        words: of the command behind its verb, `{in}` for the folder of inputs.
        kind: "valid", "option", "file" or "state".
        where: the option, file or state that is spoiled.
        value: the bad value of an option, or how a file is spoiled.
        parameter: name of the option's parameter.
        file: the spoiled file, under the folder of inputs.
        line: which of the verb's valid lines it started from.
    """

    number: int
    verb: str
    line: int
    words: list[str]
    kind: str = "valid"
    where: str = ""
    value: str = ""
    parameter: str = ""
    file: str = ""
    seed: str = ""

    @property
    def title(self) -> str:
        value = self.value if len(self.value) < 80 else f"{self.value[:40]}… ({len(self.value)} characters)"
        return f"{self.verb}: {self.kind} {self.where} {value!a}"


def valid_cases(verbs: Iterable[str]) -> list[Case]:
    """Every command line that works."""
    return [Case(-1, verb, line, _words(verb, line)) for verb in verbs for line in range(len(VERBS[verb]))]


def draw(inputs: Path, *, seed: int, numbers: Iterable[int]) -> Iterator[Case]:
    """The cases with these numbers."""
    verbs = list(VERBS)
    for number in numbers:
        verb, place = verbs[number % len(verbs)], number // len(verbs)
        kinds = _of_verb(inputs, verb, seed)
        turn, rest = divmod(place, len(_SHARES))
        letters = "".join(letter if kinds[letter] else "o" for letter in _SHARES)
        nth = turn * letters.count(letters[rest]) + letters[:rest].count(letters[rest])
        chosen = kinds[letters[rest]]
        yield replace(chosen[nth % len(chosen)], number=number, seed=f"{seed} {number}")


def numbers_of(verb: str | None, *, count: int) -> Iterable[int]:
    """The first cases of all verbs, or of one."""
    verbs = list(VERBS)
    return range(count) if verb is None else range(verbs.index(verb), count * len(verbs), len(verbs))


@cache
def _of_verb(inputs: Path, verb: str, seed: int) -> dict[str, list[Case]]:
    """Everything that can be spoiled in a verb's command lines, in an order of the seed that goes round options and files."""
    random = Random(f"{seed} {verb}")
    parameters = declared()[verb]
    options, files, states = [], [], []
    for line in range(len(VERBS[verb])):
        words = _words(verb, line)
        for parameter in parameters:
            options.append(list(_of_option(verb, line, words, parameter, parameters)))
        for file in _files(inputs, verb, words):
            spoils = [
                Case(0, verb, line, words, "file", Path(file).name, how, file=file) for how in spoils_of(Path(file))
            ]
            files.append(spoils)
        if any(parameter.name in ("out", "output") for parameter in parameters) and "out" in words:
            # A plan leaves nothing that could be damaged.
            left = FRESH if "--plan" in words else (*FRESH, *FINISHED)
            states.append([Case(0, verb, line, words, "state", state) for state in left])
    return {"o": _in_turns(options, random), "f": _in_turns(files, random), "s": _in_turns(states, random)}


def _in_turns(groups: list[list[Case]], random: Random) -> list[Case]:
    """One of each group, another one of each, and so on."""
    for group in groups:
        random.shuffle(group)
    random.shuffle(groups)
    return [case for turn in zip_longest(*groups) for case in turn if case is not None]


def _of_option(verb: str, line: int, words: list[str], parameter: Parameter, all_: list[Parameter]) -> Iterator[Case]:
    def case(changed: list[str], value: str) -> Case:
        return Case(0, verb, line, changed, "option", parameter.label, value, parameter.name)

    if parameter.is_flag:
        if parameter.words[0] not in words:
            yield case([*words, parameter.words[0]], "")
        return
    places = occurrences(words, parameter, all_)
    for value in bad_values(parameter, valid=words[places[0]] if places else None):
        if places:
            yield case([*words[: places[-1]], value, *words[places[-1] + 1 :]], value)
        else:
            yield case([*words, *parameter.words[:1], value], value)


def _files(inputs: Path, verb: str, words: list[str]) -> list[str]:
    """Files that a command line reads, relative to the inputs. Code in model directories is another matter."""
    named = [word.partition("{in}/")[2].partition(":")[0] for word in words if "{in}/" in word] + COPIED.get(verb, [])
    found: dict[str, Any] = {}
    for path in (inputs / name for name in named):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        found |= {str(file.relative_to(inputs)): None for file in files if file.is_file() and file.suffix != ".py"}
    return list(found)


def _words(verb: str, line: int) -> list[str]:
    return VERBS[verb][line].split()


__all__ = ["Case", "draw", "numbers_of", "valid_cases"]
