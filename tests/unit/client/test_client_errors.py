"""Errors that users catch."""

import csv
import pickle
from pathlib import Path

import pytest

from levada.client.error_texts import ADVICE
from levada.client.errors import (
    AuthorizationFailed,
    BufferExhausted,
    CommitFailed,
    ConfigurationError,
    Disconnected,
    FencedInstance,
    GroupAuthorizationFailed,
    KafkaError,
    LogTruncated,
    MembershipLost,
    NoOffsetForPartition,
    OffsetOutOfRange,
    OutOfOrderSequence,
    ProducerFenced,
    RecordTooLarge,
    SerializationFailed,
    TimedOut,
    UnknownTopicOrPartition,
    error_for,
    timed_out,
)
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, NotCoordinator

with (Path(__file__).parents[2] / "data" / "errors.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))

PARTITION = TopicPartition("orders", 1)
FAILURES = [row for row in ROWS if row["name"] != "NONE"]


@pytest.mark.parametrize("row", FAILURES, ids=lambda row: row["name"])
def test_a_code_has_the_flags_that_kafka_gives_it(row: dict[str, str]) -> None:
    error = error_for(int(row["code"]), "said")
    assert error.code is ErrorCode[row["name"]]
    assert error.retriable == (row["retriable"] == "true")
    assert error.refreshes_metadata == (row["refreshes_metadata"] == "true")
    assert f"{row['name']} ({row['code']}): said" in str(error)
    assert not (error.retriable and error.fatal)


def test_every_code_of_kafka_has_a_row() -> None:
    assert {row["name"] for row in ROWS} == {code.name for code in ErrorCode}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, OffsetOutOfRange),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicOrPartition),
        (ErrorCode.UNKNOWN_TOPIC_ID, UnknownTopicOrPartition),
        (ErrorCode.REQUEST_TIMED_OUT, TimedOut),
        (ErrorCode.NETWORK_EXCEPTION, Disconnected),
        (ErrorCode.MESSAGE_TOO_LARGE, RecordTooLarge),
        (ErrorCode.RECORD_LIST_TOO_LARGE, RecordTooLarge),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed),
        (ErrorCode.ILLEGAL_GENERATION, MembershipLost),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.UNKNOWN_PRODUCER_ID, OutOfOrderSequence),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstance),
        (ErrorCode.LEADER_NOT_AVAILABLE, ApiError),
        (ErrorCode.NOT_COORDINATOR, NotCoordinator),
    ],
)
def test_a_code_becomes_the_class_one_would_catch(code: ErrorCode, kind: type[KafkaError]) -> None:
    error = error_for(code)
    assert isinstance(error, kind)
    assert error.code == code


def test_a_family_can_be_caught_at_once() -> None:
    for code in (29, 30, 31, 53, 65):
        assert isinstance(error_for(code), AuthorizationFailed)
    for code in (22, 25, 110, 113):
        assert isinstance(error_for(code), MembershipLost)
    assert issubclass(BufferExhausted, TimedOut)


def test_pythons_own_kinds_catch_them_too() -> None:
    assert isinstance(error_for(7), TimeoutError)
    assert isinstance(error_for(13), ConnectionError)
    assert issubclass(ConfigurationError, ValueError)


@pytest.mark.parametrize("code", [134, 999, -2, 32767])
def test_a_code_of_the_future_does_not_crash(code: int) -> None:
    error = error_for(code, "new trouble", context="orders-1")
    assert type(error) is KafkaError
    assert error.code is None
    assert not error.retriable
    assert str(error) == f"orders-1: error {code}, which this client does not know: new trouble"


def test_the_text_has_what_it_is_about_the_name_the_brokers_words_and_what_to_do() -> None:
    error = error_for(3, "This server does not host this topic-partition.", context="topic 'orders'")
    assert str(error) == (
        "topic 'orders': UNKNOWN_TOPIC_OR_PARTITION (3): This server does not host this topic-partition; "
        "check the name, create the topic, or ask for the right to see it"
    )
    assert str(error_for(46)) == "DUPLICATE_SEQUENCE_NUMBER (46)"


def test_a_brokers_long_words_are_cut() -> None:
    assert len(str(error_for(-1, "n" * 40_000))) < 1_200


def test_a_transaction_knows_what_ends_it_and_what_ends_the_producer() -> None:
    for code in (29, 30, 22, 25, 45, 47, 49, 59, 120):
        assert error_for(code).needs_abort, ErrorCode(code)
        assert not error_for(code).fatal, ErrorCode(code)
    for code in (31, 35, 48, 50, 53, 90):
        assert error_for(code).fatal, ErrorCode(code)


def test_a_local_timeout_says_which_setting_and_what_to_check() -> None:
    error = timed_out("topic 'orders' has no metadata", "max.block.ms", 60_000, "does the topic exist?")
    assert str(error) == "topic 'orders' has no metadata after 60000 ms (max.block.ms); does the topic exist?"
    assert error.code is None
    assert error.retriable


def test_a_failed_commit_says_what_to_do() -> None:
    assert "max.poll.interval.ms" in str(CommitFailed())
    assert "max.poll.records" in str(CommitFailed())
    assert not CommitFailed(code=ErrorCode.UNKNOWN_MEMBER_ID).retriable


def test_positions_in_question_are_on_the_error() -> None:
    truncated = LogTruncated("cut", offsets={PARTITION: 9}, divergent_offsets={PARTITION: 7})
    assert truncated.offsets == {PARTITION: 9}
    assert truncated.divergent_offsets == {PARTITION: 7}
    assert isinstance(truncated, OffsetOutOfRange)
    assert NoOffsetForPartition("none", partitions=(PARTITION,)).partitions == (PARTITION,)


@pytest.mark.parametrize(
    "error",
    [
        error_for(7, "late"),
        error_for(13),
        error_for(999),
        LogTruncated("cut", divergent_offsets={PARTITION: 7}),
        CommitFailed(),
        SerializationFailed("no", topic="orders", partition=1, offset=5),
        NoOffsetForPartition("none", partitions=(PARTITION,)),
        ConfigurationError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_between_processes(error: KafkaError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
    assert (copy.code, copy.retriable, copy.fatal) == (error.code, error.retriable, error.fatal)


def test_advice_is_one_sentence_without_its_stop() -> None:
    for code, advice in ADVICE.items():
        assert not advice.endswith("."), code
        assert advice[0].islower(), code


def test_every_class_says_what_it_is_for_or_has_a_code_that_does() -> None:
    for cls in _below(KafkaError):
        assert cls.__dict__.get("__doc__") or cls.code is not None, cls


def _below(base: type[KafkaError]) -> list[type[KafkaError]]:
    return [found for cls in base.__subclasses__() for found in (cls, *_below(cls))]
