"""`levada replica-verification`: reads every replica of partitions, and checks that all hold the same."""

from levada.cli.replica_verification.command import add_arguments, run

__all__ = [
    "add_arguments",  # the tool's flags
    "run",  # what they ask for
]
