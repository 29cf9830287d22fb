"""The compiled map of offsets and its pure twin, held together; and both to a plain dictionary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.records import BatchView, CorruptBatch, build_batch
from levada.records._offset_map import OffsetMap as Compiled
from levada.records.offset_map import SLOT_BYTES, OffsetMap, offset_map
from levada.records.pure_offset_map import OffsetMap as Pure

HASH_KEY = bytes(range(16))

keys = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=6, max_size=40))
rows = st.tuples(st.just(1), keys, st.one_of(st.none(), st.binary(max_size=4)), st.just(()))
logs = st.lists(st.lists(rows, min_size=1, max_size=8), max_size=12)


def batches_of(log: list[list[tuple[int, bytes | None, bytes | None, tuple[()]]]]) -> list[BatchView]:
    batches, offset = [], 0
    for records in log:
        batches.append(BatchView(build_batch(records, base_offset=offset)))
        offset += len(records)
    return batches


@given(logs, st.integers(1, 20), st.integers(0, 30), st.booleans())
def test_the_twins_answer_alike_and_know_the_last_of_each_key(
    log: list[list[tuple[int, bytes | None, bytes | None, tuple[()]]]], limit: int, start: int, drops: bool
) -> None:
    compiled, pure = Compiled(limit + 5, limit, HASH_KEY), Pure(limit + 5, limit, HASH_KEY)
    last: dict[bytes, int] = {}
    for batch in batches_of(log):
        noted = [each.note(batch.body, batch.record_count, batch.base_offset, start) for each in (compiled, pure)]
        assert noted[0] == noted[1]
        assert (len(compiled), compiled.latest_offset) == (len(pure), pure.latest_offset)
        if not noted[0]:
            assert len(pure) == limit
            break
        found = [one for one in batch.records() if one.key is not None and one.offset >= start]
        last.update((one.key or b"", one.offset) for one in found)
        assert len(pure) == len(last)
    for batch in batches_of(log):
        sifted = compiled.sift(batch.body, batch.record_count, batch.base_offset, drops)
        assert sifted == pure.sift(batch.body, batch.record_count, batch.base_offset, drops)
        assert sifted.kept == sum(sifted.flags)
        for record, stays in zip(batch.records(), sifted.flags):
            if record.offset > pure.latest_offset:
                assert stays
            elif stays:
                assert record.key is not None
                assert record.offset >= last.get(record.key, -1) or len(pure) == limit


@pytest.mark.parametrize("kind", [Compiled, Pure])
def test_damage_is_refused(kind: type[OffsetMap]) -> None:
    offsets = kind(10, 5, HASH_KEY)
    [batch] = batches_of([[(1, b"key", b"value", ())]])
    for body, count in ((batch.body[:-3], 1), (batch.body, 100), (batch.body, -1)):
        with pytest.raises(CorruptBatch):
            offsets.note(body, count, 0, 0)
        with pytest.raises(CorruptBatch):
            offsets.sift(body, count, 0, False)


def test_memory_is_what_was_asked_for() -> None:
    offsets = offset_map(100 * SLOT_BYTES, 0.75, HASH_KEY)
    [batch] = batches_of([[(1, b"%d" % number, b"", ()) for number in range(100)]])
    assert not offsets.note(batch.body, batch.record_count, 0, 0)
    assert len(offsets) == 75
    assert offsets.latest_offset == 74
    for wrong in ((0, 1), (5, 5), (5, 0)):
        with pytest.raises(ValueError):
            OffsetMap(*wrong, HASH_KEY)
    with pytest.raises(ValueError):
        OffsetMap(5, 3, b"short")
