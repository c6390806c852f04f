"""GLUE tasks and data sets in their layout."""

from .data import data_parent, load_split
from .encoding import encode, load_tokenizer, reads_token_types
from .tasks import MATCHING, PROTOCOL, TASKS, Task, get_task

__all__ = [
    "MATCHING",
    "PROTOCOL",
    "TASKS",
    "Task",
    "data_parent",
    "encode",
    "get_task",
    "load_split",
    "load_tokenizer",
    "reads_token_types",
]
