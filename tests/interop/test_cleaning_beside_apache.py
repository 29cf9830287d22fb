"""One log, cleaned by Apache's broker and by us: the same batches with the same records are left."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levada import Admin, Producer
from levada.client.admin import ConfigResource, NewTopic
from levada.records import BatchView
from levada.storage.checkpoint import read_offsets
from levada.storage.cleaning.cleaner import Cleaner, Order, SourceSegment
from levada.storage.cleaning.filtering import LastRecord
from levada.storage.cleaning.swapping import Swap
from levada.storage.loading import open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import CLEAN_ENDS
from levada.storage.open_files import OpenFiles
from levada.world.real_disk import RealDisk
from tests.cleaning import swap_in
from tests.interop.apache_broker import SETTINGS, ApacheBroker
from tests.tools.stages import wait_until

pytestmark = pytest.mark.usefixtures("apache_jars")

SEGMENT_BYTES = 1 << 20
RETENTION_MS = 3_600_000
LAZY, EAGER = {"min.cleanable.dirty.ratio": "1.0"}, {"min.cleanable.dirty.ratio": "0.01"}
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES, is_compacted=True, delete_retention_ms=RETENTION_MS)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KEYS = 500


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, apache_jars: None) -> Iterator[ApacheBroker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SETTINGS, "log.cleaner.backoff.ms", 200)
        patch.setitem(SETTINGS, "log.index.interval.bytes", 4096)
        broker = ApacheBroker(tmp_path_factory.mktemp("apache") / "broker")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def fill(broker: ApacheBroker, topic: str, codec: str) -> None:
    """Values, tombstones, committed and aborted transactions, over several segments."""
    configs = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), **LAZY}
    configs["delete.retention.ms"] = str(RETENTION_MS)
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, configs=configs)]).raise_any()
    with Producer(broker.bootstrap, compression_type=codec, batch_size=4_000, linger_ms=2) as producer:
        for number in range(6_000):
            value = None if number % 7 == 0 else number.to_bytes(4) + bytes(number % 251 for _ in range(400))
            producer.send(topic, value, key=b"key-%d" % (number * 7_919 % KEYS), partition=0)
    options: dict[str, Any] = {"compression_type": codec, "transactional_id": f"{topic}-writer"}
    with Producer(broker.bootstrap, **options) as producer:
        producer.init_transactions()
        for transaction in range(10):
            producer.begin_transaction()
            for number in range(200):
                key = b"key-%d" % ((transaction * 200 + number) * 31 % KEYS)
                producer.send(topic, b"%d in %d" % (number, transaction) + bytes(400), key=key, partition=0)
            if transaction % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    # Incompressible, so that all before it is in closed segments.
    with Producer(broker.bootstrap) as producer:
        for number in range(40):
            producer.send(topic, random_bytes(number), key=b"last-%d" % number, partition=0)


def random_bytes(seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(60_000)


def described(log: Log) -> list[tuple[Any, ...]]:
    """Every batch below the active segment, but for what depends on the time or on a compressor."""
    found = []
    for segment in log.segments[:-1]:
        for place in segment.headers():
            batch = segment.read_batch(place)
            batch.validate()
            found.append(_described(batch))
    return found


def _described(batch: BatchView) -> tuple[Any, ...]:
    header = (batch.base_offset, batch.last_offset, batch.attributes, batch.partition_leader_epoch)
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.max_timestamp)
    return (*header, *producer, [tuple(record) for record in batch.records()])


def opened(directory: Path) -> tuple[Log, OpenFiles]:
    files = OpenFiles(RealDisk())
    log, cuts = open_log(RealDisk(), str(directory), CONFIG, now_ms=time.time_ns() // 1_000_000, files=files)
    assert cuts == []
    log.set_high_watermark(log.end_offset)
    return log, files


def clean(log: Log, files: OpenFiles) -> None:
    order = Order(
        directory=log.directory,
        config=CONFIG,
        sources=[SourceSegment(one.base_offset, one.size, one.next_offset) for one in log.segments[:-1]],
        first_dirty=0,
        first_uncleanable=log.active.base_offset,
        now_ms=time.time_ns() // 1_000_000,
        last_records={one: LastRecord(*last) for one, last in log.producers.last_records().items()},
        later_aborts=list(log.active.transactions.entries()),
        memory_bytes=134_217_728,
        load_factor=0.9,
        hash_key=bytes(16),
    )
    for group in Cleaner(RealDisk(), order).clean().groups:
        assert swap_in(Swap(RealDisk(), files, log, group, order.ending))


@pytest.mark.parametrize("codec", CODECS)
def test_both_leave_the_same(broker: ApacheBroker, tmp_path: Path, codec: str) -> None:
    topic = f"cleaned-{codec}"
    fill(broker, topic, codec)
    directory = broker.data_directory / f"{topic}-0"
    shutil.copytree(directory, tmp_path / "ours-0")
    ours, files = opened(tmp_path / "ours-0")
    before = described(ours)
    clean(ours, files)
    with Admin(broker.bootstrap) as admin:
        admin.incremental_alter_configs({ConfigResource.topic(topic): EAGER}).raise_any()
    active = ours.active.base_offset

    def is_clean() -> bool:
        return read_offsets(RealDisk(), str(broker.data_directory), CLEAN_ENDS).get((topic, 0), 0) >= active

    wait_until(is_clean, 60)
    shutil.copytree(directory, tmp_path / "theirs-0", ignore=shutil.ignore_patterns("*.deleted"))
    theirs, _ = opened(tmp_path / "theirs-0")
    assert [segment.base_offset for segment in ours.segments] == [segment.base_offset for segment in theirs.segments]
    assert len(described(ours)) < len(before)
    assert described(ours) == described(theirs)
