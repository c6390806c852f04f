"""How much of the order of segments is told without reading them: by whether each ends a sentence, and which is longer.

    python order_cue.py CORPUS

CORPUS is what `albert-plus corpus build --order sentence-order` made. The share that is right of the held-out examples, guessing what is more frequent
for each of the eight cases, is 0.5 where nothing is told.
"""

import sys
from collections import defaultdict
from pathlib import Path

from datasets import load_from_disk
from transformers import AutoTokenizer


def main(corpus: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(Path(corpus) / "tokenizer")
    seen: defaultdict[tuple[bool, bool, bool], list[int]] = defaultdict(lambda: [0, 0])
    for row in load_from_disk(corpus)["validation"]:
        if row["sentence_order_label"] >= 0:
            ids, second = row["input_ids"], row["second_segment"]
            last = tokenizer.convert_ids_to_tokens([ids[second - 2], ids[-2]])  # before the separators
            first_ends, second_ends = (piece[-1] in ".?!" for piece in last)
            seen[first_ends, second_ends, 2 * second > len(ids)][row["sentence_order_label"]] += 1
    examples = sum(map(sum, seen.values()))
    print(f"{sum(map(max, seen.values())) / examples:.3f} of {examples:,} examples")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
