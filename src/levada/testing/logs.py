"""The log lines of a broker inside a test's process belong to the test's logging, and to nothing else."""

import logging

_SILENT = logging.NullHandler()


def never_print_logs() -> None:
    """Where the test has not set up logging, Python would print warnings to stderr."""
    logging.getLogger("levada").addHandler(_SILENT)
