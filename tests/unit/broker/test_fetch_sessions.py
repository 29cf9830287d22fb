"""Fetch sessions as KIP-227 has them: ids and epochs, what an answer holds, fairness, and who gives way."""

from pathlib import Path

import pytest

from levada.broker import fetch_sessions
from levada.broker.fetch_sessions import MIN_EVICTION_MS
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import MAX_INT32
from levada.protocol.messages.fetch import FetchTopic, ReplicaState
from tests.unit.broker.fetching import NAMES_ONLY, NEWEST, Client, Seen, Server, indexes, partitions_of, seen, size_of

BOTH = pytest.mark.parametrize("version", [7, NAMES_ONLY, 13, NEWEST])


@pytest.fixture
def server(tmp_path: Path) -> Server:
    server = Server(tmp_path)
    server.add_topic("t", 3)
    return server


def session_of(client: Client, *offsets: int) -> Client:
    """Open a session over the partitions of t."""
    client.open(client.topic("t", dict(enumerate(offsets))))
    assert client.session_id
    return client


# Ids and epochs: the table of KIP-227.


@BOTH
@pytest.mark.parametrize(
    ("session", "epoch", "error", "keeps_session", "opens_session"),
    [
        ("none", -1, ErrorCode.NONE, True, False),
        ("none", 0, ErrorCode.NONE, True, True),
        ("none", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, True, False),
        ("existing", -1, ErrorCode.NONE, False, False),
        ("existing", 0, ErrorCode.NONE, False, True),
        ("existing", 1, ErrorCode.NONE, True, False),
        ("existing", 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH, True, False),
        ("existing", MAX_INT32, ErrorCode.INVALID_FETCH_SESSION_EPOCH, True, False),
        ("existing", -2, ErrorCode.INVALID_FETCH_SESSION_EPOCH, True, False),
        ("unknown", -1, ErrorCode.NONE, True, False),
        ("unknown", 0, ErrorCode.NONE, True, True),
        ("unknown", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, True, False),
    ],
)
def test_id_and_epoch_decide(
    server: Server, version: int, session: str, epoch: int, error: int, keeps_session: bool, opens_session: bool
) -> None:
    client = session_of(Client(server, version), 0, 0)
    known = client.session_id
    session_id = {"none": 0, "existing": known, "unknown": known + 1}[session]
    response = client.fetch(client.topic("t", {0: 0}), session_id=session_id, session_epoch=epoch)
    assert response.error_code == error
    if error:
        assert (response.session_id, response.responses) == (0, [])
    elif epoch > 0:
        assert response.session_id == known
    else:
        assert (response.session_id not in (0, known)) == opens_session
        assert indexes(response) == [0]
    assert (known in server.fetch_sessions._sessions) == keeps_session
    assert len(server.fetch_sessions) == keeps_session + opens_session


def test_epochs_go_up_by_one_and_wrap_to_one(server: Server) -> None:
    client = session_of(Client(server), 0)
    session = server.fetch_sessions._sessions[client.session_id]
    for _ in range(3):
        client.go_on()
    assert session.epoch == 4
    session.epoch = client.session_epoch = MAX_INT32
    client.go_on()
    client.session_epoch = 1
    client.go_on()
    assert session.epoch == 2
    repeated = client.fetch(session_id=client.session_id, session_epoch=1)
    assert repeated.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize(("first", "second"), [(NAMES_ONLY, 13), (13, NAMES_ONLY), (7, NEWEST), (NEWEST, 7)])
def test_a_session_does_not_change_between_names_and_ids(server: Server, first: int, second: int) -> None:
    client = session_of(Client(server, first), 0)
    client.version = second
    response = client.fetch(session_id=client.session_id, session_epoch=1)
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)
    client.version = first
    assert client.go_on().error_code == 0


def test_versions_change_within_a_session_as_long_as_topics_are_named_alike(server: Server) -> None:
    client = session_of(Client(server, 13), 0)
    client.version = NEWEST
    server.append("t")
    assert indexes(client.go_on()) == [0]


def test_old_versions_have_no_sessions(server: Server) -> None:
    for version in (4, 5, 6):
        client = Client(server, version)
        assert client.fetch(client.topic("t")).session_id == 0
    assert len(server.fetch_sessions) == 0


