"""Text for pretraining: corpora of examples, and the tokenizers that cut it."""
