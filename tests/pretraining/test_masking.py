"""Spans and copies, by count."""

from collections import Counter
from itertools import pairwise

import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.pretraining.masking import EachToken, Masking, Spans, word_beginnings
from hf_albert_plus.text.byte_pairs import train_byte_pairs
from hf_albert_plus.text.vocabularies import train_unigram
from tests.support.corpora import make_text


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return AutoTokenizer.from_pretrained(tokenizer_dir)


def row(tokenizer, *, words: int, seed: int = 0) -> torch.Tensor:
    """Two segments of random tokens, some of which go on a word."""
    generator = torch.Generator().manual_seed(seed)
    plain = [i for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids]
    picked = [plain[i] for i in torch.randint(len(plain), (words,), generator=generator).tolist()]
    half = words // 2
    separator = tokenizer.sep_token_id
    return torch.tensor([tokenizer.cls_token_id, *picked[:half], separator, *picked[half:], separator])


def runs(mask: torch.Tensor) -> list[tuple[int, int]]:
    """Start and end of every run of masked tokens."""
    edges = torch.diff(mask.int(), prepend=torch.zeros(1), append=torch.zeros(1))
    return list(zip((edges == 1).nonzero().flatten().tolist(), (edges == -1).nonzero().flatten().tolist(), strict=True))


@pytest.mark.parametrize("words", [2, 7, 40, 126, 509])
@pytest.mark.parametrize("longest", [1, 2, 3])
@pytest.mark.parametrize("cap", [None, 20])
def test_fifteen_percent_of_the_real_tokens(tokenizer, words, longest, cap):
    chooser = Spans(tokenizer, longest=longest, cap=cap)
    ids = row(tokenizer, words=words)
    budget = max(1, round(0.15 * words))
    budget = budget if cap is None else min(budget, cap)
    counts = []
    for seed in range(30):
        mask = chooser(ids, torch.Generator().manual_seed(seed))
        assert not (mask & torch.isin(ids, torch.tensor(tokenizer.all_special_ids))).any()
        counts.append(int(mask.sum()))
        # Whole words: none is masked in part.
        for start, end in chooser.words(ids):
            assert mask[start:end].all() or not mask[start:end].any()
    assert max(counts) <= budget
    # A word too long for what is left leaves a little unmasked.
    assert sum(counts) / len(counts) > 0.9 * budget or words < 10


def test_the_2019_cap_is_four_percent_at_512(tokenizer):
    ids = row(tokenizer, words=509)
    mask = Spans(tokenizer, cap=20)(ids, torch.Generator().manual_seed(0))
    assert mask.sum() / 509 < 0.04


def test_lengths_are_one_over_n(tokenizer):
    """One-token words and a budget that holds one span: each row shows one draw, 6/11, 3/11, 2/11."""
    begins = [i for i in range(10, len(tokenizer)) if word_beginnings(tokenizer)[i]]
    ids = torch.tensor([tokenizer.cls_token_id, *begins[:20], tokenizer.sep_token_id])
    chooser = Spans(tokenizer, longest=3)
    counts: Counter[int] = Counter()
    for seed in range(6000):
        mask = chooser(ids, torch.Generator().manual_seed(seed))
        assert mask.sum() == 3
        counts[max(end - start for start, end in runs(mask))] += 1
    # Three masked of 20: as one span of 3; as 2 and 1; or as 1 and then a shortened 2, or 1 and 1 and 1.
    drawn = expected_longest_runs(positions=20)
    for length, share in drawn.items():
        assert counts[length] / 6000 == pytest.approx(share, abs=4 * (share * (1 - share) / 6000) ** 0.5)


def expected_longest_runs(*, positions: int) -> dict[int, float]:
    """By going through every order of draws: the chance of each longest run, three tokens masked."""
    chances = {1: 6 / 11, 2: 3 / 11, 3: 2 / 11}
    found: Counter[int] = Counter()

    def place(masked: frozenset[int], tried: frozenset[int], chance: float) -> None:
        if len(masked) == 3:
            ordered = sorted(masked)
            longest = run = 1
            for a, b in pairwise(ordered):
                run = run + 1 if b == a + 1 else 1
                longest = max(longest, run)
            found[longest] += chance
            return
        left = [position for position in range(positions) if position not in tried]
        for first in left:
            for length, share in chances.items():
                end = min(first + length, positions, first + 3 - len(masked))
                span = frozenset(range(first, end))
                kept = masked if span & masked else masked | span
                place(kept, tried | {first}, chance * share / len(left))

    place(frozenset(), frozenset(), 1.0)
    return dict(found)


