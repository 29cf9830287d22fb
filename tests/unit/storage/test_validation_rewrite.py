"""Batches whose topic stores another codec: every record stays, and no batch grows without bounds."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.model.error_codes import ErrorCode
from levada.model.errors import RecordTooLarge
from levada.records import BatchView, Codec, Record, build_batch, compress
from levada.records.record import RecordInput
from levada.storage.log_config import LogConfig
from levada.storage.validation import MAX_OPENED, validate
from tests.unit.storage.test_validation import KEYLESS, NOW_MS, RECORDS, checked, refused, with_body

TARGETS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
HEADER_FIELDS = (
    "base_offset",
    "base_sequence",
    "base_timestamp",
    "last_offset_delta",
    "max_timestamp",
    "partition_leader_epoch",
    "producer_epoch",
    "producer_id",
    "record_count",
)


def header(batch: BatchView) -> list[int]:
    return [getattr(batch, name) for name in HEADER_FIELDS]


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", TARGETS)
def test_a_batch_takes_the_codec_of_its_topic_and_keeps_all_else(source: Codec, target: str) -> None:
    data = build_batch(RECORDS, codec=source, producer_id=9, producer_epoch=3, base_sequence=77, is_transactional=True)
    stored = checked(data, LogConfig(compression=target))
    if source == TARGETS[target]:
        assert stored.buffer is data
        return
    assert stored.codec is TARGETS[target]
    assert stored.attributes == TARGETS[target] | 0x10
    assert stored.size == len(stored.buffer)
    stored.validate()
    assert header(stored) == header(BatchView(data))
    assert stored.records() == BatchView(data).records()


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", TARGETS)
def test_append_time_and_codec_may_both_change(source: Codec, target: str) -> None:
    data = build_batch([(NOW_MS - 5, b"k", b"v", ())] * 2, codec=source)
    stored = checked(data, LogConfig(compression=target, uses_log_append_time=True))
    assert stored.codec is TARGETS[target]
    stored.validate()
    assert stored.base_timestamp == NOW_MS - 5
    assert stored.records() == [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, b"k", b"v")]


@pytest.mark.parametrize("target", TARGETS)
def test_keys_are_wanted_of_a_rewritten_batch_too(target: str) -> None:
    for source in Codec:
        config = LogConfig(compression=target, is_compacted=True)
        assert refused(build_batch(KEYLESS, codec=source), config).code == ErrorCode.INVALID_RECORD


def test_a_rewritten_batch_has_its_maximum_timestamp_put_right() -> None:
    data = build_batch(RECORDS, codec=Codec.LZ4, max_timestamp=NOW_MS)
    stored = checked(data, LogConfig(compression="gzip"))
    assert stored.max_timestamp == NOW_MS + 5
    stored.validate()


def test_a_rewritten_batch_has_no_mark_of_the_cleaner() -> None:
    data = build_batch([(NOW_MS, b"k", b"v", ())], delete_horizon_ms=NOW_MS)
    assert checked(data, LogConfig(compression="gzip")).attributes == Codec.GZIP


@pytest.mark.parametrize(("target", "level"), [("gzip", 1), ("lz4", 1), ("lz4", 17), ("zstd", -131072), ("zstd", 22)])
def test_the_topics_level_is_used_and_harmless(target: str, level: int) -> None:
    records: list[RecordInput] = [(NOW_MS, b"key", str(number**9).encode(), ()) for number in range(1000)]
    data = build_batch(records)
    stored = checked(data, LogConfig(compression=target, compression_level=level))
    assert stored.records() == BatchView(data).records()
    assert bytes(stored.buffer) == build_batch(records, codec=TARGETS[target], level=level)
    assert stored.size != checked(data, LogConfig(compression=target)).size


@pytest.mark.parametrize("source", list(Codec)[1:])
def test_a_batch_that_grows_beyond_the_topics_size_is_too_large(source: Codec) -> None:
    records: list[RecordInput] = [(NOW_MS, b"k", bytes(10_000), ())]
    data, plain = build_batch(records, codec=source), build_batch(records)
    fits = LogConfig(compression="uncompressed", max_message_bytes=len(plain))
    assert bytes(checked(data, fits).buffer) == plain
    with pytest.raises(RecordTooLarge):
        checked(data, LogConfig(compression="uncompressed", max_message_bytes=len(plain) - 1))


def test_compressing_does_not_excuse_a_batch_that_came_too_large() -> None:
    data = build_batch([(NOW_MS, b"k", bytes(10_000), ())])
    with pytest.raises(RecordTooLarge):
        checked(data, LogConfig(compression="zstd", max_message_bytes=len(data) - 1))


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("config", [LogConfig(is_compacted=True), LogConfig(compression="lz4")])
def test_a_small_batch_that_holds_256_mib_is_refused_before_it_takes_them(
    codec: Codec, config: LogConfig, traced: None
) -> None:
    part = compress(codec, bytes(16 << 20))
    bomb = with_body(build_batch(RECORDS, codec=codec), part * 16)
    assert len(bomb) < (9 << 10 if codec is Codec.ZSTD else 300 << 10)
    tracemalloc.reset_peak()
    with pytest.raises(RecordTooLarge, match="compressed records hold more than"):
        checked(bomb, config)
    assert tracemalloc.get_traced_memory()[1] < MAX_OPENED + (1 << 20)


def test_a_topic_opens_what_it_would_take_uncompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levada.storage.validation.MAX_OPENED", 1000)
    data = build_batch([(NOW_MS, b"k", bytes(10_000), ())], codec=Codec.ZSTD)
    assert checked(data, LogConfig(is_compacted=True)).record_count == 1
    with pytest.raises(RecordTooLarge):
        checked(data, LogConfig(is_compacted=True, max_message_bytes=2000))


BLOBS = st.none() | st.binary(max_size=200)
RECORD = st.tuples(
    st.integers(-1, NOW_MS + 1000),
    st.binary(max_size=20),
    BLOBS,
    st.lists(st.tuples(st.text(max_size=20), BLOBS), max_size=3).map(tuple),
)


@given(
    records=st.lists(RECORD, min_size=1, max_size=20),
    source=st.sampled_from(Codec),
    target=st.sampled_from(sorted(TARGETS)),
    is_compacted=st.booleans(),
    sequence=st.integers(-1, 2**31 - 1),
)
def test_rewriting_keeps_every_record(
    records: list[RecordInput], source: Codec, target: str, is_compacted: bool, sequence: int
) -> None:
    producer_id = -1 if sequence < 0 else 5
    data = build_batch(records, codec=source, producer_id=producer_id, base_sequence=sequence)
    config = LogConfig(compression=target, is_compacted=is_compacted)
    stored = validate(memoryview(data), config, allows_zstd=True, now_ms=NOW_MS)
    stored.validate()
    assert stored.codec is TARGETS[target]
    assert header(stored) == header(BatchView(data))
    assert [record[1:] for record in stored.records()] == records
    assert [record.offset for record in stored.records()] == list(range(len(records)))
