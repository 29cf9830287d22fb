"""Sends a table of cases to both brokers and names every field in which their answers differ."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from levada.protocol.api import ApiKey
from tests.interop.differential.answers import ABSENT, NONE, PRESENT, SOME
from tests.interop.differential.cases import Case, Table
from tests.interop.differential.sides import LiveSide

READING = {
    ApiKey.METADATA,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.DESCRIBE_PRODUCERS,
}
"""Asked again while the answers differ: Apache's broker learns a little later what its controller has decided."""

SETTLE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Difference:
    case: str
    version: int
    field: str
    apache: str
    ours: str


def report(differences: Sequence[Difference]) -> str:
    """One entry for a difference that several versions share."""
    versions: dict[tuple[str, str, str, str], list[int]] = {}
    for one in differences:
        versions.setdefault((one.case, one.field, one.apache, one.ours), []).append(one.version)
    lines = [f"{len(versions)} differences"]
    for (case, field, apache, ours), numbers in versions.items():
        named = ",".join(map(str, numbers))
        lines += [f"{case} (v{named}) {field}", f"    apache {apache}", f"    ours   {ours}"]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A difference that is meant to be; case, field and answers are patterns."""

    table: str
    case: str
    field: str
    reason: str
    apache: str = "*"
    ours: str = "*"

    def covers(self, table: str, difference: Difference) -> bool:
        return self.table == table and all(
            fnmatchcase(value, pattern.replace("[", "[[]"))
            for value, pattern in (
                (difference.case, self.case),
                (difference.field, self.field),
                (difference.apache, self.apache),
                (difference.ours, self.ours),
            )
        )


class Comparison:
    """Two brokers, and which of the accepted differences were met."""

    def __init__(self, apache: LiveSide, ours: LiveSide, accepted: Sequence[Accepted]) -> None:
        self._apache = apache
        self._ours = ours
        self._accepted = accepted
        self.met: set[Accepted] = set()

    async def run(self, table: Table) -> list[Difference]:
        try:
            await asyncio.gather(self._apache.prepare(table), self._ours.prepare(table))
            found = []
            for case in table.cases:
                for version in table.versions_of(case):
                    found += await self._compare(table, case, version)
            return found
        finally:
            self._apache.close()
            self._ours.close()

    async def _compare(self, table: Table, case: Case, version: int) -> list[Difference]:
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            theirs, mine = await asyncio.gather(self._apache.answer(case, version), self._ours.answer(case, version))
            found = [Difference(case.name, version, *difference) for difference in _differences(theirs, mine)]
            unexpected = [one for one in found if not self._accept(table, one)]
            repeats = table.api_of(case) in READING and case.may_settle
            if not unexpected or not repeats or time.monotonic() > deadline:
                return unexpected
            await asyncio.sleep(0.05)

    def _accept(self, table: Table, difference: Difference) -> bool:
        covering = [one for one in self._accepted if one.covers(table.name, difference)]
        self.met.update(covering)
        return bool(covering)


def _differences(theirs: Mapping[str, str], mine: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """A list or a member that only one of them has is named, but not its fields."""
    lone = ""
    for field in sorted({*theirs, *mine}):
        apache, ours = theirs.get(field, ABSENT), mine.get(field, ABSENT)
        if apache == ours or (lone and field.startswith(lone)):
            continue
        if {apache, ours} in ({PRESENT, ABSENT}, {SOME, NONE}):
            lone = field
        yield field, apache, ours