def test_a_session_may_begin_with_nothing(server: Server) -> None:
    response = Client(server).fetch(session_epoch=0)
    assert (response.error_code, response.responses) == (0, [])
    assert response.session_id > 0
    assert len(server.fetch_sessions) == 1


# What an answer holds.


@BOTH
def test_a_full_fetch_answers_for_all_and_an_incremental_one_for_what_changed(server: Server, version: int) -> None:
    client = Client(server, version)
    opened = client.open(client.topic("t", {0: 0, 1: 0, 2: 0}))
    assert indexes(opened) == [0, 1, 2]
    assert indexes(client.go_on()) == []
    size = server.append("t", 1)
    name: str | bytes = "t" if version <= NAMES_ONLY else server.image.topics["t"].topic_id
    assert [one.index for one in seen(client.go_on())] == [1]
    # As long as the client does not move on, it is sent the same.
    again = client.go_on()
    assert [one.size for one in seen(again)] == [size]
    assert [topic.topic if version <= NAMES_ONLY else topic.topic_id for topic in again.responses] == [name]
    assert indexes(client.go_on(client.topic("t", {1: 1}))) == []
    assert indexes(client.go_on()) == []


def test_an_incremental_fetch_touches_only_what_changed_or_was_named(server: Server) -> None:
    client = session_of(Client(server), 0, 0, 0)
    session = server.fetch_sessions._sessions[client.session_id]
    assert list(session.dirty) == []
    server.append("t", 2)
    assert [wanted.index for wanted in session.dirty] == [2]
    client.go_on(client.topic("t", {2: 1}))
    assert list(session.dirty) == []


def test_a_partition_that_was_not_read_for_want_of_room_is_read_the_next_time(server: Server) -> None:
    sizes = [server.append("t", index) for index in (0, 1, 2)]
    client = Client(server)
    first = client.open(client.topic("t", {0: 0, 1: 0, 2: 0}), max_bytes=sizes[0])
    assert [size_of(data) for data in partitions_of(first)] == [sizes[0], 0, 0]
    second = client.go_on(client.topic("t", {0: 1}), max_bytes=sizes[0])
    assert [(one.index, one.size) for one in seen(second)] == [(1, sizes[1])]
    third = client.go_on(client.topic("t", {1: 1}), max_bytes=sizes[0])
    assert [(one.index, one.size) for one in seen(third)] == [(2, sizes[2])]
    assert indexes(client.go_on(client.topic("t", {2: 1}), max_bytes=sizes[0])) == []


def test_partitions_take_turns_when_all_of_them_have_more(server: Server) -> None:
    for index in (0, 1, 2):
        for _ in range(10):
            size = server.append("t", index)
    client = Client(server)
    answers = [client.open(client.topic("t", {0: 0, 1: 0, 2: 0}), max_bytes=size)]
    turns = []
    offsets = {0: 0, 1: 0, 2: 0}
    for _ in range(12):
        (turn,) = [data.partition_index for data in partitions_of(answers[-1]) if size_of(data)]
        turns.append(turn)
        offsets[turn] += 1
        answers.append(client.go_on(client.topic("t", {turn: offsets[turn]}), max_bytes=size))
    assert turns == [0, 1, 2] * 4


def test_a_changed_high_watermark_or_log_start_is_told_without_records(server: Server) -> None:
    for _ in range(4):
        server.append("t")
    client = session_of(Client(server), 4)
    assert indexes(client.go_on()) == []
    server.partition("t").delete_records(2)
    (data,) = partitions_of(client.go_on())
    assert (data.log_start_offset, data.high_watermark, size_of(data)) == (2, 4, 0)
    assert indexes(client.go_on()) == []
    server.append("t")
    (data,) = partitions_of(client.go_on(client.topic("t", {0: 5})))
    assert (data.high_watermark, size_of(data)) == (5, 0)
    assert indexes(client.go_on()) == []


def test_an_error_is_repeated_until_it_is_gone_and_then_the_partition_is_told_again(server: Server) -> None:
    client = session_of(Client(server), 0)
    server.lead_elsewhere("t", epoch=1)
    for _ in range(2):
        assert [one.error for one in seen(client.go_on())] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    server.lead_here("t", epoch=2)
    assert seen(client.go_on()) == [Seen("t", 0, 0, 0, 0)]
    assert seen(client.go_on()) == []


