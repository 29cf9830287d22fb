"""`levada ps`: the brokers of this user that run on this machine."""

import argparse

from levada.cli.kit.processes import RunningBroker, all_brokers

MINUTE_SECONDS = 60
HOUR_SECONDS = 60 * MINUTE_SECONDS
DAY_SECONDS = 24 * HOUR_SECONDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none: it shows all there are."""


def run(_: argparse.Namespace) -> int:
    for broker in all_brokers():
        print(line_of(broker))
    return 0


def line_of(broker: RunningBroker) -> str:
    directories = ",".join(broker.data_directories) or "?"
    name = broker.name or "broker that does not listen yet"
    return f"{broker.pid}\t{name}\t{directories}\tfor {_duration(broker.seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 2 * MINUTE_SECONDS:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR_SECONDS:
        return f"{seconds / MINUTE_SECONDS:.0f} min"
    if seconds < 2 * DAY_SECONDS:
        return f"{seconds / HOUR_SECONDS:.0f} h"
    return f"{seconds / DAY_SECONDS:.0f} days"
