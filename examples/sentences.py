"""Sentences of a text, one a line, as `--unlabelled` takes them.

    python sentences.py TEXT COUNT > sentences.txt

TEXT has a paragraph a line. Those of 5 to 30 words are drawn, each once, and the same ones each time.
"""

import random
import sys
from pathlib import Path

from hf_albert_plus.distillation.sentence_rows import sentences


def main(text: str, count: int) -> None:
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    found = {piece: None for line in lines for piece in sentences(line) if 5 <= len(piece.split()) <= 30}
    if len(found) < count:
        raise SystemExit(f"{text} has {len(found):,} such sentences, and not {count:,}")
    print(*random.Random(1).sample(list(found), count), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], int(sys.argv[2]))
