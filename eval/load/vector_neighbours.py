"""Whether the vector of a text depends on the texts beside it, and how near it is to the baseline's."""

import random
from collections.abc import Sequence

import torch

from hf_albert_plus.engines.invariance import BatchEffect
from hf_albert_plus.engines.runtime_files import weight_files
from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load.neighbour_documents import NeighboursRow
from hf_albert_plus.eval.settings import InvarianceSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.eval.vector_targets import is_encoder
from hf_albert_plus.records.progress import track

# More tokens than any batch has: the sizes that are asked for decide.
_NO_BUDGET = 1 << 40
# A word of any vocabulary.
_WORD = "a "


def give_vectors(targets: Sequence[Target]) -> bool:
    """Whether targets are sentence encoders.

    Raises:
        InvalidInput: some are, and some are not.
    """
    encoders = [target for target in targets if is_encoder(target.directory)]
    if encoders and len(encoders) < len(targets):
        other = next(target for target in targets if target not in encoders)
        raise InvalidInput(
            "the vectors of encoders and the logits of classifiers are no one table",
            got=f"{encoders[0].label} and {other.label}",
            repair="compare them apart",
        )
    return bool(encoders)


def vector_rows(
    targets: Sequence[Target], *, baseline: Target, texts: list[str], settings: InvarianceSettings, cores: int
) -> list[NeighboursRow]:
    """A row for each target: how near its vectors of texts alone are to the baseline's, and how far they lie from those in company.

    Raises:
        InvalidInput: a target that gives no vectors, or vectors of another width than the baseline's.
    """
    expected = _alone(_open(baseline, cores), texts)
    rows = []
    for target in targets:
        encoder = _open(target, cores)
        is_baseline = target == baseline
        alone = expected if is_baseline else _alone(encoder, texts)
        if alone.shape != expected.shape:
            raise InvalidInput(
                f"vectors are compared with those of one width, {expected.shape[1]} of {baseline.label}",
                got=f"{alone.shape[1]} of {target.label}",
                repair="name a --baseline with vectors of that width, such as the same model in torch",
            )
        found = {}
        for size in settings.batches:
            found[f"batches of {size}"] = _in_company(encoder, texts, size=size, description=f"{target.label}: {size}")
        long = _WORD * min(settings.padded_to, encoder.max_seq_length)
        found["padded"] = _in_company(
            encoder, texts, size=settings.batches[0], beside=[long], description=f"{target.label}: padded"
        )
        cosines = torch.nn.functional.cosine_similarity(alone.double(), expected.double(), dim=-1)
        rows.append(
            NeighboursRow(
                label=target.label,
                file_bytes=sum(path.stat().st_size for path in weight_files(encoder.engine.file)),
                score=None,
                score_in_batches=None,
                cosine=float(cosines.mean()),
                least_cosine=float(cosines.min()),
                other_predictions=None,
                ways={way: BatchEffect.of(list(alone), list(each), decide=None) for way, each in found.items()},
            )
        )
    return rows


def _open(target: Target, cores: int) -> TextEncoder:
    return TextEncoder(target.directory, target.runtime, cores=cores)


def _alone(encoder: TextEncoder, texts: list[str]) -> torch.Tensor:
    return torch.as_tensor(encoder.encode(texts, batch_size=1, show_progress_bar=True))


def _in_company(
    encoder: TextEncoder, texts: list[str], *, size: int, beside: Sequence[str] = (), description: str
) -> torch.Tensor:
    """Vectors of texts in batches of a size, in a shuffled order.

    Args:
        beside: texts that are in every batch, and whose vectors nobody asks for.
    """
    order = random.Random(size).sample(range(len(texts)), len(texts))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    vectors = torch.empty(len(texts), encoder.get_sentence_embedding_dimension())
    for batch in track(batches, total=len(batches), description=description):
        together = [*(texts[place] for place in batch), *beside]
        found = torch.as_tensor(encoder.encode(together, token_budget=_NO_BUDGET))
        vectors[batch] = found[: len(batch)]
    return vectors
