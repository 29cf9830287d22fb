"""Damaged records of `__consumer_offsets` are read, skipped, or refused with one kind of error."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.coordination.decision import Record
from levada.groups.record_text import text_of
from levada.groups.records import OffsetCommitKey, OffsetCommitValue, decode, encode
from levada.protocol.codec import decode_prefix
from levada.protocol.errors import MalformedMessage
from levada.protocol.messages.consumer_protocol import decode_assignment, decode_subscription

GOLDEN: list[Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "golden" / "records" / "consumer-offsets.json").read_text()
)
PAIRS = [(base64.b64decode(one["key"]), base64.b64decode(one["value"])) for one in GOLDEN if one["value"]]

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=40)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, *, cuts: bool = True) -> bytes:
    data = bytearray(whole)
    for position in draw(st.lists(st.integers(0, len(data) - 1), max_size=3)):
        data[position] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) if cuts else bytes(data)


@given(pair=st.sampled_from(PAIRS), data=st.data())
@settings(max_examples=1_000, deadline=None)
def test_damage_is_one_kind_of_error(pair: tuple[bytes, bytes], data: st.DataObject) -> None:
    key, value = data.draw(damaged(pair[0], cuts=False)), data.draw(damaged(pair[1]))
    try:
        decoded = decode(key, value)
    except MalformedMessage:
        decoded = None
    assert decoded is None or isinstance(decoded, Record)
    key_text, _ = text_of(0, key, value)
    assert key_text


@given(
    pair=st.sampled_from([pair for pair in PAIRS if pair[0][1] == 1 and pair[1][1] == 4]),
    cuts=st.booleans(),
    data=st.data(),
)
@settings(max_examples=1_000, deadline=None)
def test_a_commit_is_read_as_the_codec_reads_it(pair: tuple[bytes, bytes], cuts: bool, data: st.DataObject) -> None:
    """The short way that commits take differs in time alone."""
    key, value = (data.draw(damaged(part, cuts=cuts)) for part in pair)
    key, value = pair[0][:2] + key[2:], pair[1][:2] + value[2:]
    try:
        expected = (decode_prefix(OffsetCommitKey, 0, key, 2)[0], decode_prefix(OffsetCommitValue, 4, value, 2)[0])
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode(key, value)
    else:
        assert decode(key, value) == Record(*expected)


@given(data=st.binary(max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_subscription_and_an_assignment_or_malformed(data: bytes) -> None:
    for decode_one in (decode_subscription, decode_assignment):
        for prefix in (b"", b"\0\3", b"\0\0\0\0\0\1\0\1t"):
            try:
                decode_one(prefix + data)
            except MalformedMessage:
                pass


@given(
    key=st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=INT32),
    value=st.builds(
        OffsetCommitValue,
        offset=INT64,
        leader_epoch=INT32,
        metadata=NAMES,
        commit_timestamp=INT64,
        topic_id=st.binary(min_size=16, max_size=16),
    ),
)
@settings(deadline=None)
def test_a_commit_comes_back_as_it_was(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    record = Record(key, value)
    assert decode(*encode(record)) == record
