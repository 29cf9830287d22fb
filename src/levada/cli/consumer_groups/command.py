"""What the flags of `levada consumer-groups` ask for is done here."""

import argparse

from levada.cli.consumer_groups.flags import check
from levada.cli.kit.connecting import admin_for


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    if arguments.validate_regex is not None:
        _validate_regex(arguments.validate_regex)
    elif arguments.reset_offsets:
        _reset(arguments)
    else:
        _ask(arguments)
    return 0


def _reset(arguments: argparse.Namespace) -> None:
    from levada.cli.consumer_groups import java_errors
    from levada.cli.consumer_groups.failing import told_as_apache_does
    from levada.cli.consumer_groups.resetting import reset_offsets
    from levada.cli.consumer_groups.targets import read_target

    # Before anything is asked for: what cannot be read changes nothing.
    target = read_target(arguments)
    with admin_for(arguments) as admin, told_as_apache_does(arguments, java_errors.message):
        reset_offsets(admin, arguments, target)


def _ask(arguments: argparse.Namespace) -> None:
    from levada.cli.consumer_groups.deleting import delete_groups, delete_offsets
    from levada.cli.consumer_groups.describing import describe_groups
    from levada.cli.consumer_groups.failing import told_as_apache_does
    from levada.cli.consumer_groups.listing import list_groups

    with admin_for(arguments) as admin, told_as_apache_does(arguments):
        if arguments.list:
            list_groups(admin, arguments)
        elif arguments.describe:
            describe_groups(admin, arguments)
        elif arguments.delete:
            delete_groups(admin, arguments)
        else:
            delete_offsets(admin, arguments)


def _validate_regex(regex: str) -> None:
    from levada.groups.consumer.regexes import syntax_fault

    fault = syntax_fault(regex)
    if fault is None:
        print(f"The regular expression `{regex}` is valid.")
    else:
        print(f"The regular expression `{regex}` is invalid: {fault}.")