def test_whole_words_of_sentencepiece():
    lines = [line for document in make_text(count=200) for line in document]
    tokenizer, _ = train_unigram(iter(lines), vocab_size=60, sample=1_000_000, seed=0)
    beginnings = word_beginnings(tokenizer)
    for line in lines[:40]:
        ids = torch.tensor(tokenizer(line)["input_ids"])
        pieces = tokenizer.convert_ids_to_tokens(ids)
        words = ["".join(pieces[start:end]) for start, end in Spans(tokenizer).words(ids)]
        # The text's own words, with a full stop as one of its own.
        expected = line.lower().replace(".", " . ").split()
        assert [word for word in (word.replace("▁", "") for word in words) if word] == expected
    assert not beginnings[tokenizer.convert_tokens_to_ids("s")]


def test_whole_words_of_byte_pairs():
    """Each sentence is encoded by itself, as a corpus is built: its first word begins one too, and accents end none."""
    lines = [line for document in make_text(count=200) for line in document]
    tokenizer = train_byte_pairs([*lines, "A naïve café. Naïve cafés."], vocab_size=300)
    beginnings = word_beginnings(tokenizer)
    for line in [*lines[:40], "The naïve café. A cliché."]:
        sentences = [f"{sentence}." for sentence in line.rstrip(".").split(". ")]
        rows = tokenizer(sentences, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([tokenizer.cls_token_id, *(i for row in rows for i in row), tokenizer.sep_token_id])
        words = Spans(tokenizer).words(ids)
        assert [tokenizer.decode(ids[start:end]).strip() for start, end in words] == line.replace(".", " .").split()
        assert any(end - start > 1 for start, end in words)
    assert not beginnings[tokenizer.convert_tokens_to_ids("s")]


def test_pieces_that_are_words_wherever_they_stand():
    """ALBERT's _is_start_piece_sp, by hand."""
    begin = ["▁film", "▁", "19", "4", "'s", "'", ",", "影", "é", "–", "£", "<unk>", "a1"]
    go_on = ["s", "ing", "ING", "x.y", "--"]

    class Pieces:
        def __len__(self):
            return len(begin) + len(go_on)

        def convert_ids_to_tokens(self, ids):
            return [(begin + go_on)[i] for i in ids]

    assert word_beginnings(Pieces()).tolist() == [True] * len(begin) + [False] * len(go_on)


def test_tokens_by_themselves_are_words_of_one(tokenizer):
    ids = row(tokenizer, words=40)
    chooser = Spans(tokenizer, longest=1, whole_words=False)
    assert len(chooser.words(ids)) == 40
    assert chooser(ids, torch.Generator().manual_seed(0)).sum() == 6


def test_copies_come_again(tokenizer):
    ids = row(tokenizer, words=60).tolist()
    static = Masking(tokenizer, chooser=Spans(tokenizer), seed=0, copies=3)
    dynamic = Masking(tokenizer, chooser=Spans(tokenizer), seed=0)
    seen = {"static": [], "dynamic": []}
    for epoch in range(9):
        for name, masking in (("static", static), ("dynamic", dynamic)):
            masking.draws.epoch = epoch
            seen[name].append(tuple(masking(ids)[0]))
    assert len(set(seen["static"])) == 3
    assert seen["static"][:3] == seen["static"][3:6] == seen["static"][6:]
    assert len(set(seen["dynamic"])) == 9


@pytest.mark.parametrize("make", [Spans, EachToken])
def test_fates_are_drawn_for_each_token(tokenizer, make):
    """80 % masks, 10 % random tokens, 10 % as they were."""
    masking = Masking(tokenizer, chooser=make(tokenizer), seed=0)
    masked = replaced = kept = 0
    for seed in range(200):
        ids = row(tokenizer, words=100, seed=seed).tolist()
        seen, labels = masking(ids)
        places = [i for i, label in enumerate(labels) if label != -100]
        assert [labels[i] for i in places] == [ids[i] for i in places]
        masked += len(places)
        replaced += sum(seen[i] == tokenizer.mask_token_id for i in places)
        kept += sum(seen[i] == ids[i] for i in places)
    chance = 1 / len(tokenizer)
    assert replaced / masked == pytest.approx(0.8, abs=4 * (0.16 / masked) ** 0.5 + 0.1 * chance)
    assert kept / masked == pytest.approx(0.1, abs=4 * (0.09 / masked) ** 0.5 + 0.1 * chance)
