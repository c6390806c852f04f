"""Settings of conversions and of starting points."""

from typing import Literal

Initialisation = Literal["auto", "average", "first", "svd", "random", "embeddings"]
# How the layers that a block stands for become one.
Combination = Literal["average", "first", "svd"]
# What a classifier reads of a text: its first token, or the mean of its tokens.
Pooling = Literal["first", "mean"]
# The vector of a text: the mean of its tokens, or its first one, in the words of the library sentence-transformers.
SentencePooling = Literal["mean", "cls"]
