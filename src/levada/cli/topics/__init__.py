"""`levada topics`: creates, changes, deletes, lists and describes topics."""

from levada.cli.topics.command import run
from levada.cli.topics.flags import add_arguments

__all__ = [
    "add_arguments",  # the tool's flags
    "run",  # what they ask for
]
