"""`levada transactions`: lists, describes and ends transactions, and finds those that hang."""

from levada.cli.transactions.command import run
from levada.cli.transactions.flags import add_arguments

__all__ = [
    "add_arguments",  # the commands and their flags
    "run",  # what they ask for
]
