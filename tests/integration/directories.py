"""A broker with three directories of logs, and what tests ask of it again and again."""

from pathlib import Path

from levada import Admin, Producer
from levada.client.admin import ConfigResource, NewTopic, Replica
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.tools.stages import wait_until

NAMES = ("a", "b", "c")
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SEGMENT_BYTES = 100_000
SLOW = SEGMENT_BYTES // 2
"""Bytes in a second with which no test waits for the end of a move."""


def three_directories(root: Path, *settings: str) -> BrokerProcess:
    first, *more = (root / name for name in NAMES)
    return BrokerProcess(first, "offsets.topic.num.partitions=1", *settings, more_directories=more)


class Moving:
    """The one partition of a topic, which is moved between the directories of a broker."""

    def __init__(self, broker: BrokerProcess, admin: Admin, topic: str) -> None:
        self.broker = broker
        self.admin = admin
        self.topic = topic
        self.root = broker.data_directory.parent
        self.partition = TopicPartition(topic, 0)
        self.replica = Replica(topic, 0, 1)

    def create(self, **configs: str) -> "Moving":
        """With names of keys whose dots are written `_`."""
        given = {name.replace("_", "."): value for name, value in configs.items()}
        # Records are as old as is convenient, and stay.
        configs = {"internal.segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1", **given}
        self.admin.create_topics([NewTopic(self.topic, 1, configs=configs)]).raise_any()
        return self

    def fill(self, size: int) -> int:
        """Records of a kilobyte each, of which every batch has one; returns their count."""
        count = size // 1_000
        with Producer(self.broker.bootstrap, batch_size=1_000, linger_ms=0) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d-" % number + b"x" * 900, partition=0, timestamp_ms=1_000 * number)
            producer.flush()
        return count

    def move_to(self, name: str) -> None:
        self.admin.alter_replica_log_dirs({self.replica: str(self.root / name)}).raise_any()

    @property
    def place(self) -> str:
        """The name of the directory that has the log."""
        path = self.admin.describe_replica_log_dirs([self.replica])[self.replica].path
        return "" if path is None else Path(path).name

    @property
    def target(self) -> str:
        """The name of the directory that it moves to."""
        path = self.admin.describe_replica_log_dirs([self.replica])[self.replica].future_path
        return "" if path is None else Path(path).name

    def arrive_in(self, name: str) -> None:
        wait_until(lambda: (self.place, self.target) == (name, ""))
        # The old log goes when the controller knows of the new one.
        wait_until(lambda: [one for one in NAMES if (self.root / one / f"{self.topic}-0").exists()] == [name])

    def directories(self) -> list[str]:
        """What lies in the directories under the topic's name, and is not about to be removed."""
        return sorted(
            f"{path.parent.name}/{path.name}"
            for name in NAMES
            for path in (self.root / name).glob(f"{self.topic}-*")
            if not path.name.endswith("-delete")
        )


def limit_moves(admin: Admin, bytes_per_second: int | None) -> None:
    """For all moves of the broker from now on; None takes the limit away."""
    rate = None if bytes_per_second is None else str(bytes_per_second)
    admin.incremental_alter_configs({ConfigResource.broker(1): {RATE: rate}}).raise_any()
