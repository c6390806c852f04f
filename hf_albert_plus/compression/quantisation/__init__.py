"""Quantisation that is trained for: simulated in fp32, stored in few bits."""
