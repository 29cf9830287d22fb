"""How this tool tells of what brokers refuse: on stdout and with exit code 0, as scripts know it from Apache's."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from levada.cli.consumer_groups import java_errors
from levada.cli.kit.refusals import Refused
from levada.client.errors import KafkaError


class Failed(Refused):
    """Something that ends the command, in Apache's words."""


@contextmanager
def told_as_apache_does(
    arguments: argparse.Namespace, spell: Callable[[KafkaError], str] = java_errors.spelled
) -> Iterator[None]:
    """Around an action. Where --json is asked for, a refusal is no JSON: it goes the way of all other tools'."""
    try:
        yield
    except KafkaError as error:
        if arguments.json or not java_errors.is_known(error):
            raise
        _print_failure(spell(error))
    except Failed as failure:
        if arguments.json:
            raise
        _print_failure(str(failure))


def _print_failure(reason: str) -> None:
    print_error(f"Executing consumer group command failed due to {reason}")


def print_error(text: str) -> None:
    print(f"\nError: {text}")
