"""Tests of graphs that are opened by onnxruntime itself, or whose int8 products stay signed."""

import pytest

from hf_albert_plus.engines.unsigned_weights import saturates

exact_int8 = pytest.mark.skipif(
    saturates(), reason="onnxruntime adds int8 products in 16 bits on this processor, which has no VNNI"
)
