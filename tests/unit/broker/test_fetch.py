"""What a fetch reads: limits, offsets, epochs, isolation, and how it is refused, in every version."""

from pathlib import Path
from typing import Any

import pytest

from levada.broker.settings import BrokerSettings
from levada.model.error_codes import ErrorCode
from levada.protocol.codec import decode, encode, encode_bytes
from levada.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from levada.world.disk import FileRange
from tests.logs import append, end_transaction
from tests.unit.broker.fetching import NAMES_ONLY, NEWEST, OTHER_NODE, Client, Server, partitions_of, seen, size_of

EVERY_VERSION = pytest.mark.parametrize("version", range(4, NEWEST + 1))


@pytest.fixture
def server(tmp_path: Path) -> Server:
    server = Server(tmp_path)
    server.add_topic("t", 3)
    return server


def fetch_one(
    client: Client, offset: int = 0, *, partition: dict[str, Any] | None = None, **settings: Any
) -> PartitionData:
    response = client.fetch(client.topic("t", {0: offset}, **(partition or {})), **settings)
    assert (response.error_code, response.session_id) == (0, 0)
    (data,) = partitions_of(response)
    return data


def over_the_wire(response: FetchResponse, version: int) -> FetchResponse:
    pieces = (
        piece.file.read(piece.position, piece.size) if isinstance(piece, FileRange) else bytes(piece)
        for piece in encode(response, version)
    )
    return decode(FetchResponse, version, b"".join(pieces))


@EVERY_VERSION
def test_records_and_errors_travel_in_every_version(server: Server, version: int) -> None:
    size = server.append("t")
    client = Client(server, version)
    sent = client.fetch(client.topic("t", {0: 0, 1: 5, 2: 0, 9: 0}), session_epoch=0 if version >= 7 else -1)
    received = over_the_wire(sent, version)
    assert (received.session_id != 0) == (version >= 7)
    codes = [(data.partition_index, data.error_code) for data in partitions_of(received)]
    assert codes == [
        (0, 0),
        (1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    data = partitions_of(received)[0]
    assert len(data.records or b"") == size
    assert (data.high_watermark, data.last_stable_offset, data.preferred_read_replica) == (1, 1, -1)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    failed = partitions_of(received)[1]
    assert (failed.high_watermark, failed.last_stable_offset, failed.log_start_offset) == (-1, -1, -1)


# Limits.


def test_the_first_batch_comes_whole_and_later_ones_only_if_they_fit(server: Server) -> None:
    large, small = server.append("t", 0, 5_000), server.append("t", 1, 10)
    server.append("t", 2, 5_000)
    client = Client(server)
    offsets = {0: 0, 1: 0, 2: 0}
    for max_bytes, expected in (
        (1, [large, 0, 0]),
        (large, [large, 0, 0]),
        (large + small - 1, [large, 0, 0]),
        (large + small, [large, small, 0]),
        # A part of a first batch would be of no use.
        (large + small + 100, [large, small, 0]),
        (2 * large + small, [large, small, large]),
    ):
        response = client.fetch(client.topic("t", offsets), max_bytes=max_bytes)
        assert [one.size for one in seen(response)] == expected, max_bytes


def test_a_partitions_limit_holds_but_for_the_first_batch(server: Server) -> None:
    for index in (0, 1):
        for _ in range(3):
            size = server.append("t", index)
    client = Client(server)
    for limit, expected in ((0, [size, 0]), (1, [size, 0]), (size, [size, size]), (2 * size + 5, [2 * size + 5] * 2)):
        response = client.fetch(client.topic("t", {0: 0, 1: 0}, partition_max_bytes=limit))
        assert [one.size for one in seen(response)] == expected, limit


def test_an_empty_partition_does_not_use_up_the_right_to_a_whole_batch(server: Server) -> None:
    size = server.append("t", 1, 5_000)
    client = Client(server)
    response = client.fetch(client.topic("t", {0: 0, 1: 0}), max_bytes=10)
    assert [one.size for one in seen(response)] == [0, size]


def test_the_brokers_limit_is_below_the_clients(server: Server) -> None:
    for _ in range(5):
        size = server.append("t")
    server.settings = BrokerSettings(max_fetch_bytes=2 * size)
    assert size_of(fetch_one(Client(server))) == 2 * size


def test_no_room_is_no_excuse_for_an_offset_out_of_range(server: Server) -> None:
    size = server.append("t", 0)
    client = Client(server)
    response = client.fetch(client.topic("t", {0: 0, 1: 5, 2: 0}), max_bytes=size)
    assert [one.error for one in seen(response)] == [0, ErrorCode.OFFSET_OUT_OF_RANGE, 0]


def test_answers_hold_ranges_of_files(server: Server) -> None:
    server.append("t")
    records = fetch_one(Client(server)).records
    assert isinstance(records, FileRange)
    assert records.file.path.endswith(".log")


# Offsets and epochs.


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (0, 1), (1, 1), (2, 0), (4, 0), (5, 1)])
def test_offsets_outside_the_log_are_refused(server: Server, offset: int, code: int) -> None:
    for _ in range(4):
        server.append("t")
    server.partition("t").delete_records(2)
    assert fetch_one(Client(server), offset).error_code == code


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (5, 0), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_epochs_are_checked(server: Server, epoch: int, code: int) -> None:
    server.lead_here("t", epoch=5)
    assert fetch_one(Client(server), partition={"current_leader_epoch": epoch}).error_code == code


