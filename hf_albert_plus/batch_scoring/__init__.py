"""Batch scoring on Ray Data: files of texts in, a row of labels and scores, or of a vector, for each of their rows out."""
