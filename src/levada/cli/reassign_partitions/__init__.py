"""`levada reassign-partitions`: moves partitions to other brokers and log directories."""

from levada.cli.reassign_partitions.command import run
from levada.cli.reassign_partitions.flags import add_arguments

__all__ = [
    "add_arguments",  # the tool's flags
    "run",  # what they ask for
]
