"""`levada consumer-groups`: lists and describes groups of consumers, resets and deletes their offsets."""

from levada.cli.consumer_groups.command import run
from levada.cli.consumer_groups.flags import add_arguments

__all__ = [
    "add_arguments",  # the tool's flags
    "run",  # what they ask for
]
