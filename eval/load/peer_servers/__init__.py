"""Servers that people would use instead, each as its own guide says, for `albert-plus bench serve --peers`.

They run in environments of their own and import nothing of this package: `python FILE MODEL_DIRECTORY GRAPH PORT`.
"""
