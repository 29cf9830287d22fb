"""`levada configs`: describes and changes the settings of topics, brokers, groups and clients."""

from levada.cli.configs.command import run
from levada.cli.configs.flags import add_arguments

__all__ = [
    "add_arguments",  # the tool's flags
    "run",  # what they ask for
]
