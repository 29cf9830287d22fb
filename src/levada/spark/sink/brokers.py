"""What the sink asks brokers that are not told rows: what they can do, the marker, open transactions."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

from levada.client.admin import TransactionState
from levada.client.blocking import Admin
from levada.client.errors import KafkaError
from levada.client.producer import TransactionTicket
from levada.client.producer.group_commit import TRANSACTION_TOPIC
from levada.spark.sink.kept import kept_admin
from levada.spark.sink.names import MARKER_PARTITION, WriteName
from levada.spark.sink.options import SinkOptions

logger = logging.getLogger("levada.spark")

MOST_TASKS = 999
"""A group commit has at most 1,000 members, and the driver's marker is one."""

LOOK_AGAIN_SECONDS = 0.1
TOPIC_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Abilities:
    can_commit_groups: bool
    coordinator_count: int
    """Partitions of `__transaction_state`: each is a coordinator."""


_known: dict[str, Abilities] = {}
"""By bootstrap servers. Spark's Python workers live for many tasks, and this does not change."""


def abilities(options: SinkOptions) -> Abilities:
    servers = options.settings["bootstrap.servers"]
    found = _known.get(servers)
    if found is None:
        with kept_admin(options) as admin:
            can = admin.can_commit_groups()
            found = Abilities(can, _coordinator_count(admin) if can else 0)
        _known[servers] = found
    return found


def read_marker(admin: Admin, name: WriteName, *, is_stable: bool, timeout_ms: float | None = None) -> int | None:
    """The number of the last batch that is visible; None if there is none.

    With `is_stable` a marker in an open transaction is waited for. Only the driver may do that, after it has ended the
    transaction of every older driver: others would wait for one that is gone.
    """
    offsets = admin.list_group_offsets(
        {name.marker_group: [MARKER_PARTITION]}, require_stable=is_stable, timeout_ms=timeout_ms
    )
    marker = offsets[name.marker_group].get(MARKER_PARTITION)
    return None if marker is None else marker.offset


def end_open(admin: Admin, name: WriteName) -> None:
    """End whatever is still open of a write: losers of speculation, failed attempts, tasks of a driver that is gone.

    What was decided is not touched: only open transactions are listed, and one that is committed meanwhile stays so.
    """
    ids = _open_ids(admin, name)
    if ids:
        admin.fence_producers(ids).raise_any()


def has_room(options: SinkOptions, name: WriteName) -> bool:
    """Whether one more task of a write can be committed with those that have written: attempts count as their task."""
    with kept_admin(options) as admin:
        return len({name.partition_of(each) for each in _open_ids(admin, name)} - {None}) < MOST_TASKS


def too_many_tasks(count: int | str) -> str:
    return (
        f"{count} tasks have written rows, and {MOST_TASKS} can be committed as one: "
        f"write fewer partitions, as coalesce({MOST_TASKS}) does"
    )


def abort_reported(admin: Admin, tickets: Iterable[TransactionTicket]) -> bool:
    """Abort exactly these transactions; False if one of them is not the reporter's any more."""
    outcomes = admin.abort_handed_over(tickets)
    for error in outcomes.errors.values():
        logger.info("not aborted: %s", error)
    return not outcomes.errors


def _open_ids(admin: Admin, name: WriteName) -> list[str]:
    ongoing = admin.list_transactions(states=[TransactionState.ONGOING])
    return [each.transactional_id for each in ongoing if each.transactional_id.startswith(name.prefix)]


def _coordinator_count(admin: Admin) -> int:
    give_up_at = time.monotonic() + TOPIC_SECONDS
    while True:
        described = admin.describe_topics([TRANSACTION_TOPIC])
        if TRANSACTION_TOPIC not in described.errors:
            return len(described[TRANSACTION_TOPIC].partitions)
        if time.monotonic() > give_up_at:
            raise KafkaError(f"topic {TRANSACTION_TOPIC} did not come to be: {described.errors[TRANSACTION_TOPIC]}")
        # Brokers make it when a client asks for a coordinator; whether the id is known does not matter.
        admin.describe_transactions([MARKER_PARTITION.topic])
        time.sleep(LOOK_AGAIN_SECONDS)
