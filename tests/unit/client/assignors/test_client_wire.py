"""What consumers send each other, as far as Apache's own bytes do not show it."""

import pytest

from levada.client.assignors import Subscription
from levada.client.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from levada.protocol.errors import MalformedMessage


def test_the_newest_version_is_written() -> None:
    assert encode_subscription(Subscription(["t"]))[:2] == b"\x00\x03"
    assert encode_assignment([])[:2] == b"\x00\x03"


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = Subscription(["t"], b"u", [("t", 0)], 7, "r")
    assert decode_subscription(b"\x00\x63" + encode_subscription(newer)[2:] + b"more") == newer
    assert decode_assignment(b"\x00\x63" + encode_assignment([("t", 1)], b"u")[2:] + b"more") == ([("t", 1)], b"u")


def test_an_older_version_leaves_out_what_it_has_no_field_for() -> None:
    whole = Subscription(["t"], b"u", [("t", 0)], 7, "r")
    assert decode_subscription(encode_subscription(whole, 0)) == Subscription(["t"], b"u", [])
    assert decode_subscription(encode_subscription(whole, 1)) == Subscription(["t"], b"u", [("t", 0)])
    assert decode_subscription(encode_subscription(whole, 2)) == Subscription(["t"], b"u", [("t", 0)], 7)


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == ([], None)


@pytest.mark.parametrize("data", ["00", "ffff", "0003", "000300000001000174"])
def test_what_is_no_consumers_is_malformed(data: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_subscription(bytes.fromhex(data))
    with pytest.raises(MalformedMessage):
        decode_assignment(bytes.fromhex(data))


def test_decoded_bytes_are_kept_safely() -> None:
    """They outlive the buffer they came in."""
    buffer = bytearray(encode_subscription(Subscription(["t"], b"user data")))
    subscription = decode_subscription(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert subscription == Subscription(["t"], b"user data", [])
