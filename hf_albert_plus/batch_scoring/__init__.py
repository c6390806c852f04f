"""Batch scoring on Ray Data: files of texts in, a row of labels and scores for each of their rows out."""
