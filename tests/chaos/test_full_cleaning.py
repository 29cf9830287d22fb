"""A disk that is full while a log is cleaned: said, nothing lost, nothing left about, and done when there is room."""

import os
import re
from pathlib import Path

from levada import Admin, Consumer, Producer
from levada.client.admin import ConfigResource, NewTopic
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.chaos.test_full_disk import BALLAST_BYTES
from tests.tools.stages import wait_until

TOPIC = "compacted"
KEYS = 2_000
SETTINGS = ("log.cleaner.backoff.ms=300", "log.segment.delete.delay.ms=100", "log.index.size.max.bytes=65536")
LAZY = {"cleanup.policy": "compact", "internal.segment.bytes": "200000", "min.cleanable.dirty.ratio": "1.0"}
LEFT_BYTES = 100_000
FAILED = re.compile(r"cleaning failed log=\S+ reason=.*(?:the disk took|No space left).*; it is tried again")
CLEANED = "INFO levada.node.cleaning cleaned log="


def last_offsets(broker: BrokerProcess) -> dict[bytes | None, int]:
    partition = TopicPartition(TOPIC, 0)
    found: dict[bytes | None, int] = {}
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            found.update((record.key, record.offset) for record in consumer.poll(1.0))
    return found


def test_a_full_disk_delays_a_cleaning_and_harms_nothing(small_disk: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(small_disk / "data", *SETTINGS)
    # Where there is room for it.
    broker.log_path = tmp_path / "broker.log"
    broker.start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, configs=LAZY)]).raise_any()
            with Producer(broker.bootstrap, linger_ms=0, batch_size=2_000) as producer:
                for number in range(KEYS + 500):
                    producer.send(TOPIC, os.urandom(200), key=b"key-%d" % (number % KEYS), partition=0)
            room = os.statvfs(small_disk)
            more = room.f_bavail * room.f_frsize - LEFT_BYTES
            (small_disk / "ballast").write_bytes(bytes(BALLAST_BYTES + more))
            eager = {ConfigResource.topic(TOPIC): {"min.cleanable.dirty.ratio": "0.01"}}
            admin.incremental_alter_configs(eager).raise_any()
        # The disk takes a part of a write, or nothing of it: either is said.
        wait_until(lambda: len(FAILED.findall(broker.log)) > 1)
        assert CLEANED not in broker.log
        expected = last_offsets(broker)
        assert len(expected) == KEYS
        (small_disk / "ballast").unlink()
        wait_until(lambda: CLEANED in broker.log)
        assert last_offsets(broker) == expected
        names = [path.name for path in (broker.data_directory / f"{TOPIC}-0").iterdir()]
        assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []
        assert broker.stop() == 0
        assert "Traceback" not in broker.log
    finally:
        broker.kill()
