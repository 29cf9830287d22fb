"""What a leader refuses of a produced batch, with which code, and which records it blames."""

import struct
from typing import Any

import pytest
from crc32c import crc32c

from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    CorruptRecord,
    InvalidRecord,
    RecordsRefused,
    RecordTooLarge,
    UnsupportedCompressionType,
)
from levada.records import BatchView, Codec, build_batch, compress, with_log_append_time
from levada.records.record import RecordInput
from levada.records.varint import encode_varint, encode_varlong
from levada.storage.log_config import LogConfig
from levada.storage.validation import MAX_LISTED, check_plain, validate

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
MAX_INT64 = 2**63 - 1

RECORDS: list[RecordInput] = [
    (NOW_MS, b"key", b"value", [("header", b"content")]),
    (NOW_MS + 5, b"key", b"value", ()),
    (NOW_MS + 3, b"", None, ()),
]
KEYLESS: list[RecordInput] = [(NOW_MS, None, b"v", ()), (NOW_MS, b"k", b"v", ()), (NOW_MS, None, b"v", ())]
COMPACTED = LogConfig(is_compacted=True)
LOG_APPEND_TIME = LogConfig(uses_log_append_time=True)
BATCH = build_batch(RECORDS)


def checked(data: bytes, config: LogConfig | None = None, *, allows_zstd: bool = True) -> BatchView:
    return validate(data, config or LogConfig(), allows_zstd=allows_zstd, now_ms=NOW_MS, topic_partition="topic-3")


def refused(data: bytes, config: LogConfig | None = None) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        checked(data, config)
    return caught.value


def with_field(batch: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    return with_crc(changed)


def with_body(batch: bytes, body: bytes) -> bytes:
    changed = bytearray(batch[:61] + body)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    return with_crc(changed)


def with_crc(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4)
    return bytes(batch)


def damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


# Batches as a whole


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_stored_as_it_was_sent(codec: Codec, kind: Any) -> None:
    data = kind(build_batch(RECORDS, codec=codec))
    assert checked(data).buffer is data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(damaged(BATCH), CorruptRecord, id="checksum"),
        pytest.param(b"", InvalidRecord, id="nothing"),
        pytest.param(BATCH[:60], InvalidRecord, id="cut off within the header"),
        pytest.param(BATCH[:-1], InvalidRecord, id="cut off"),
        pytest.param(BATCH + BATCH, InvalidRecord, id="two batches"),
        pytest.param(with_field(BATCH, 16, ">b", 1), InvalidRecord, id="format 1"),
        pytest.param(with_field(BATCH, 0, ">q", 7), InvalidRecord, id="base offset"),
        pytest.param(with_field(BATCH, 57, ">i", 0), InvalidRecord, id="no records"),
        pytest.param(with_field(BATCH, 57, ">i", 2), InvalidRecord, id="count against last offset delta"),
        pytest.param(with_field(BATCH, 21, ">h", 0x20), InvalidRecord, id="control"),
        pytest.param(with_field(BATCH, 21, ">h", 0x10), InvalidRecord, id="transactional without a producer"),
        pytest.param(with_field(BATCH, 43, ">q", 7), InvalidRecord, id="producer without a sequence"),
        pytest.param(with_field(BATCH, 21, ">h", 6), UnsupportedCompressionType, id="codec 6"),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused(data: bytes, error: type[ApiError]) -> None:
    with pytest.raises(error) as caught:
        checked(data)
    assert type(caught.value) is error


def test_a_transactional_batch_of_a_producer_passes() -> None:
    data = build_batch(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert checked(data).is_transactional


def test_zstd_needs_a_client_that_knows_it() -> None:
    data = build_batch(RECORDS, codec=Codec.ZSTD)
    assert checked(data).codec is Codec.ZSTD
    with pytest.raises(UnsupportedCompressionType):
        checked(data, allows_zstd=False)
    assert checked(build_batch(RECORDS, codec=Codec.LZ4), allows_zstd=False).codec is Codec.LZ4


@pytest.mark.parametrize("codec", Codec)
def test_the_largest_batch_has_exactly_the_topics_size(codec: Codec) -> None:
    data = build_batch(RECORDS, codec=codec)
    assert checked(data, LogConfig(max_message_bytes=len(data))).size == len(data)
    with pytest.raises(RecordTooLarge):
        checked(data, LogConfig(max_message_bytes=len(data) - 1))


def test_size_is_looked_at_before_the_checksum_and_after_the_shape() -> None:
    small = LogConfig(max_message_bytes=len(BATCH) - 1)
    with pytest.raises(RecordTooLarge):
        checked(damaged(BATCH), small)
    for data in (BATCH + BATCH, BATCH + b"\x00", with_field(BATCH, 16, ">b", 1)):
        with pytest.raises(InvalidRecord):
            checked(data, small)
    with pytest.raises(InvalidRecord):
        checked(BATCH[:60], LogConfig(max_message_bytes=1))


# The inside of records


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(BATCH[61:] + b"\x00", id="a byte too many"),
        pytest.param(BATCH[61:-1], id="a byte too few"),
        pytest.param(b"\x0e" + BATCH[62:], id="wrong length"),
        pytest.param(b"", id="nothing"),
    ],
)
@pytest.mark.parametrize("codec", Codec)
def test_malformed_records_under_a_right_checksum_are_invalid_and_not_worth_a_retry(codec: Codec, body: bytes) -> None:
    data = with_body(build_batch(RECORDS, codec=codec), compress(codec, body))
    with pytest.raises(InvalidRecord):
        checked(data, COMPACTED)