def test_partitions_are_added_changed_and_forgotten(server: Server) -> None:
    client = session_of(Client(server), 0)
    size = server.append("t", 1)
    assert [(one.index, one.size) for one in seen(client.go_on(client.topic("t", {1: 0})))] == [(1, size)]
    assert server.fetch_sessions.partition_count == 2
    response = client.go_on(forgotten_topics_data=[client.forgotten("t", [1, 2])])
    assert indexes(response) == []
    assert server.fetch_sessions.partition_count == 1
    server.append("t", 1)
    assert indexes(client.go_on()) == []
    assert not server.partition("t", 1)._watchers
    server.append("t", 0)
    server.append("t", 0)
    cut = client.go_on(client.topic("t", {0: 1}, partition_max_bytes=1))
    assert [(one.index, one.size) for one in seen(cut)] == [(0, size)]


def test_forgetting_comes_after_adding(server: Server) -> None:
    client = session_of(Client(server), 0)
    client.go_on(client.topic("t", {1: 0}), forgotten_topics_data=[client.forgotten("t", [1])])
    assert server.fetch_sessions.partition_count == 1


def test_a_session_whose_partitions_are_all_forgotten_is_closed(server: Server) -> None:
    client = session_of(Client(server), 0, 0)
    response = client.go_on(forgotten_topics_data=[client.forgotten("t", [0, 1])])
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert len(server.fetch_sessions) == server.fetch_sessions.partition_count == 0
    assert client.go_on().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_closed_session_watches_nothing(server: Server) -> None:
    client = session_of(Client(server), 0, 0)
    assert all(len(server.partition("t", index)._watchers) == 1 for index in (0, 1))
    client.fetch(session_id=client.session_id, session_epoch=-1)
    assert not any(server.partition("t", index)._watchers for index in (0, 1))


def test_the_last_mention_of_a_partition_counts(server: Server) -> None:
    server.append("t")
    client = Client(server)
    response = client.open(client.topic("t", {0: 7}), client.topic("t", {0: 0}))
    assert [one.error for one in seen(response)] == [0]
    assert server.fetch_sessions.partition_count == 1


# Topics that come and go.


def test_an_unknown_id_stays_in_the_session_until_it_is_known(server: Server) -> None:
    client = Client(server)
    coming = b"coming" + bytes(10)
    unknown = FetchTopic(topic_id=coming, partitions=client.topic("t").partitions)
    response = client.open(client.topic("t"), unknown)
    assert [topic.topic_id for topic in response.responses] == [server.image.topics["t"].topic_id, coming]
    assert [one.error for one in seen(response)] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    for _ in range(2):
        assert [one.error for one in seen(client.go_on())] == [ErrorCode.UNKNOWN_TOPIC_ID]
    server.add_topic("coming", topic_id=coming)
    size = server.append("coming")
    assert seen(client.go_on()) == [Seen("coming", 0, 0, 1, size)]
    assert client.go_on(client.topic("coming", {0: 1})).responses == []


def test_a_deleted_topic_is_unknown_and_one_made_anew_is_another(server: Server) -> None:
    ids, names = session_of(Client(server), 0), session_of(Client(server, NAMES_ONLY), 0)
    server.remove_topic("t")
    # The session knows the name of its id, so that it is the partition that is missing, as in Apache.
    for client in (ids, names):
        assert [one.error for one in seen(client.go_on())] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    server.add_topic("t")
    size = server.append("t")
    assert [one.error for one in seen(ids.go_on())] == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert seen(names.go_on()) == [Seen("t", 0, 0, 1, size)]
    server.append("t")
    assert [one.size for one in seen(names.go_on())] == [2 * size]


def test_a_partition_that_others_have_and_this_broker_has_not_is_led_elsewhere(server: Server) -> None:
    client = Client(server)
    del server.replicas.topics["t"].partitions[2]
    response = client.open(client.topic("t", {2: 0, 3: 0}))
    assert [one.error for one in seen(response)] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# The cache.


@pytest.fixture
def small(tmp_path: Path) -> Server:
    """Room for two sessions."""
    server = Server(tmp_path, max_sessions=2)
    server.add_topic("t", 5)
    return server


def opens(server: Server, size: int, *, is_follower: bool = False) -> int:
    """Open a session with so many partitions; its id."""
    client = Client(server)
    state = ReplicaState(replica_id=7, replica_epoch=1) if is_follower else None
    client.open(client.topic("t", dict.fromkeys(range(size), 0)), replica_state=state)
    return client.session_id


