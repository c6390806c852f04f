"""What runs a model: one interface, a file for each runtime, and a classifier that reads texts."""