@pytest.mark.parametrize("codec", list(Codec)[1:])
@pytest.mark.parametrize("topic", ["compacted", "uncompressed"])
def test_records_that_do_not_decompress_are_invalid_where_they_are_opened(codec: Codec, topic: str) -> None:
    data = with_body(build_batch(RECORDS, codec=codec), b"certainly no compressed data")
    config = COMPACTED if topic == "compacted" else LogConfig(compression="uncompressed")
    with pytest.raises(InvalidRecord):
        checked(data, config)
    assert checked(data).buffer is data


def test_wrong_offsets_inside_are_refused_where_they_cannot_be_stored_as_sent() -> None:
    plain, compressed = (
        build_batch(RECORDS, codec=codec, offset_deltas=[1, 2, 3], last_offset_delta=2)
        for codec in (Codec.NONE, Codec.GZIP)
    )
    assert checked(plain, COMPACTED).buffer is plain
    with pytest.raises(InvalidRecord):
        checked(plain, LogConfig(compression="gzip"))
    for config in (COMPACTED, LogConfig(compression="uncompressed")):
        with pytest.raises(InvalidRecord):
            checked(compressed, config)


# Keys


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_lists_the_records_without_a_key(codec: Codec) -> None:
    error = refused(build_batch(KEYLESS, codec=codec), COMPACTED)
    text = "Compacted topic cannot accept message without key in topic partition topic-3"
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.record_errors == [(0, text), (2, text)]
    assert str(error) == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, message='{text}'), RecordError(batchIndex=2, message='{text}')]"
    )


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("append_time", [False, True])
def test_keys_matter_to_compacted_topics_alone(codec: Codec, append_time: bool) -> None:
    keyless, keyed = build_batch(KEYLESS, codec=codec), build_batch(RECORDS, codec=codec)
    assert checked(keyless, LogConfig(uses_log_append_time=append_time)).record_count == 3
    config = LogConfig(is_compacted=True, uses_log_append_time=append_time)
    assert checked(keyed, config).record_count == 3
    assert refused(keyless, config).code == ErrorCode.INVALID_RECORD


def test_a_refusal_names_only_three_records_in_its_text() -> None:
    error = refused(build_batch([(NOW_MS, None, b"v", ())] * 5), COMPACTED)
    assert len(error.record_errors) == 5
    assert "due to 5 record errors" in str(error)
    assert str(error).count("RecordError(") == 3


# Timestamps


@pytest.mark.parametrize("codec", Codec)
def test_timestamps_may_reach_the_bounds_but_not_beyond(codec: Codec) -> None:
    config = LogConfig(max_timestamp_age_ms=1000, max_timestamp_lead_ms=500)
    edge: list[RecordInput] = [(NOW_MS - 1000, b"k", b"v", ()), (NOW_MS + 500, b"k", b"v", ())]
    assert checked(build_batch(edge, codec=codec), config).record_count == 2
    for beyond in (NOW_MS - 1001, NOW_MS + 501):
        error = refused(build_batch([*edge, (beyond, b"k", b"v", ())], base_timestamp=beyond, codec=codec), config)
        assert error.code == ErrorCode.INVALID_TIMESTAMP
        assert str(error) == "One or more records have been rejected due to invalid timestamp"
        bounds = f"[{NOW_MS - 1000}, {NOW_MS + 500}]"
        text = f"Timestamp {beyond} of message with offset 2 is out of range. The timestamp should be within {bounds}"
        assert error.record_errors == [(2, text)]


