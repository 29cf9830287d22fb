"""What the transactions and the marker of one write are called."""

from dataclasses import dataclass
from urllib.parse import quote

from levada.client.types import TopicPartition

PREFIX = "levada-spark-"
"""Everything that the sink names at brokers begins so; access rules may go by it."""

MARKER_PARTITION = TopicPartition("__transaction_state", 0)
"""Whose offset the marker is: brokers that have transactions have this partition, and it is never deleted."""


@dataclass(frozen=True, slots=True)
class WriteName:
    """Of a query, of an application with numbered writes, or of a single write.

    >>> WriteName.of_query("6b7f").driver_id, WriteName.of_query("6b7f").task_id(3, 0, partition_count=50)
    ('levada-spark-6b7f/driver', 'levada-spark-6b7f/3-0~4')
    """

    text: str
    """Without a slash, so that no name is the beginning of another."""

    @classmethod
    def of_query(cls, query_id: str) -> "WriteName":
        return cls(quote(query_id, safe=""))

    @classmethod
    def of_application(cls, app_id: str, topic: str | None) -> "WriteName":
        """Each topic has versions of its own: one version may be written to several."""
        return cls(f"{quote(app_id, safe='')}@{quote(topic or '*', safe='')}")

    @property
    def prefix(self) -> str:
        """All transactional ids of the write begin so, and no other's."""
        return f"{PREFIX}{self.text}/"

    @property
    def driver_id(self) -> str:
        return f"{self.prefix}driver"

    @property
    def marker_group(self) -> str:
        return f"{PREFIX}{self.text}"

    def task_id(self, partition: int, attempt: int, *, partition_count: int) -> str:
        """Of one attempt at a task, with the coordinator that the driver's has.

        The same ids serve batch after batch: brokers keep every id for days.
        """
        from levada.client.producer import salted_id

        return salted_id(f"{self.prefix}{partition}-{attempt}", self.driver_id, partition_count)

    def partition_of(self, task_id: str) -> int | None:
        """Of the task that has an id of this write; None for the driver.

        >>> name = WriteName.of_query("6b7f")
        >>> name.partition_of(name.task_id(3, 0, partition_count=50)), name.partition_of(name.driver_id)
        (3, None)
        """
        partition, has_attempt, _ = task_id.removeprefix(self.prefix).partition("-")
        return int(partition) if has_attempt else None


@dataclass(frozen=True, slots=True)
class BatchMarker:
    """The number that a batch leaves behind, in the same decision that makes it visible."""

    number: int
    is_exact: bool
    """Whether a higher one means that something is wrong, not just that the batch was written before."""
