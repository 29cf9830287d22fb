"""`levada features`: the cluster's feature levels, and what each release of Kafka sets them to."""

import argparse
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from levada.cli.feature_levels import (
    LATEST_RELEASE,
    METADATA_VERSION,
    UnknownVersion,
    default_levels,
    dependencies,
    level_of_release,
    spelled_level,
)
from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import Refused, changing
from levada.cli.kit.terminal import print_json

if TYPE_CHECKING:
    from levada.client.admin import Features, FeatureUpdate
    from levada.client.errors import KafkaError

LEVELS: Final = range(-(2**15), 2**15)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    describe = commands.add_parser("describe", help="print the levels that are supported and in force")
    describe.add_argument("--node-id", metavar="ID", type=natural, help="the broker to ask (default any)")
    upgrade = commands.add_parser("upgrade", help="raise levels")
    downgrade = commands.add_parser("downgrade", help="lower levels")
    disable = commands.add_parser("disable", help="set features to level 0")
    for each in (upgrade, downgrade):
        each.add_argument("--metadata", metavar="VERSION", help="older form of --feature metadata.version=LEVEL")
        each.add_argument(
            "--release-version",
            metavar="VERSION",
            help="set all features to what this release, such as 4.1, begins with",
        )
        each.add_argument("--feature", metavar="NAME=LEVEL", action="append", help="a level; may be repeated")
    disable.add_argument("--feature", metavar="NAME", action="append", help="a feature; may be repeated")
    for each in (downgrade, disable):
        each.add_argument("--unsafe", action="store_true", help="also when metadata is lost by it")
    for each in (upgrade, downgrade, disable):
        each.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
    mapping = commands.add_parser("version-mapping", help="print the levels that a release begins with")
    mapping.add_argument(
        "--release-version", metavar="VERSION", default=LATEST_RELEASE, help=f"default {LATEST_RELEASE}"
    )
    needs = commands.add_parser("feature-dependencies", help="print which levels a level needs")
    needs.add_argument("--feature", metavar="NAME=LEVEL", action="append", required=True, help="may be repeated")
    for each in (describe, mapping, needs):
        each.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    try:
        return COMMANDS[arguments.command](arguments)
    except UnknownVersion as error:
        raise Refused(str(error)) from None


def _describe(arguments: argparse.Namespace) -> int:
    with admin_for(arguments) as admin:
        found = admin.describe_features(broker=arguments.node_id)
    if arguments.json:
        print_json(_document(found))
        return 0
    for line in description_lines(found):
        print(line)
    return 0


def description_lines(features: "Features") -> list[str]:
    """A line for each feature that the broker knows, padded as Apache pads them."""
    epoch = "-" if features.finalized_epoch is None else str(features.finalized_epoch)
    return [
        f"Feature: {name:40}  SupportedMinVersion: {spelled_level(name, supported.lowest):15}"
        f"  SupportedMaxVersion: {spelled_level(name, supported.highest):15}"
        f"  FinalizedVersionLevel: {spelled_level(name, _finalized(features, name)):15}  Epoch: {epoch}"
        for name, supported in sorted(features.supported.items())
    ]


def _finalized(features: "Features", name: str) -> int:
    return features.finalized[name].highest if name in features.finalized else 0


def _document(features: "Features") -> dict[str, object]:
    return {
        "epoch": features.finalized_epoch,
        "features": [
            {
                "name": name,
                "supported_min_version": supported.lowest,
                "supported_max_version": supported.highest,
                "finalized_version_level": _finalized(features, name),
                "finalized_version": spelled_level(name, _finalized(features, name)),
            }
            for name, supported in sorted(features.supported.items())
        ],
    }