def test_by_default_only_the_future_is_bounded_to_an_hour() -> None:
    assert checked(build_batch([(0, b"k", b"v", ()), (NOW_MS + HOUR_MS, b"k", b"v", ())])).record_count == 2
    late = build_batch([(NOW_MS + HOUR_MS + 1, b"k", b"v", ())])
    assert refused(late).code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", Codec)
def test_bounds_do_not_apply_where_the_broker_sets_the_time(codec: Codec) -> None:
    data = build_batch([(0, b"k", b"v", ()), (MAX_INT64, b"k", b"v", ())], codec=codec)
    config = LogConfig(uses_log_append_time=True, max_timestamp_age_ms=0, max_timestamp_lead_ms=0)
    assert checked(data, config).max_timestamp == NOW_MS


@pytest.mark.parametrize("codec", Codec)
def test_records_without_a_time_are_in_no_bounds(codec: Codec) -> None:
    data = build_batch([(-1, b"k", b"v", ()), (NOW_MS, b"k", b"v", ())], codec=codec)
    config = LogConfig(max_timestamp_age_ms=10)
    assert checked(data, config).buffer is data
    error = refused(build_batch([(-1, b"k", b"v", ()), (-2, b"k", b"v", ())], codec=codec), config)
    assert [index for index, _ in error.record_errors] == [1]


def test_a_compressed_batch_is_judged_by_its_header_unless_it_is_opened() -> None:
    late: list[RecordInput] = [(NOW_MS, b"k", b"v", ()), (NOW_MS + 2 * HOUR_MS, b"k", b"v", ())]
    data = build_batch(late, codec=Codec.LZ4, max_timestamp=NOW_MS)
    assert checked(data).buffer is data
    for config in (COMPACTED, LogConfig(compression="zstd")):
        assert [index for index, _ in refused(data, config).record_errors] == [1]


def test_a_header_that_lies_about_its_times_is_put_right_from_the_records() -> None:
    data = build_batch(RECORDS, codec=Codec.GZIP, max_timestamp=NOW_MS + 2 * HOUR_MS)
    assert checked(data).max_timestamp == NOW_MS + 5
    assert checked(data).crc_is_valid()


def test_both_faults_of_a_batch_are_listed_and_the_timestamp_decides_the_code() -> None:
    late = NOW_MS + HOUR_MS + 1
    data = build_batch([(late, None, b"v", ()), (late, b"k", b"v", ())])
    error = refused(data, COMPACTED)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [text.split()[0] for _, text in error.record_errors] == ["Compacted", "Timestamp"]
    assert refused(build_batch([(late, None, b"v", ())]), COMPACTED).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("base", "delta"), [(MAX_INT64, 1), (MAX_INT64, MAX_INT64), (-(2**63), -1)])
def test_a_sum_beyond_64_bits_is_refused_even_by_a_topic_without_bounds(base: int, delta: int) -> None:
    fields = b"\x00" + encode_varlong(delta) + b"\x00\x02k\x01\x00"
    body = encode_varint(len(fields)) + fields
    data = with_body(with_field(build_batch([(NOW_MS, b"k", None, ())]), 27, ">q", base), body)
    with pytest.raises(ApiError) as caught:
        checked(data, LogConfig(max_timestamp_lead_ms=MAX_INT64))
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP


# What is put right


def test_a_wrong_maximum_timestamp_is_put_right() -> None:
    corrected = checked(build_batch(RECORDS, max_timestamp=NOW_MS + 1_000_000))
    assert bytes(corrected.buffer) == BATCH


def test_the_maximum_of_times_before_1970_is_no_timestamp() -> None:
    assert checked(build_batch([(-5, b"k", b"v", ())])).max_timestamp == -1


