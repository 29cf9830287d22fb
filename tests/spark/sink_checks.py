"""What tests of the sink look at: the records of a topic, its offsets, and transactions that are left."""

from collections.abc import Mapping

from levada import Admin, Consumer
from levada.client.admin import IsolationLevel, OffsetSpec, TransactionState
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord

POLL_SECONDS = 1.0


def partitions_of(bootstrap: str, topic: str) -> list[TopicPartition]:
    with Admin(bootstrap) as admin:
        described = admin.describe_topics([topic])[topic]
    return [TopicPartition(topic, index) for index in range(len(described.partitions))]


def end_offsets(bootstrap: str, topic: str, isolation: IsolationLevel) -> dict[TopicPartition, int]:
    """The last stable offsets with read_committed, the high watermarks with read_uncommitted."""
    partitions = partitions_of(bootstrap, topic)
    with Admin(bootstrap) as admin:
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), isolation_level=isolation)
        return {partition: found[partition].offset for partition in partitions}


def committed_records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """All that a reader of committed records sees, up to the last stable offsets of now."""
    ends = end_offsets(bootstrap, topic, IsolationLevel.READ_COMMITTED)
    with Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign(list(ends))
        records: list[ConsumerRecord] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records += consumer.poll(POLL_SECONDS)
    return records


def values(bootstrap: str, topic: str) -> list[str]:
    """The values of committed records, sorted."""
    return sorted((record.value or b"").decode() for record in committed_records(bootstrap, topic))


def numbers(bootstrap: str, topic: str) -> list[int]:
    return sorted(int(value) for value in values(bootstrap, topic))


def open_transactions(bootstrap: str) -> list[str]:
    with Admin(bootstrap) as admin:
        found = admin.list_transactions(states=[TransactionState.ONGOING])
    return [each.transactional_id for each in found]


def check_nothing_hangs(bootstrap: str, topic: str) -> None:
    """No transaction is open, and readers of committed records get to the end."""
    assert open_transactions(bootstrap) == []
    assert end_offsets(bootstrap, topic, IsolationLevel.READ_COMMITTED) == end_offsets(
        bootstrap, topic, IsolationLevel.READ_UNCOMMITTED
    )


def sink_options(bootstrap: str, **options: str) -> Mapping[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, **options}
