"""What the common tests of transformers take for given: their markers, and the library's warnings."""

import pytest
import torch
import transformers
from torch._tensor_str import printoptions

MARKERS = (
    "accelerate_tests",
    "flash_attn_test",
    "flash_attn_3_test",
    "flash_attn_4_test",
    "slow",
    "torch_compile_test",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", f"{marker}: of transformers' tests")


@pytest.fixture(autouse=True)
def library_warnings():
    """Some common tests read the library's warnings, which our other tests hold back."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_warning()
    yield
    transformers.logging.set_verbosity(verbosity)


@pytest.fixture(scope="module", autouse=True)
def short_texts_of_tensors():
    """Common tests write a message of two whole tensors for every comparison, whether or not it fails: half of their time."""
    with printoptions(threshold=0, edgeitems=1):
        yield


@pytest.fixture(scope="module", autouse=True)
def no_seeds_for_devices_that_are_not_there():
    """torch keeps every seed of such a device with the stack of who set it, and these tests set thousands."""
    with pytest.MonkeyPatch.context() as patch:
        for device in (torch.cuda, torch.xpu, torch.mtia):
            if not device.is_available():
                patch.setattr(device, "manual_seed_all", lambda seed: None)
        yield
