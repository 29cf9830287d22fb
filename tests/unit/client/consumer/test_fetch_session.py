"""The client's side of fetch sessions."""

from levada.client.consumer.fetch_session import Ask, FetchSession, SessionKey, SessionPart
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import MAX_INT32

ID = bytes(15) + b"\x01"
OTHER_ID = bytes(15) + b"\x02"


def key(partition: int, topic_id: bytes = ID) -> SessionKey:
    return SessionKey("t", topic_id, partition)


def ask(offset: int) -> Ask:
    return Ask(offset, 0, 1_000)


def told(part: SessionPart) -> tuple[int, int, list[tuple[int, int]], list[int]]:
    return (
        part.session_id,
        part.epoch,
        [(each.partition, each.fetch_offset) for topic in part.topics for each in topic.partitions],
        [partition for topic in part.forgotten for partition in topic.partitions],
    )


def begin(*offsets: int) -> FetchSession:
    session = FetchSession()
    wanted = {key(partition): ask(offset) for partition, offset in enumerate(offsets)}
    session.next_request(wanted, uses_topic_ids=True)
    assert session.answered(ErrorCode.NONE, 7)
    return session


def test_the_first_request_says_all_and_later_ones_what_changed() -> None:
    session = FetchSession()
    first = session.next_request({key(0): ask(0), key(1): ask(5)}, uses_topic_ids=True)
    assert told(first) == (0, 0, [(0, 0), (1, 5)], [])
    assert session.answered(ErrorCode.NONE, 7)
    assert session.is_open
    assert told(session.next_request({key(0): ask(0), key(1): ask(6)}, uses_topic_ids=True)) == (7, 1, [(1, 6)], [])
    session.answered(ErrorCode.NONE, 7)
    assert told(session.next_request({key(1): ask(6), key(2): ask(0)}, uses_topic_ids=True)) == (7, 2, [(2, 0)], [0])
    session.answered(ErrorCode.NONE, 7)
    assert told(session.next_request({key(1): ask(6), key(2): ask(0)}, uses_topic_ids=True)) == (7, 3, [], [])


def test_what_was_read_is_asked_for_again_even_from_the_same_place() -> None:
    session = begin(0, 0)
    session.has_read(key(1))
    wanted = {key(0): ask(0), key(1): ask(0)}
    assert told(session.next_request(wanted, uses_topic_ids=True)) == (7, 1, [(1, 0)], [])


def test_a_broker_without_sessions_is_told_all_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        part = session.next_request({key(0): ask(0)}, uses_topic_ids=True)
        assert told(part) == (0, 0, [(0, 0)], [])
        assert session.answered(ErrorCode.NONE, 0)


def test_a_session_that_the_broker_forgot_is_begun_anew() -> None:
    session = begin(0, 0)
    session.next_request({key(0): ask(1)}, uses_topic_ids=True)
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert told(session.next_request({key(0): ask(1)}, uses_topic_ids=True)) == (0, 0, [(0, 1)], [])


def test_after_any_other_failure_the_old_session_is_replaced() -> None:
    for is_answered in (True, False):
        session = begin(0, 0)
        session.next_request({key(0): ask(1)}, uses_topic_ids=True)
        if is_answered:
            assert not session.answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
        else:
            session.failed()
        assert told(session.next_request({key(0): ask(1)}, uses_topic_ids=True)) == (7, 0, [(0, 1)], [])
        session.answered(ErrorCode.NONE, 9)
        assert told(session.next_request({key(0): ask(1)}, uses_topic_ids=True)) == (9, 1, [], [])


def test_names_instead_of_ids_need_another_session() -> None:
    session = begin(0)
    assert told(session.next_request({key(0): ask(0)}, uses_topic_ids=False)) == (7, 0, [(0, 0)], [])


def test_a_topic_made_anew_takes_the_place_of_the_old_one() -> None:
    session = begin(3)
    part = session.next_request({key(0, OTHER_ID): ask(0)}, uses_topic_ids=True)
    assert told(part) == (7, 1, [(0, 0)], [0])
    assert (part.topics[0].topic_id, part.forgotten[0].topic_id) == (OTHER_ID, ID)


def test_epochs_begin_again_after_the_largest() -> None:
    session = begin(0)
    session._epoch = MAX_INT32
    assert session.next_request({key(0): ask(0)}, uses_topic_ids=True).epoch == MAX_INT32
    session.answered(ErrorCode.NONE, 7)
    assert session.next_request({key(0): ask(0)}, uses_topic_ids=True).epoch == 1


def test_the_last_request_closes_the_session() -> None:
    session = begin(0)
    assert told(session.last_request()) == (7, -1, [], [])
    assert not session.is_open
