"""Which partitions `levada leader-election` reads from a file, and its lines for what became of them."""

import json

import pytest

from levada.cli.kit.refusals import Refused
from levada.cli.leader_election import listed_partitions, outcome_lines
from levada.client.admin import Outcomes
from levada.client.errors import error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

ORDERS, BILLS = TopicPartition("orders", 10), TopicPartition("bills", 2)


def test_each_outcome_has_its_own_line() -> None:
    elected: Outcomes[TopicPartition, None] = Outcomes(
        {
            ORDERS: None,
            ORDERS._replace(partition=9): None,
            BILLS: error_for(ErrorCode.ELECTION_NOT_NEEDED, context=str(BILLS)),
            BILLS._replace(partition=3): error_for(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "gone", context="bills-3"),
        }
    )
    *lines, failed = outcome_lines("PREFERRED", elected)
    assert lines == [
        "Successfully completed leader election (PREFERRED) for partitions orders-9, orders-10",
        "Valid replica already elected for partitions bills-2",
    ]
    assert failed.startswith(
        "Error completing leader election (PREFERRED) for partition: bills-3: PREFERRED_LEADER_NOT_AVAILABLE (80): gone"
    )


def test_where_nothing_was_to_be_done_nothing_is_said() -> None:
    assert outcome_lines("UNCLEAN", Outcomes({})) == []


def test_partitions_are_read_from_json() -> None:
    document = json.loads('{"partitions": [{"topic": "orders", "partition": 10}, {"topic": "bills", "partition": 2}]}')
    assert listed_partitions(document, "--file") == [ORDERS, BILLS]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "--file must be an object, not []"),
        ("{}", '--file has no "partitions"'),
        ('{"partitions": {}}', '--file: "partitions" must be a list, not {}'),
        ('{"partitions": [3]}', "--file: partitions[0] must be an object, not 3"),
        (
            '{"partitions": [{"topic": null, "partition": 1}]}',
            '--file: partitions[0]: "topic" must be a string, not null',
        ),
        ('{"partitions": [{"topic": "a"}]}', '--file: partitions[0] has no "partition"'),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(Refused) as refused:
        listed_partitions(json.loads(text), "--file")
    assert str(refused.value) == complaint
