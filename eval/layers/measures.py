"""Measures of layers over the real tokens of texts: how far each moves them, what its heads attend to, and how alike layers are.

L layers, h heads, B texts, S tokens, H the width; hidden states are those before the first layer and after each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cosine_similarity

# Tokens that the likeness of layers is computed from: its products grow with them.
_COMPARED = 2048
_LEAST = 1e-30


@dataclass(frozen=True)
class LayerFigures:
    """The measures of one encoder.

    Attributes:
        texts, tokens: what they are means over; padding is none of them, special tokens are.
        distances: L2 distance between the input and the output of each layer, `[L]` (ALBERT, section 3.1, figure 1).
        angles: degrees between the two, `[L]` (the same figure).
        entropies: nats of what each head of each layer attends to, `[L][h]` (Clark et al. 2019, arXiv 1906.04341, section 3.3).
        likeness: linear centred kernel alignment of the hidden states, 1 for states that a rotation and a factor make the same,
            `[L + 1][L + 1]` (Kornblith et al. 2019, arXiv 1905.00414, section 3).
    """

    name: str
    texts: int
    tokens: int
    distances: list[float]
    angles: list[float]
    entropies: list[list[float]]
    likeness: list[list[float]]


class LayerMeasures:
    """Sums over batches.

    Args:
        tokens: real tokens that there will be. Of more than 2,048 the likeness takes so many, drawn with a fixed seed.
    """

    def __init__(self, *, tokens: int):
        drawn = torch.randperm(tokens, generator=torch.Generator().manual_seed(0))
        self.compared = drawn[:_COMPARED].sort().values
        self.tokens = self.texts = 0
        self.distances: list[float] = []
        self.angles: list[float] = []
        self.entropies: list[torch.Tensor] = []
        self.states: list[list[torch.Tensor]] = []

    def add(
        self, states_LBSH: Sequence[torch.Tensor], attentions_LBhSS: Sequence[torch.Tensor], mask_BS: torch.Tensor
    ) -> None:
        """Adds a batch: L + 1 hidden states, the attention of every layer, and 1 at real tokens."""
        # Not every accelerator has doubles.
        real_BS = mask_BS.bool().cpu()
        states_LTH = [state_BSH.cpu()[real_BS].double() for state_BSH in states_LBSH]
        if not self.states:
            layers = len(attentions_LBhSS)
            self.distances, self.angles = [0.0] * layers, [0.0] * layers
            self.entropies = [torch.zeros(each.shape[1], dtype=torch.float64) for each in attentions_LBhSS]
            self.states = [[] for _ in states_LTH]
        for layer, attention_BhSS in enumerate(attentions_LBhSS):
            before_TH, after_TH = states_LTH[layer : layer + 2]
            self.distances[layer] += float((after_TH - before_TH).norm(dim=-1).sum())
            cosine_T = cosine_similarity(before_TH, after_TH, dim=-1).clamp(-1, 1)
            self.angles[layer] += float(cosine_T.acos().rad2deg().sum())
            entropy_BhS = torch.special.entr(attention_BhSS.cpu().double()).sum(-1)
            self.entropies[layer] += (entropy_BhS * real_BS[:, None]).sum((0, 2))
        count = int(real_BS.sum())
        places = self.compared - self.tokens
        places = places[(places >= 0) & (places < count)]
        for kept, state_TH in zip(self.states, states_LTH, strict=True):
            kept.append(state_TH[places].float())
        self.tokens += count
        self.texts += len(mask_BS)

    def figures(self, name: str) -> LayerFigures:
        """The means of all that was added."""
        return LayerFigures(
            name=name,
            texts=self.texts,
            tokens=self.tokens,
            distances=[total / self.tokens for total in self.distances],
            angles=[total / self.tokens for total in self.angles],
            entropies=[(total_h / self.tokens).tolist() for total_h in self.entropies],
            likeness=alignment([torch.cat(kept) for kept in self.states]),
        )


def alignment(states_LTH: Sequence[torch.Tensor]) -> list[list[float]]:
    """Linear centred kernel alignment ‖Yᵀ X‖² / (‖Xᵀ X‖ ‖Yᵀ Y‖) of every two of these states, columns centred, Frobenius norms.

    A state in which all tokens are the same is like none, and has 0.
    """
    centred = [state_TH - state_TH.mean(0) for state_TH in states_LTH]
    products = [[float((x.T @ y).double().square().sum()) for y in centred[: i + 1]] for i, x in enumerate(centred)]
    return [
        [
            products[max(i, j)][min(i, j)] / max((products[i][i] * products[j][j]) ** 0.5, _LEAST)
            for j in range(len(centred))
        ]
        for i in range(len(centred))
    ]
