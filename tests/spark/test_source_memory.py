"""What a task needs in memory does not grow with what it reads."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from levada import Producer

NewTopic = Callable[..., str]
MIB = 1024 * 1024
SMALL_ROWS, LARGE_ROWS, VALUE_BYTES = 20_000, 260_000, 1_024
MOST_MORE_BYTES = 64 * MIB
"""Less than a quarter of what the large range has: a few fetches and what is decoded of one."""

TASK = """
import resource, sys
from levada.spark.source.batch import TopicReader
from levada.spark.source.ranges import OffsetRange
bootstrap, topic, end = sys.argv[1:]
reader = TopicReader({"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
rows = sum(batch.num_rows for batch in reader.read(OffsetRange(topic, 0, 0, int(end))))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak_bytes(bootstrap: str, topic: str, rows: int) -> int:
    """Of a process that reads so many rows, as a task does."""
    said = subprocess.run(
        [sys.executable, "-c", TASK, bootstrap, topic, str(rows)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found, peak = said.stdout.split()
    assert int(found) == rows
    return int(peak)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_task_needs_no_more_memory_for_a_large_range(bootstrap: str, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic()
    # Zeros: of what is compressed very well, a fetch brings very much.
    values = [bytes(VALUE_BYTES)] * 10_000
    with Producer(bootstrap, compression_type=codec, batch_size=500_000, linger_ms=5) as producer:
        for _ in range(LARGE_ROWS // len(values)):
            producer.send_many(topic, values).result()
    small = peak_bytes(bootstrap, topic, SMALL_ROWS)
    large = peak_bytes(bootstrap, topic, LARGE_ROWS)
    assert large - small < MOST_MORE_BYTES, f"{small // MIB} MiB for little, {large // MIB} MiB for much"
