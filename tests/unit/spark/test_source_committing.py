"""A group's offsets after a commit that failed: the last ones are told before the run ends."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from levada.client.errors import Disconnected, KafkaError
from levada.client.types import TopicPartition
from levada.spark.source.committing import OffsetCommitter

PLACE = TopicPartition("orders", 0)


class Groups:
    """An admin client whose commits fail as often as is wanted."""

    def __init__(self, *failures: KafkaError) -> None:
        self._failures = list(failures)
        self.tried = 0
        self.committed: dict[str, int] = {}

    def alter_group_offsets(self, group_id: str, offsets: dict[TopicPartition, int], *, timeout_ms: int) -> Any:
        self.tried += 1
        if self._failures:
            raise self._failures.pop(0)
        self.committed[group_id] = offsets[PLACE]
        return SimpleNamespace(errors={})


def committer_of(groups: Groups) -> OffsetCommitter:
    return OffsetCommitter(cast(Any, groups))


@pytest.mark.parametrize("failure", [KafkaError("in use"), Disconnected("gone")])
def test_offsets_that_come_after_a_failure_are_told_at_the_end(
    failure: KafkaError, caplog: pytest.LogCaptureFixture
) -> None:
    groups = Groups(failure)
    committer = committer_of(groups)
    for offset in (1, 2, 3):
        committer.commit("shop.totals", {PLACE: offset})
    with caplog.at_level(logging.WARNING):
        committer.close()
    assert groups.committed == {"shop.totals": 3}
    assert groups.tried == 2, "not again and again meanwhile"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("failure", [KafkaError("in use"), Disconnected("gone")])
def test_a_commit_that_is_waited_for_is_tried_again_after_a_failure(failure: KafkaError) -> None:
    """Spark may end the process before anything is closed."""
    groups = Groups(failure, failure)
    committer = committer_of(groups)
    committer.commit_now("shop.totals", {PLACE: 1})
    assert groups.committed == {}
    committer.commit_now("shop.totals", {PLACE: 2})
    assert groups.committed == {"shop.totals": 2}
    committer.close()
    assert groups.tried == 3


def test_brokers_that_do_not_answer_are_not_asked_for_each_group_at_the_end() -> None:
    groups = Groups(*(Disconnected("gone") for _ in range(9)))
    committer = committer_of(groups)
    for name in ("a", "b", "c"):
        committer.commit(name, {PLACE: 1})
    committer.close()
    assert groups.tried == 2
