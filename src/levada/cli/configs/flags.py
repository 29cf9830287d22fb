"""The flags of `levada configs`, and the settings that they give."""

import argparse
import re
from typing import Final

from levada.cli.configs.entities import add_entities
from levada.cli.kit.connecting import add_connection
from levada.cli.kit.files import read_properties
from levada.cli.kit.refusals import WrongUsage
from levada.model.timestamp_types import as_kafka_writes

OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
COMMA: Final = re.compile("," + OUTSIDE_BRACKETS)
EQUALS: Final = re.compile(r"\s*=\s*" + OUTSIDE_BRACKETS)
# A logger of Java's inner class has a dollar sign in its name.
KEY: Final = re.compile(r"[$a-zA-Z0-9._-]*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("--describe", action="store_true", help="print settings")
    actions.add_argument("--alter", action="store_true", help="change settings")
    parser.add_argument("--all", action="store_true", help="describe what was never changed too")
    parser.add_argument("--json", action="store_true", help="print a JSON document (with --describe)")
    parser.add_argument(
        "--add-config", metavar="K=V,K=[V,V]", action="append", default=[],
        help="settings and their new values; brackets hold a value with commas together",
    )  # fmt: skip
    parser.add_argument("--add-config-file", metavar="FILE", help="the same from a properties file")
    parser.add_argument(
        "--delete-config", metavar="K,K", action="append", default=[], help="settings that get their defaults back"
    )
    add_entities(parser)


def check(arguments: argparse.Namespace) -> None:
    """WrongUsage for flags that do not go together."""
    changes = {
        "--add-config": arguments.add_config,
        "--add-config-file": arguments.add_config_file,
        "--delete-config": arguments.delete_config,
    }
    given = [flag for flag, value in changes.items() if value]
    if arguments.describe and given:
        raise WrongUsage(f"{given[0]} goes with --alter, not with --describe")
    if arguments.alter and not given:
        raise WrongUsage("--alter needs --add-config, --add-config-file or --delete-config")
    if arguments.alter and arguments.json:
        raise WrongUsage("--json goes with --describe, not with --alter")
    if arguments.add_config and arguments.add_config_file:
        raise WrongUsage("give either --add-config or --add-config-file, not both")


def settings_to_add(arguments: argparse.Namespace) -> dict[str, str]:
    settings: dict[str, str] = {}
    if arguments.add_config_file:
        settings |= read_properties(arguments.add_config_file, "--add-config-file")
    for text in arguments.add_config:
        settings |= parse_settings(text)
    for key in settings:
        if not KEY.fullmatch(key):
            raise WrongUsage(f"{key!r} cannot be the name of a setting: it has other characters than a-z, 0-9, . _ - $")
    return {key: as_kafka_writes(key, value) for key, value in settings.items()}


def parse_settings(text: str) -> dict[str, str]:
    """
    >>> parse_settings("retention.ms=1000,cleanup.policy=[compact,delete]")
    {'retention.ms': '1000', 'cleanup.policy': 'compact,delete'}
    """
    settings = {}
    for one in COMMA.split(text.rstrip(",")):
        key, *values = EQUALS.split(one)
        if len(values) != 1:
            # Without what comes after it: that may be a password.
            raise WrongUsage(f"--add-config: {key!r} is not KEY=VALUE, or KEY=[...] where a value has , or =")
        settings[key.strip()] = values[0].replace("[", "").replace("]", "").strip()
    return settings


def settings_to_delete(arguments: argparse.Namespace) -> list[str]:
    """
    >>> settings_to_delete(argparse.Namespace(delete_config=["retention.ms, cleanup.policy", "segment.ms"]))
    ['retention.ms', 'cleanup.policy', 'segment.ms']
    """
    keys = [key.strip() for text in arguments.delete_config for key in text.split(",")]
    return [key for key in keys if key]
