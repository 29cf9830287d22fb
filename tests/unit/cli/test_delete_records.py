"""`levada delete-records`: its file, and what is said about many partitions."""

import json
from collections.abc import Sequence

import pytest

from levada.cli.delete_records import SHAPE, parse
from levada.cli.kit.batches import BATCH, in_batches
from levada.cli.kit.refusals import Refused
from levada.client.admin import Outcomes
from levada.client.errors import Disconnected, KafkaError
from levada.client.types import TopicPartition


def test_the_file_names_an_offset_for_each_partition() -> None:
    assert parse(SHAPE) == {TopicPartition("orders", 0): 100}
    assert parse('{"partitions": []}') == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON: Expecting value"),
        ("{", "is not JSON: Expecting property name"),
        ("7", "has no list of partitions; it should look like"),
        ('{"partitions": {}}', "has no list of partitions"),
        ('{"partitions": [], "version": 2}', "has the version 2, and only 1 is known"),
        ('{"partitions": [], "version": "1"}', "has the version '1', and only 1 is known"),
        ('{"partitions": [7]}', "'topic' should be a text in 7"),
        ('{"partitions": [{"topic": "a", "offset": 1}]}', "'partition' should be a number in"),
        ('{"partitions": [{"topic": "a", "partition": true, "offset": 1}]}', "'partition' should be a number in"),
        ('{"partitions": [{"topic": "a", "partition": 2147483648, "offset": 1}]}', "'partition' should be a number"),
        ('{"partitions": [{"topic": "a", "partition": 0, "offset": 1.5}]}', "'offset' should be a number in"),
        ('{"partitions": [{"topic": "a", "partition": 0, "offset": 9223372036854775808}]}', "'offset' should be a"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(text: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text)
    assert said in str(refused.value)


def test_a_partition_has_one_offset() -> None:
    entry = {"topic": "orders", "partition": 0, "offset": 1}
    with pytest.raises(Refused, match="more than one offset for orders-0: keep one"):
        parse(json.dumps({"partitions": [entry, entry, entry]}))


def test_many_items_are_changed_in_batches() -> None:
    sizes = []

    def change(some: Sequence[int]) -> Outcomes[int, str]:
        sizes.append(len(some))
        return Outcomes({item: KafkaError("odd") if item % 2 else "even" for item in some})

    outcomes = in_batches("deleting", range(2 * BATCH + 1), change)
    assert sizes == [BATCH, BATCH, 1]
    assert list(outcomes) == list(range(2 * BATCH + 1))
    assert len(outcomes.errors) == BATCH


@pytest.mark.parametrize(
    ("ending", "raised", "said"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "interrupted while deleting: 50 of 120 were seen to, the rest may or"),
        (Disconnected("gone"), Refused, "gone; 50 of 120 were seen to, the rest may or may not have been done"),
    ],
)
def test_an_early_end_says_how_far_it_came(ending: BaseException, raised: type[BaseException], said: str) -> None:
    def change(some: Sequence[int]) -> Outcomes[int, None]:
        if some[0]:
            raise ending
        return Outcomes(dict.fromkeys(some))

    with pytest.raises(raised) as caught:
        in_batches("deleting", range(120), change)
    assert str(caught.value).startswith(said)


def test_an_end_before_anything_was_done_says_only_why() -> None:
    def change(some: Sequence[int]) -> Outcomes[int, None]:
        raise Disconnected("gone")

    with pytest.raises(Refused, match=r"^gone$"):
        in_batches("deleting", range(3), change)
