"""Writes docs/configuration.md from the definitions of the keys: `python -m tools.configuration [--check]`."""

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from levada.cli.serve import DEFAULTS
from levada.model.broker_keys import BROKER_KEYS, NODE_KEYS
from levada.model.config import Key
from levada.model.group_keys import GROUP_KEYS
from levada.model.key_meanings import BROKER_MEANINGS, NOTES, group_meaning, topic_meaning
from levada.model.legacy_keys import LEGACY_KEYS
from levada.model.topic_keys import TOPIC_KEYS

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"

FLAGS = {"listeners": "--listen", "log.dirs": "--data-dir", "node.id": "--node-id"}

HEAD = """\
# Configuration

This page is generated (`make docs`) from the definitions that a broker checks its configuration with, and a test keeps
it current.

Keys are Kafka's. They come from `--config FILE` (a `server.properties`), then `--set KEY=VALUE`, then the flags of
`levada serve`; the later wins. Names, types, defaults and ranges of all of Kafka 4.3's broker keys are known, and of
those that Kafka 4 dropped with ZooKeeper: a name that is not among them is refused with the nearest one that is, and so
is a value out of its range. The keys below have an effect; any other is accepted with one warning line.

A key is *read-only* (given at start), *per-broker* (can be set for one broker while it runs) or *cluster-wide* (for one
broker, or for all at once). What is set for one broker wins over what is set for all, that over what was given at
start, and that over the default. A topic's own key wins over all of them. Where several keys say the same
(`log.retention.ms`, `.minutes`, `.hours`), the finest unit that has a value wins.

## Keys with an effect

| key | type | default | range | change | meaning |
| --- | --- | --- | --- | --- | --- |
"""

TOPICS = """
## Keys of topics

All of them can be set when a topic is created and changed at any time. The default is that of the broker's key, and
what that holds counts where a topic says nothing.

| key | type | default | range | broker's key | meaning |
| --- | --- | --- | --- | --- | --- |
"""

NOTED = """
## Keys whose name promises more

| keys | what they mean here |
| --- | --- |
"""

REST = """
## Keys without an effect

Known, checked, accepted:

"""

LEGACY = """
Of the time before Kafka 4:

"""

GROUPS = """
## Keys of groups

All of them can be set for a group at any time, before it has members too, and count at once. The default is that of the
broker's key, and what that holds counts where a group says nothing. The broker bounds what a group may choose with the
keys `group.*.min.*` and `group.*.max.*`; a session timeout must be greater than the heartbeat interval beside it.

| key | type | default | range | broker's key | meaning |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    effective = [key for key in NODE_KEYS if key.name in BROKER_MEANINGS]
    silent = [key for key in BROKER_KEYS if key.name not in BROKER_MEANINGS and key.name not in NOTES]
    dropped = [key for key in LEGACY_KEYS if key.name not in BROKER_MEANINGS]
    return "".join(
        (
            HEAD,
            *(_row(key, key.dynamic, BROKER_MEANINGS[key.name]) for key in effective),
            TOPICS,
            *(_row(key, _code(key.broker_default), topic_meaning(key.name)) for key in TOPIC_KEYS),
            GROUPS,
            *(_row(key, _code(key.broker_default), group_meaning(key.name)) for key in GROUP_KEYS),
            NOTED,
            *(f"| {_names_with(note)} | {note} |\n" for note in dict.fromkeys(NOTES.values())),
            REST,
            _names(silent),
            LEGACY,
            _names(dropped),
        )
    )


def _row(key: Key, change: str, meaning: str) -> str:
    range_ = str(key.range) if key.range else None
    return f"| `{key.name}` | {key.type} | {_default(key)} | {_code(range_)} | {change} | {meaning} |\n"


def _default(key: Key) -> str:
    if key.name in FLAGS:
        return f"{_code(DEFAULTS[key.name])} (`{FLAGS[key.name]}`)"
    return _code(key.format(key.default))


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _names_with(note: str) -> str:
    return ", ".join(f"`{name}`" for name, text in NOTES.items() if text == note)


def _names(keys: Iterable[Key]) -> str:
    names = ", ".join(f"`{key.name}`" for key in keys)
    return textwrap.fill(names, width=120, break_long_words=False, break_on_hyphens=False) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
