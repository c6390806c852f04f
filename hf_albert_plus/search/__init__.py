"""The search for the smallest and fastest form of a classifier that keeps within a budget: a teacher and a budget in, a model out."""