def use(server: Server, session_id: int, epoch: int = 1) -> None:
    assert Client(server).fetch(session_id=session_id, session_epoch=epoch).error_code == 0


def kept(server: Server) -> list[int]:
    return list(server.fetch_sessions._sessions)


def test_without_room_a_fetch_is_answered_without_a_session(small: Server) -> None:
    first, second = opens(small, 1), opens(small, 1)
    response = Client(small).fetch(Client(small).topic("t", {0: 0, 1: 0}), session_epoch=0)
    assert (response.error_code, response.session_id) == (0, 0)
    assert indexes(response) == [0, 1]
    assert kept(small) == [first, second]
    assert len(small.partition("t", 0)._watchers) == 2
    assert not small.partition("t", 1)._watchers
    assert small.fetch_sessions.evictions == 0


def test_all_sessions_together_have_a_limited_number_of_partitions(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 4)
    first = session_of(Client(server), 0, 0)
    second = Client(server)
    assert second.open(second.topic("t", {0: 0, 1: 0, 2: 0})).session_id == 0
    session_of(second, 0, 0)
    grown = first.fetch(first.topic("t", {2: 0}), session_id=first.session_id, session_epoch=1)
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session_of(Client(server), 0, 0)


def test_no_slots_no_sessions(tmp_path: Path) -> None:
    server = Server(tmp_path, max_sessions=0)
    server.add_topic("t")
    assert opens(server, 1) == 0


def test_a_stale_session_gives_way_to_any(small: Server) -> None:
    first, second = opens(small, 3), opens(small, 3)
    small.clock.milliseconds += MIN_EVICTION_MS
    use(small, first)
    assert opens(small, 1) == 0
    small.clock.milliseconds += 1
    third = opens(small, 1)
    assert third
    assert kept(small) == [first, third]
    assert (small.fetch_sessions.evictions, small.fetch_sessions.partition_count) == (1, 4)
    assert len(small.partition("t", 1)._watchers) == 1
    assert Client(small).fetch(session_id=second, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_old_session_in_use_gives_way_only_to_a_larger_one(small: Server) -> None:
    first, second = opens(small, 2), opens(small, 3)
    assert opens(small, 5) == 0, "they are too young"
    small.clock.milliseconds += MIN_EVICTION_MS + 1
    use(small, first)
    use(small, second)
    assert opens(small, 2) == 0, "it is no larger"
    third = opens(small, 3)
    assert kept(small) == [second, third]
    assert opens(small, 3) == 0
    fourth = opens(small, 4)
    assert kept(small) == [third, fourth]
    assert small.fetch_sessions.evictions == 2


def test_a_follower_takes_the_place_of_any_client_but_not_of_a_young_follower(small: Server) -> None:
    first, second = opens(small, 5), opens(small, 4)
    third = opens(small, 1, is_follower=True)
    assert kept(small) == [first, third]
    fourth = opens(small, 1, is_follower=True)
    assert kept(small) == [third, fourth]
    assert opens(small, 5) == 0
    assert opens(small, 5, is_follower=True) == 0
    small.clock.milliseconds += MIN_EVICTION_MS + 1
    use(small, third)
    use(small, fourth)
    assert opens(small, 5) == 0, "a client never takes the place of a follower in use"
    fifth = opens(small, 2, is_follower=True)
    assert fifth
    assert len(kept(small)) == 2
    assert second not in kept(small)


def test_a_session_that_grew_counts_as_it_is_now(small: Server) -> None:
    first, second = opens(small, 1), opens(small, 2)
    small.clock.milliseconds += MIN_EVICTION_MS + 1
    client = Client(small)
    client.session_id, client.session_epoch = first, 1
    client.go_on(client.topic("t", {1: 0, 2: 0}))
    use(small, second)
    third = opens(small, 3)
    assert kept(small) == [first, third]
    assert small.fetch_sessions.partition_count == 6


def test_ids_are_positive_and_not_given_twice(small: Server) -> None:
    draws = iter([0, 0, 0, MAX_INT32 - 2])
    bounds = []

    def below(bound: int) -> int:
        bounds.append(bound)
        return next(draws)

    small.fetch_sessions._below = below
    assert opens(small, 1) == 1
    assert opens(small, 1) == MAX_INT32 - 1
    assert set(bounds) == {MAX_INT32 - 1}
