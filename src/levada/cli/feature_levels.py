"""The features of Apache Kafka 4.3, their levels, and the releases that brought them."""

from dataclasses import dataclass, field
from typing import Final

METADATA_VERSION: Final = "metadata.version"
LATEST_RELEASE: Final = "4.3-IV0"
FIRST_LEVEL: Final = 7

VERSIONS: Final = dict(
    enumerate(
        (
            "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
            "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0",
            "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1",
            "4.3-IV0", "4.4-IV0",
        ),
        FIRST_LEVEL,
    )
)  # fmt: skip
"""By level of `metadata.version`; the last one is not yet released."""

LEVELS: Final = {version: level for level, version in VERSIONS.items()}


@dataclass(frozen=True, slots=True)
class Feature:
    since: tuple[int, ...]
    """The `metadata.version` by which each level, from 0 on, is the one that a new cluster begins with."""
    needs: dict[int, dict[str, int]] = field(default_factory=dict)
    """Levels of other features that must be in force before a level can be."""


FEATURES: Final = {
    "kraft.version": Feature((FIRST_LEVEL, LEVELS["3.9-IV0"])),
    "transaction.version": Feature((FIRST_LEVEL, LEVELS["4.0-IV2"], LEVELS["4.0-IV2"])),
    "group.version": Feature((FIRST_LEVEL, LEVELS["4.0-IV0"])),
    "eligible.leader.replicas.version": Feature(
        (FIRST_LEVEL, LEVELS["4.1-IV0"]), {1: {METADATA_VERSION: LEVELS["4.0-IV1"]}}
    ),
    "share.version": Feature((FIRST_LEVEL, LEVELS["4.2-IV0"])),
    "streams.version": Feature((FIRST_LEVEL, LEVELS["4.2-IV1"])),
}


class UnknownVersion(Exception):
    """A release, feature or level that is not in these tables; the text says which."""


def level_of_release(release: str) -> int:
    """The `metadata.version` of a release, given as 4.1, 4.1.2 or 4.1-IV0.

    >>> level_of_release("3.7"), level_of_release("3.7.1"), level_of_release("3.7-IV2")
    (19, 19, 17)
    """
    key = ".".join(release.split(".")[:2])
    if key in LEVELS:
        return LEVELS[key]
    latest = LEVELS[LATEST_RELEASE]
    found = [level for level, version in VERSIONS.items() if level <= latest and version.partition("-")[0] == key]
    if not found:
        raise UnknownVersion(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(LEVELS)}"
        )
    return max(found)


def default_levels(release: str) -> dict[str, int]:
    """The levels of all features in a cluster that begins with a release.

    >>> default_levels("4.0")["group.version"], default_levels("3.9")["group.version"]
    (1, 0)
    """
    metadata_level = level_of_release(release)
    levels = {METADATA_VERSION: metadata_level}
    for name, feature in FEATURES.items():
        levels[name] = max(level for level, since in enumerate(feature.since) if since <= metadata_level)
    return levels


def dependencies(name: str, level: int) -> dict[str, int]:
    """The levels of other features that a level needs."""
    if name == METADATA_VERSION:
        if level not in VERSIONS:
            raise UnknownVersion(f"Unknown metadata.version {level}")
        return {}
    if name not in FEATURES:
        raise UnknownVersion(f"Unknown feature: {name}")
    if not 0 <= level < len(FEATURES[name].since):
        raise UnknownVersion(f"No feature:{name} with feature level {level}")
    return FEATURES[name].needs.get(level, {})


def spelled_level(name: str, level: int) -> str:
    """
    >>> spelled_level("metadata.version", 30), spelled_level("metadata.version", 99), spelled_level("group.version", 1)
    ('4.3-IV0', 'UNKNOWN 99', '1')
    """
    if name != METADATA_VERSION:
        return str(level)
    return VERSIONS.get(level, f"UNKNOWN {level}")
