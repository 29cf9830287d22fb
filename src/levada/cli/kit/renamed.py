"""Flags that have a newer name: Kafka still takes the old one, with a line about it."""

import argparse

from levada.cli.kit.refusals import WrongUsage


def move_renamed(arguments: argparse.Namespace, old: str, new: str, line: str) -> None:
    """What was given by the old flag stands under the new one; `line`, which may name {old} and {new}, is printed.

    Both at once is wrong usage. The attributes are named after the flags.
    """
    given = getattr(arguments, _attribute(old))
    if given in (None, []):
        return
    if getattr(arguments, _attribute(new)) not in (None, []):
        raise WrongUsage(f"{old} is the old name of {new}: give only {new}")
    print(line.format(old=old, new=new))
    setattr(arguments, _attribute(new), given)


def _attribute(flag: str) -> str:
    """
    >>> _attribute("--producer.config")
    'producer_config'
    """
    return flag.removeprefix("--").replace("-", "_").replace(".", "_")
