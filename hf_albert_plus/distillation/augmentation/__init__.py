"""More training data: copies of the rows with words replaced by likely ones (TinyBERT)."""
