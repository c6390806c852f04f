"""Graphs in other precisions than fp32."""