@EVERY_VERSION
def test_the_new_leader_is_named_since_version_16(server: Server, version: int) -> None:
    server.lead_elsewhere("t", epoch=3)
    client = Client(server, version)
    response = over_the_wire(client.fetch(client.topic("t", {0: 0, 1: 0}), client.topic("u")), version)
    codes = {data.error_code for data in partitions_of(response)}
    assert codes == {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    if version < 16:
        assert response.node_endpoints == []
        assert {data.current_leader for data in partitions_of(response)} == {None}
        return
    assert response.node_endpoints == [NodeEndpoint(node_id=OTHER_NODE, host="host-2", port=9_002)]
    leader = LeaderIdAndEpoch(leader_id=OTHER_NODE, leader_epoch=3)
    assert [data.current_leader for data in partitions_of(response)] == [leader, leader, None]


def test_a_fenced_client_is_told_the_epoch_and_one_ahead_of_us_is_not(server: Server) -> None:
    server.lead_here("t", epoch=5)
    fenced = fetch_one(Client(server), partition={"current_leader_epoch": 1})
    assert fenced.current_leader == LeaderIdAndEpoch(leader_id=1, leader_epoch=5)
    assert fetch_one(Client(server), partition={"current_leader_epoch": 9}).current_leader is None


def test_an_old_epoch_is_refused_before_the_wrong_broker(server: Server) -> None:
    server.lead_elsewhere("t", epoch=5)
    assert fetch_one(Client(server), partition={"current_leader_epoch": 1}).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging", "code"),
    [
        (-1, 6, None, 0),
        (0, 2, None, 0),
        (0, 3, (0, 2), 0),
        (1, 2, (0, 2), 0),
        (2, 4, None, 0),
        (2, 5, (2, 4), 0),
        (3, 6, (2, 4), 0),
        (5, 6, None, 0),
        (5, 7, (5, 6), 0),
        (6, 6, None, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_reader_of_other_records_learns_where_they_part(
    server: Server, last_epoch: int, offset: int, diverging: tuple[int, int] | None, code: int
) -> None:
    log = server.partition("t").log
    for epoch in (0, 2, 5):
        for _ in range(2):
            append(log, b"v", leader_epoch=epoch)
    data = fetch_one(Client(server), offset, partition={"last_fetched_epoch": last_epoch})
    assert data.error_code == code
    expected = None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    assert data.diverging_epoch == expected
    if diverging is not None:
        assert (size_of(data), data.high_watermark) == (0, 6)


def test_a_diverging_epoch_is_repeated_in_a_session(server: Server) -> None:
    append(server.partition("t").log, b"v", leader_epoch=0)
    append(server.partition("t").log, b"v", leader_epoch=2)
    client = Client(server)
    client.open(client.topic("t", {0: 2}, last_fetched_epoch=1))
    for _ in range(2):
        (data,) = partitions_of(client.go_on())
        assert data.diverging_epoch == EpochEndOffset(epoch=0, end_offset=1)
    assert partitions_of(client.go_on(client.topic("t", {0: 2}, last_fetched_epoch=2))) == []


def test_a_session_that_goes_on_with_an_older_version_is_not_told_what_that_cannot_say(server: Server) -> None:
    append(server.partition("t").log, b"v", leader_epoch=0)
    append(server.partition("t").log, b"v", leader_epoch=2)
    client = Client(server, NAMES_ONLY)
    client.open(client.topic("t", {0: 2}, last_fetched_epoch=1))
    client.version = NAMES_ONLY - 1
    response = client.go_on()
    assert encode_bytes(response, client.version)


# Refusals.


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_a_log_that_is_offline_is_a_storage_error_to_those_who_know_it(server: Server, version: int, code: int) -> None:
    server.partition("t").log.fail_flush(OSError("gone"))
    assert fetch_one(Client(server, version)).error_code == code


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_replica_that_is_none_is_refused(server: Server, epoch: int, code: int) -> None:
    server.append("t")
    partition = {"current_leader_epoch": epoch}
    state = ReplicaState(replica_id=3, replica_epoch=1)
    for client, settings in ((Client(server, 14), {"replica_id": 3}), (Client(server, 15), {"replica_state": state})):
        assert fetch_one(client, partition=partition, **settings).error_code == code


# Isolation.


def test_a_reader_of_committed_records_stops_at_the_last_stable_offset(server: Server) -> None:
    log = server.partition("t").log
    append(log, b"before")
    append(log, b"open", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, b"behind")
    plain = fetch_one(Client(server), 0)
    assert (plain.high_watermark, plain.last_stable_offset) == (3, 1)
    assert plain.aborted_transactions is None
    committed = fetch_one(Client(server), 0, isolation_level=1)
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
    assert committed.aborted_transactions == []
    assert 0 < size_of(committed) < size_of(plain)
    at_the_end = fetch_one(Client(server), 1, isolation_level=1)
    assert (size_of(at_the_end), at_the_end.aborted_transactions) == (0, [])


def test_aborted_transactions_come_with_their_records(server: Server) -> None:
    log = server.partition("t").log
    append(log, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, 7, commit=False)
    append(log, b"committed", producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, 8, commit=True)
    aborted = AbortedTransaction(producer_id=7, first_offset=0)
    assert fetch_one(Client(server), 0, isolation_level=1).aborted_transactions == [aborted]
    assert fetch_one(Client(server), 2, isolation_level=1).aborted_transactions == []
    assert fetch_one(Client(server), 0).aborted_transactions is None


def test_a_session_may_change_its_isolation(server: Server) -> None:
    log = server.partition("t").log
    append(log, b"open", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    client = Client(server)
    assert [one.size for one in seen(client.open(client.topic("t"), isolation_level=1))] == [0]
    assert seen(client.go_on(isolation_level=1)) == []
    (plain,) = seen(client.go_on(isolation_level=0))
    assert plain.size > 0
    assert seen(client.go_on(isolation_level=1)) == []


def test_what_is_sent_is_counted(server: Server) -> None:
    size = server.append("t")
    client = Client(server)
    client.open(client.topic("t", {0: 0, 1: 0}))
    client.go_on()
    counters = server.metrics.topic("t")
    assert (counters.bytes_out, counters.total_fetch_requests) == (2 * size, 3)
