"""The pages that users read, taken apart: blocks of code with what stands beside them, links, anchors and names."""

import re
import textwrap
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "model_cards" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
# Languages of blocks that run, and of those that are to be read.
RUN, READ = {"bash", "python"}, {"output", "text", "json", "yaml", "javascript", "{toctree}"}

_BLOCK = re.compile(
    r"(?P<comment>^ *<!-- [^\n]* -->\n\n?)?^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^ *```$",
    flags=re.M | re.S,
)
_COMMENT = re.compile(r"<!-- (.*) -->")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")

# A line of its own stands for any number of lines.
_ANYTHING = {"…": ".*", "…\n": r"(?:.*\n)?"}


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        line: where it begins in its page.
        comment: what the HTML comment before it says.
        output: what the page says that it prints, None where it says nothing.
        varies: whether the numbers of the output may be others.
    """

    page: Path
    line: int
    language: str
    code: str
    comment: str
    output: str | None = None
    varies: bool = False

    @property
    def runs(self) -> bool:
        return self.needs_node or (self.language in RUN and not self.comment.startswith("not run: "))

    @property
    def needs_node(self) -> bool:
        return self.comment == "runs where Node is"

    @property
    def runs_until_stopped(self) -> bool:
        return self.comment == "runs until stopped"

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    """The blocks of a page; an output belongs to the block before it."""
    text = page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    for match in _BLOCK.finditer(text):
        comment = _COMMENT.search(match["comment"] or "")
        line = text.count("\n", 0, match.start("indent")) + 1
        code = textwrap.dedent(match["code"]).rstrip("\n")
        block = Block(page, line, match["language"], code, comment[1] if comment else "")
        if block.language == "output":
            blocks[-1] = replace(blocks[-1], output=code, varies=block.comment == "figures vary")
        else:
            blocks.append(block)
    return tuple(blocks)


def prose_of(page: Path) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def links_of(page: Path) -> list[str]:
    """Targets of a page's links and pictures, those of the network left out."""
    prose = re.sub(r"`[^`\n]*`", "", prose_of(page).replace("[`", "[").replace("`]", "]"))
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors_of(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def names_in(page: Path) -> list[str]:
    """What a page sets in code font in its text."""
    return re.findall(r"`([^`\n]+)`", prose_of(page))


def seen(printed: str) -> str:
    """What a reader sees of what was printed: bars overwrite themselves, and end as nothing."""
    lines = [line.split("\r")[-1].rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed).split("\n")]
    return "\n".join(line for line in lines if line and "%|" not in line)


def agrees(printed: str, block: Block) -> bool:
    """Whether a block printed what its page says: `…` is anything, and numbers are any where they may vary."""
    assert block.output is not None
    pattern = ""
    for part in re.split(r"(^…\n|…)", _plain(block.output), flags=re.M):
        words = _NUMBER.split(part) if block.varies else [part]
        pattern += _ANYTHING.get(part) or _NUMBER.pattern.join(map(re.escape, words))
    return re.fullmatch(pattern, _plain(printed), flags=re.S) is not None


def _plain(text: str) -> str:
    """Text without what depends on the width of a table."""
    return re.sub(r"[ \t]+", " ", re.sub(r"[─━═]+", "─", seen(text))).strip()
