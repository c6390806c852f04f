"""What was found, counted by verb and kind, and every distinct failure with a command line that shows it."""

from collections import Counter, defaultdict
from typing import Any

from tests.fuzz.cases import Case

_KINDS = ("option", "file", "state")
Found = list[tuple[Case, dict[str, Any]]]


def failures(found: Found) -> Found:
    return [(case, answer) for case, answer in found if answer["failure"]]


def report(found: Found, *, seed: int) -> str:
    """Markdown."""
    wrong = failures(found)
    unnamed = [(case, answer) for case, answer in found if answer["names"] is False and not answer["failure"]]
    seconds = sorted(answer["seconds"] for _, answer in found)
    parts = [
        f"{len(found)} cases of seed {seed}: {len(wrong)} failures in {len(_grouped(wrong))} groups; {len(unnamed)} messages that do not name what they are about",
        f"seconds a case: median {seconds[len(seconds) // 2]}, longest {seconds[-1]}" if seconds else "",
        _table(found),
        *[_group(name, of_group, seed) for name, of_group in _grouped(wrong).items()],
    ]
    if unnamed:
        parts.append(
            "## Messages that do not name the value or its file\n\n"
            + "\n".join(f"- case {case.number}: {case.title}: {_last(answer)}" for case, answer in unnamed)
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _last(answer: dict[str, Any]) -> str:
    return " ".join(str(answer["said"]).split())[-240:]


def _table(found: Found) -> str:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case, answer in found:
        counts[case.verb][f"{case.kind} {answer['outcome']}"] += 1
        counts[case.verb]["failures"] += bool(answer["failure"])
    columns = [f"{kind} {outcome}" for kind in _KINDS for outcome in ("0", "refused", "other")] + ["failures"]
    lines = [f"| verb | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [
        f"| {verb} | {' | '.join(str(row[column]) for column in columns)} |" for verb, row in sorted(counts.items())
    ]
    return "\n".join(lines)


def _grouped(wrong: Found) -> dict[str, Found]:
    groups: dict[str, Found] = defaultdict(list)
    for case, answer in wrong:
        name = (
            answer["group"] if answer["group"] != answer["failure"] else f"{answer['failure']}: {case.verb} {case.kind}"
        )
        groups[name].append((case, answer))
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _group(name: str, of_group: Found, seed: int) -> str:
    case, answer = min(of_group, key=lambda pair: len(pair[1]["command"]))
    others = "; ".join(f"{other.number} {other.title}" for other, _ in of_group if other is not case)
    lines = [
        f"## {name} ({len(of_group)})",
        f"{answer['failure']}, exit {answer['code']}, {answer['seconds']} s: {case.title}"
        + (f" of {case.file}" if case.file else ""),
        f"    python -m tests.fuzz --seed {seed} --case {case.number}",
        f"    {answer['command']}",
        "```\n" + answer["said"].strip() + "\n```",
        f"also: {others[:1500]}" if others else "",
    ]
    return "\n\n".join(line for line in lines if line)


__all__ = ["failures", "report"]
