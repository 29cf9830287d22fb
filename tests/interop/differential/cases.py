"""What a case is: a named request that Apache's broker and ours get alike, and how a table of them is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from levada.protocol.api import ApiKey, stable_versions

UNKNOWN_ID = b"unknown id here."
"""16 bytes that are no topic's id at either broker."""


class Side(Protocol):
    """One of the two brokers, for what a request must take from it."""

    version: int
    """Of the API that the request is for."""
    session_id: int
    """Of the fetch session that was opened last."""
    producer_id: int
    """The one that was given last."""

    def topic_id(self, name: str) -> bytes: ...

    def leader_epoch(self, topic: str) -> int:
        """Of the topic's first partition."""
        ...

    def identity(self, transactional_id: str) -> tuple[int, int]:
        """Producer id and epoch that were given last for a transactional id."""
        ...

    def member(self, group: str, case: str) -> str:
        """The id that the case of that name was given when it joined the group."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerOf:
    """Stands for the answer that a parked case of that name has been waiting for."""

    case: str


@dataclass(frozen=True, slots=True)
class Volley:
    """Stands for requests that are sent on one connection without waiting for each other's answers."""

    requests: Sequence[Any]


T = TypeVar("T")
Build = Callable[[Side], Any]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    request: Build
    versions: Sequence[int] | None = None
    """None stands for the lowest and the newest."""
    api: ApiKey | None = None
    """None stands for the table's."""
    is_answered: bool = True
    """False for a produce request without acks: compared is whether the connection lives on."""
    is_parked: bool = False
    """Sent without waiting for its answer, which a later case with AnswerOf has."""
    may_settle: bool = True
    """False where asking again would hide what a first answer says."""


def each(
    given: Mapping[str, T],
    build: Callable[[Side, T], Any],
    *,
    prefix: str = "",
    versions: Sequence[int] | None = None,
    api: ApiKey | None = None,
) -> list[Case]:
    """A case for each of several things that are sent in the same way."""

    def case(what: str, thing: T) -> Case:
        return Case(prefix + what, lambda side: build(side, thing), versions=versions, api=api)

    return [case(what, thing) for what, thing in given.items()]


EVERY = range(100)
"""Of the versions, all that are served."""


def since(version: int) -> range:
    return range(version, EVERY.stop)


def until(version: int) -> range:
    return range(version + 1)


@dataclass(frozen=True, slots=True)
class Table:
    """Cases in the order in which they are sent; later ones may see what earlier ones did."""

    name: str
    api: ApiKey
    cases: Sequence[Case]
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Topics that are there before the first case, and their configurations; all have PARTITIONS partitions."""

    is_about_groups: bool = False
    """Wants the coordinator of groups to be there."""

    is_about_transactions: bool = False
    """Wants the coordinator of transactions to be there, and that of groups."""

    def api_of(self, case: Case) -> ApiKey:
        return self.api if case.api is None else case.api

    def versions_of(self, case: Case) -> Sequence[int]:
        served = stable_versions(self.api_of(case))
        if case.versions is None:
            return sorted({served[0], served[-1]})
        return [version for version in case.versions if version in served]


PARTITIONS = 2
