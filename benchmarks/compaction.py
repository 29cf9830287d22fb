"""What cleaning costs: `python -m benchmarks.compaction [--json FILE] [--megabytes 1000]`.

A compacted topic is filled and left dirty; then records are sent to another topic, one after the other, while nothing
is cleaned and then while the first topic is. The rate is the broker's own figure; five million keys are cleaned by
themselves. Ends with 1 when a figure is beyond its limit.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.broker import machine
from benchmarks.figures import Check
from levada import Admin, Producer
from levada.client.admin import ConfigResource, NewTopic
from tests.brokers import BrokerProcess

DIRTY, OTHER = "dirty", "other"
VALUE_BYTES = 1_000
KEYS = 100_000
QUIET_SECONDS = 5.0
P99_ALLOWED = 2.0
RATE_WANTED = 50.0
MEMORY_ALLOWED = 300.0
MANY_KEYS = 5_000_000
CLEANED = re.compile(r"cleaned log=\S+dirty-0 .* bytes=(\d+) .* seconds=([\d.]+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--many-keys", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.many_keys:
        return clean_many_keys()
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        report = {"machine": machine(), **measure(Path(directory), arguments.megabytes)}
    checks = [
        Check("produce p99 while cleaning, to that without", report["p99_ratio"], P99_ALLOWED),
        Check("MB/s cleaned", report["megabytes_per_second"], RATE_WANTED, is_floor=True),
        Check("MB for five million keys", report["many_keys_megabytes"], MEMORY_ALLOWED),
    ]
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


def measure(directory: Path, megabytes: int) -> dict[str, Any]:
    broker = BrokerProcess(directory / "data", "log.cleaner.backoff.ms=50", "log.segment.bytes=104857600").start()
    try:
        fill(broker, megabytes)
        with Producer(broker.bootstrap, linger_ms=0) as producer:
            quiet = latencies(producer, lambda elapsed: elapsed < QUIET_SECONDS)
            with Admin(broker.bootstrap) as admin:
                eager = {ConfigResource.topic(DIRTY): {"min.cleanable.dirty.ratio": "0.01"}}
                admin.incremental_alter_configs(eager).raise_any()
            busy = latencies(producer, lambda _: CLEANED.search(broker.log) is None)
    finally:
        broker.stop()
    found = CLEANED.search(broker.log)
    assert found is not None
    p99 = {"quiet": percentile(quiet), "busy": percentile(busy)}
    return {
        "megabytes": int(found[1]) / 1e6,
        "seconds": float(found[2]),
        "megabytes_per_second": int(found[1]) / 1e6 / float(found[2]),
        "p99_ms": p99,
        "p50_ms": {"quiet": statistics.median(quiet), "busy": statistics.median(busy)},
        "p99_ratio": p99["busy"] / p99["quiet"],
        "many_keys_megabytes": memory_for_many_keys(),
    }


def fill(broker: BrokerProcess, megabytes: int) -> None:
    """With values that do not compress, in a topic that nothing makes dirty enough to be cleaned."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(DIRTY, 1, configs=configs), NewTopic(OTHER, 1)]).raise_any()
    count = megabytes * 1_000_000 // VALUE_BYTES
    value = os.urandom(VALUE_BYTES)
    with Producer(broker.bootstrap, batch_size=500_000, linger_ms=20) as producer:
        for start in range(0, count, 10_000):
            numbers = range(start, min(start + 10_000, count))
            keys = [b"key-%08d" % (number * 7_919 % KEYS) for number in numbers]
            producer.send_many(DIRTY, [value] * len(keys), keys=keys)
        producer.flush()


def latencies(producer: Producer, goes_on: Any) -> list[float]:
    """Milliseconds of one record after the other."""
    found: list[float] = []
    start = last_look = time.perf_counter()
    while True:
        sent = time.perf_counter()
        producer.send(OTHER, b"v" * 100, partition=0).result()
        now = time.perf_counter()
        found.append((now - sent) * 1_000)
        if now - last_look > 0.1:
            last_look = now
            if not goes_on(now - start):
                return found


def percentile(sample: list[float]) -> float:
    return statistics.quantiles(sample, n=100)[98]


def memory_for_many_keys() -> float:
    """Of a process that does nothing else, as a worker does."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compaction", "--many-keys"], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def clean_many_keys() -> int:
    from levada.records import BatchView, build_batch
    from levada.storage.cleaning.cleaner import Cleaner, Order, SourceSegment
    from levada.storage.loading import open_log
    from levada.storage.log_config import LogConfig
    from levada.storage.producers import Origin
    from levada.world.real_disk import RealDisk

    directory = tempfile.mkdtemp(prefix="levada-bench-")
    config, disk = LogConfig(segment_bytes=100 << 20, is_compacted=True), RealDisk()
    log, _ = open_log(disk, f"{directory}/keys-0", config, now_ms=0)
    for start in range(0, MANY_KEYS, 1_000):
        rows = [(0, b"key-%012d" % number, b"v", ()) for number in range(start, start + 1_000)]
        log.append(BatchView(build_batch(rows)), leader_epoch=0, origin=Origin.CLIENT, now_ms=0)
    log.roll(log.end_offset, 0)
    order = Order(
        directory=f"{directory}/keys-0",
        config=config,
        sources=[SourceSegment(one.base_offset, one.size, one.next_offset) for one in log.segments[:-1]],
        first_dirty=0,
        first_uncleanable=log.end_offset,
        now_ms=0,
        last_records={},
        later_aborts=[],
        memory_bytes=134_217_728,
        load_factor=0.9,
        hash_key=os.urandom(16),
    )
    cleaned = Cleaner(disk, order).clean()
    assert cleaned.keys == MANY_KEYS
    shutil.rmtree(directory)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
