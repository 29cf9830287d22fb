"""The compiled kernel and its twin agree on a million records drawn from a fixed seed."""

import random

from levada.records import _kernel, pure
from levada.records.record import RecordInput, RecordSection

TOTAL = 1_000_000
BATCH = 5_000
NAMES = ("trace-id", "größe", "")


def test_kernel_and_twin_agree_on_a_million_records() -> None:
    source = random.Random(20_240_229)
    for start in range(0, TOTAL, BATCH):
        records = random_records(source)
        base_timestamp = records[0][0]
        body = _kernel.encode(records, base_timestamp)
        assert body == pure.encode(records, base_timestamp)
        part = RecordSection(body, BATCH, start, base_timestamp, None)
        found = _kernel.decode(*part)
        assert found == pure.decode(*part)
        assert [record[1:] for record in found] == records
        # The twin takes its time: the other two readers see every third batch, to end well within a minute.
        if start % (3 * BATCH) == 0:
            assert _kernel.scan(body, BATCH) == pure.scan(body, BATCH)
            assert _kernel.decode_columns([part]) == pure.decode_columns([part])


def random_records(source: random.Random) -> list[RecordInput]:
    """A batch of records; sizes, nulls, headers and time steps vary, and slices of one pool make it fast."""
    pool = source.randbytes(1 << 16)
    numbers = iter(memoryview(source.randbytes(8 * BATCH)).cast("H"))
    records: list[RecordInput] = []
    now_ms = source.randrange(2**41)
    for step, at, size, shape in zip(numbers, numbers, numbers, numbers):
        key = None if shape % 5 == 0 else pool[at : at + shape % 31]
        value = None if shape % 11 == 0 else pool[at : at + (size if shape % 499 == 0 else size % 150)]
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if shape % 8 == 0:
            headers = tuple((name, None if step & 1 else pool[at : at + 9]) for name in NAMES[: shape % 3 + 1])
        now_ms += step - 30_000 if shape % 7 == 0 else step & 3
        timestamp_ms = source.randrange(-(2**63), 2**63) if shape % 97 == 0 else now_ms
        records.append((timestamp_ms, key, value, headers))
    return records
