"""A small English-like grammar and the GLUE-shaped data that the demo makes from it. Nothing here comes from a corpus."""
