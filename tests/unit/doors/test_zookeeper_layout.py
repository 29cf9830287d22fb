"""What is in the znodes of a cluster: Kafka's JSON, and what other programs may have put there."""

import json

import pytest

from levada.doors.zookeeper_layout import (
    KeptSnapshot,
    Pointer,
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_pointer,
    encode_broker,
    encode_cluster_id,
    encode_controller,
    encode_pointer,
    log_path,
    number_of_part,
    part_path,
)
from levada.metadata.door import DoorError, Member

NO_OBJECTS = [b"", b"{", b"7", b"[]", b"null", b"\xff\xfe"]


@pytest.mark.parametrize("member", [Member(1, "life"), Member(2, "life", "h1", 9092), Member(3, "life", "::1", 9092)])
def test_a_broker_comes_back_as_it_was(member: Member) -> None:
    assert decode_broker(member.node_id, encode_broker(member, 1_000)) == member


def test_a_broker_is_written_as_kafka_wrote_it() -> None:
    written = json.loads(encode_broker(Member(1, "life", "::1", 9092), 1_000))
    assert written == {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": ["PLAINTEXT://[::1]:9092"],
        "jmx_port": -1,
        "port": 9092,
        "host": "::1",
        "version": 5,
        "timestamp": "1000",
        "incarnation": "life",
    }


@pytest.mark.parametrize("data", NO_OBJECTS)
def test_what_is_no_broker_is_one_that_is_nowhere(data: bytes) -> None:
    assert decode_broker(1, data) == Member(1, "")
    assert decode_controller(data) == (-1, "")
    assert decode_cluster_id(data) == ""


def test_a_controller_and_a_cluster_come_back_as_they_were() -> None:
    assert decode_controller(encode_controller(7, "life", 1_000)) == (7, "life")
    assert json.loads(encode_controller(7, "life", 1_000))["brokerid"] == 7
    assert decode_cluster_id(encode_cluster_id("id")) == "id"
    assert json.loads(encode_cluster_id("id")) == {"version": "1", "id": "id"}


@pytest.mark.parametrize("pointer", [Pointer(), Pointer((KeptSnapshot(9, 4, 1), KeptSnapshot(20, 7, 3)), 4)])
def test_a_pointer_comes_back_as_it_was(pointer: Pointer) -> None:
    assert decode_pointer(encode_pointer(pointer)) == pointer


def test_before_the_first_snapshot_there_is_none() -> None:
    assert decode_pointer(b"") == Pointer()


@pytest.mark.parametrize("data", [*NO_OBJECTS[1:], b"{}", b'{"kept":[7],"log_start":0}', b'{"kept":[]}'])
def test_a_damaged_pointer_is_not_taken_for_none(data: bytes) -> None:
    with pytest.raises(DoorError, match="/snapshots in ZooKeeper is damaged"):
        decode_pointer(data)


def test_a_pointer_of_a_newer_release_is_named_as_such() -> None:
    with pytest.raises(DoorError, match="is of version 2; this release reads 1"):
        decode_pointer(b'{"version":2,"laid out":"in another way"}')


def test_paths_are_in_the_order_of_their_numbers() -> None:
    assert log_path(9) < log_path(10)
    assert number_of_part(part_path(12, b"m" * 16, 3).rpartition("/")[2]) == 12
