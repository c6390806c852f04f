"""What heads on whole sequences read of hidden states: the first token, or the mean of the real ones. N sequences in packed rows."""

import torch

from .layers_albert_plus import sequence_begins


def read_sequences(hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None, *, pooling: str) -> torch.Tensor:
    """Hidden states `[B, S, H]` and a mask `[B, S]` with 1 at real tokens -> what a row is read by, `[B, H]`.

    The mean is that of Sentence-BERT (Reimers and Gurevych, 2019, section 3): padding counts for nothing, so it is the same
    however far a row is padded. Half precision is summed in fp32.

    Raises:
        ValueError: a mean under a mask that does not say which tokens are real.
    """
    if pooling == "first":
        return hidden_BSH[:, 0]
    summed = torch.promote_types(hidden_BSH.dtype, torch.float32)
    if attention_mask_BS is None:
        return hidden_BSH.mean(dim=1, dtype=summed).to(hidden_BSH.dtype)
    if attention_mask_BS.dim() != 2:
        raise ValueError(
            f"pooling 'mean' needs an attention_mask [batch, sequence], got {list(attention_mask_BS.shape)}; "
            "give 1 at real tokens and 0 at padding"
        )
    real_BS = attention_mask_BS.to(summed)
    shares_BS = real_BS / real_BS.sum(dim=1, keepdim=True).clamp(min=1)
    return (hidden_BSH.to(summed) * shares_BS[..., None]).sum(dim=1).to(hidden_BSH.dtype)


def read_packed_sequences(
    hidden_BSH: torch.Tensor,
    first_positions_N: torch.Tensor,
    sequence_ids_BS: torch.Tensor,
    attention_mask_BS: torch.Tensor | None,
    pooling: str,
) -> torch.Tensor:
    """Hidden states `[B, S, H]` of rows that hold several sequences -> what each of these is read by, `[N, H]`.

    Args:
        first_positions_N: the first tokens of the wanted sequences among the B·S.
        sequence_ids_BS: the number of each token's sequence; those of one sequence stand side by side.
    """
    hidden_TH = hidden_BSH.flatten(0, 1)
    if pooling == "first":
        return hidden_TH[first_positions_N]
    numbers_T = sequence_begins(sequence_ids_BS, attention_mask_BS).flatten().cumsum(dim=0) - 1
    summed = torch.promote_types(hidden_BSH.dtype, torch.float32)
    sums_TH = torch.zeros_like(hidden_TH, dtype=summed).index_add(0, numbers_T, hidden_TH.to(summed))
    counts_T = torch.zeros_like(numbers_T).index_add(0, numbers_T, torch.ones_like(numbers_T))
    wanted_N = numbers_T[first_positions_N]
    return (sums_TH[wanted_N] / counts_T[wanted_N, None]).to(hidden_BSH.dtype)
