"""What a model runs on."""

import torch


def fastest_device() -> torch.device:
    """The machine's accelerator, or its CPU."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


__all__ = ["fastest_device"]
