"""The floor of a table: classifiers without an encoder, a hundred times as fast, which say what an encoder is worth."""
