"""Which heads and columns stay."""

import torch

from .importance import Site
from .settings import Spread


def select(
    scores: dict[Site, torch.Tensor], *, remove: float, spread: Spread, multiple_of: int = 1
) -> dict[Site, torch.Tensor]:
    """The numbers of what stays at every site, rising.

    Args:
        scores: importances `[G]` of sites of one kind.
        remove: share of them all.
        spread: `block` removes that share of each site. `model` ranks all together, each site's scores divided by their L2 norm
            (Are Sixteen Heads Really Better than One?, section 4.1). At least one stays everywhere.
        multiple_of: of a site this many stay or a multiple of it, the nearest one, but never more than there are. The networks of
            a block keep as many as the one that keeps most.
    """
    if spread == "block":
        counts = {site: len(found) - round(remove * len(found)) for site, found in scores.items()}
    else:
        relative = {site: torch.nn.functional.normalize(found, dim=0) for site, found in scores.items()}
        together = torch.cat(list(relative.values()))
        removed = round(remove * len(together))
        order = torch.empty_like(together, dtype=torch.long)
        order[together.argsort(stable=True)] = torch.arange(len(together), device=together.device)
        places = order.split([len(found) for found in scores.values()])
        counts = {site: int((place >= removed).sum()) for site, place in zip(scores, places, strict=True)}
    kept = {}
    for site, found in scores.items():
        wanted = max(counts[other] for other in scores if (other.kind, other.block) == (site.kind, site.block))
        count = min(len(found), max(1, multiple_of, round(wanted / multiple_of) * multiple_of))
        kept[site] = found.argsort(descending=True, stable=True)[:count].sort().values
    return kept


__all__ = ["select"]