@pytest.mark.parametrize("codec", Codec)
def test_append_time_is_stamped_on_the_batch(codec: Codec) -> None:
    stored = checked(build_batch([(NOW_MS - 5, b"k", b"v", ())] * 2, codec=codec), LOG_APPEND_TIME)
    assert stored.is_log_append_time
    assert stored.codec is codec
    assert stored.crc_is_valid()
    assert [record.timestamp_ms for record in stored.records()] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("codec", Codec)
def test_a_producer_may_not_set_the_append_time_of_a_topic_that_has_it(codec: Codec) -> None:
    claimed = with_log_append_time(BatchView(build_batch(RECORDS, codec=codec)), NOW_MS - 9)
    error = refused(claimed, LOG_APPEND_TIME)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1, 2]


@pytest.mark.parametrize("codec", Codec)
def test_elsewhere_its_claim_is_dropped_and_the_records_times_count(codec: Codec) -> None:
    data = build_batch(RECORDS, codec=codec)
    for claim in (NOW_MS - 9, NOW_MS + 5):
        assert bytes(checked(with_log_append_time(BatchView(data), claim)).buffer) == data
    late = build_batch([(NOW_MS + 2 * HOUR_MS, b"k", b"v", ())], codec=codec)
    assert refused(with_log_append_time(BatchView(late), NOW_MS)).code == ErrorCode.INVALID_TIMESTAMP


# Bounds on the work


def test_the_list_of_refused_records_ends_somewhere() -> None:
    count = 1_000_000
    record = bytes([12, 0, 0, 0, 1, 1, 0])
    data = with_body(build_batch(RECORDS[:1], codec=Codec.ZSTD), compress(Codec.ZSTD, record * count))
    data = with_field(with_field(data, 57, ">i", count), 23, ">i", count - 1)
    error = refused(data, COMPACTED)
    assert len(error.record_errors) == MAX_LISTED
    assert f"due to {count} record errors" in str(error)
    claimed = with_log_append_time(BatchView(data), NOW_MS)
    assert len(refused(claimed, LOG_APPEND_TIME).record_errors) == MAX_LISTED


# The fast path


BATCHES = {
    "plain": BATCH,
    "without a time": build_batch([(-1, None, None, ())]),
    "early": build_batch([(NOW_MS - 2 * HOUR_MS, b"k", b"v", ())]),
    "late": build_batch([(NOW_MS + 2 * HOUR_MS, b"k", b"v", ())]),
    "compressed": build_batch(RECORDS, codec=Codec.LZ4),
    "wrong maximum": build_batch(RECORDS, max_timestamp=NOW_MS + 4),
    "stamped": build_batch(RECORDS, log_append_time_ms=NOW_MS),
    "idempotent": build_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0),
    "transactional": build_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
    "large": build_batch([(NOW_MS, None, bytes(2_000), ())]),
    "damaged": damaged(BATCH),
    "damaged record": with_body(BATCH, BATCH[61:-1]),
    "based elsewhere": build_batch(RECORDS, base_offset=5),
}


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(max_message_bytes=1_000),
        LogConfig(max_timestamp_age_ms=HOUR_MS, max_timestamp_lead_ms=HOUR_MS),
        LogConfig(compression="lz4"),
        COMPACTED,
        LOG_APPEND_TIME,
    ],
    ids=["small", "bounded times", "compressing", "compacted", "log append time"],
)
@pytest.mark.parametrize("name", BATCHES)
def test_the_fast_path_takes_what_is_stored_as_it_is_and_of_no_producer(name: str, config: LogConfig) -> None:
    """Both ask the same rule; a difference would be a batch that one stores and the other refuses."""
    data = BATCHES[name]
    try:
        stored = checked(data, config)
        is_as_sent = stored.buffer is data and config.stores_as_produced
    except ApiError:
        is_as_sent = False
    has_state = name in ("idempotent", "transactional")
    # An attribute, or a time out of bounds that means none: a closer look finds nothing to change.
    is_left_to_it = name == "compressed" or (name == "without a time" and config.max_timestamp_age_ms == HOUR_MS)
    plain = check_plain(memoryview(bytearray(data)), config, NOW_MS)
    assert (plain is not None) == (is_as_sent and not has_state and not is_left_to_it)
    if plain is not None:
        assert plain == (BatchView(data).last_offset_delta, BatchView(data).max_timestamp)