def _change(arguments: argparse.Namespace) -> int:
    from levada.client.errors import KafkaError

    updates = wanted_updates(arguments)
    if not updates:
        raise Refused(f"You must specify at least one feature to {arguments.command}")
    errors: dict[str, KafkaError]
    with admin_for(arguments) as admin:
        try:
            with nullcontext() if arguments.dry_run else changing("feature levels were being changed"):
                outcomes = admin.update_features(updates, validate_only=arguments.dry_run)
            errors = outcomes.errors
        except KafkaError as error:
            # What went wrong with the request went wrong with every feature in it.
            errors = dict.fromkeys(updates, error)
    for name, update in sorted(updates.items()):
        print(outcome_line(arguments.command, name, update.level, errors.get(name), is_dry_run=arguments.dry_run))
    if errors:
        raise Refused(f"{len(errors)} out of {len(updates)} operation(s) failed.")
    return 0


def wanted_updates(arguments: argparse.Namespace) -> "dict[str, FeatureUpdate]":
    from levada.client.admin import FeatureUpdate, UpgradeType

    kind = UpgradeType.UPGRADE
    if arguments.command != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if arguments.unsafe else UpgradeType.SAFE_DOWNGRADE
    if arguments.command == "disable":
        levels = _once((name, 0) for name in arguments.feature or ())
    else:
        levels = _wanted_levels(arguments)
    return {name: FeatureUpdate(level, kind) for name, level in levels.items()}


def _wanted_levels(arguments: argparse.Namespace) -> dict[str, int]:
    if arguments.release_version is not None:
        if arguments.metadata is not None or arguments.feature is not None:
            raise Refused("Can not specify `release-version` with other feature flags.")
        levels = default_levels(arguments.release_version)
        # A feature that the release does not turn on is not raised to 0.
        return levels if arguments.command == "downgrade" else {name: level for name, level in levels.items() if level}
    levels = {}
    if arguments.metadata is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA_VERSION] = level_of_release(arguments.metadata)
    return _once([*levels.items(), *map(name_and_level, arguments.feature or ())])


def _once(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name, level in pairs:
        if name in levels:
            raise Refused(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def name_and_level(text: str) -> tuple[str, int]:
    """
    >>> name_and_level("group.version=1")
    ('group.version', 1)
    """
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise Refused(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        number = int(level)
    except ValueError:
        number = LEVELS.stop
    if number not in LEVELS:
        raise Refused(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name, number


def outcome_line(command: str, name: str, level: int, error: "KafkaError | None", *, is_dry_run: bool) -> str:
    if error is not None:
        what = f"disable {name}" if command == "disable" else f"{command} {name} to {level}"
        return f"{'Can' if is_dry_run else 'Could'} not {what}. {error.said or error}"
    what = "disabled." if command == "disable" else f"{command}d to {level}."
    return f"{name} {'can be' if is_dry_run else 'was'} {what}"


def _version_mapping(arguments: argparse.Namespace) -> int:
    levels = default_levels(arguments.release_version)
    if arguments.json:
        print_json({"release_version": arguments.release_version, "levels": levels})
        return 0
    for name, level in levels.items():
        print(f"{name}={level}" + (f" ({arguments.release_version})" if name == METADATA_VERSION else ""))
    return 0


def _feature_dependencies(arguments: argparse.Namespace) -> int:
    asked = [name_and_level(one) for one in arguments.feature]
    if arguments.json:
        print_json(
            {
                "features": [
                    {"name": name, "level": level, "requires": dependencies(name, level)} for name, level in asked
                ]
            }
        )
        return 0
    for name, level in asked:
        needed = dependencies(name, level)
        print(f"{_with_version(name, level)} {'requires:' if needed else 'has no dependencies.'}")
        for other, least in needed.items():
            print(f"    {_with_version(other, least)}")
    return 0


def _with_version(name: str, level: int) -> str:
    return f"{name}={level}" + (f" ({spelled_level(name, level)})" if name == METADATA_VERSION else "")


COMMANDS: Final = {
    "describe": _describe,
    "upgrade": _change,
    "downgrade": _change,
    "disable": _change,
    "version-mapping": _version_mapping,
    "feature-dependencies": _feature_dependencies,
}
