"""What a numbered write asks of brokers, and how often."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from levada.spark.rows.starting import written_once
from levada.spark.sink import brokers
from levada.spark.sink.options import SinkOptions

SETTINGS = {"kafka.bootstrap.servers": "there:1", "kafka.client.id": "mine"}


@pytest.mark.parametrize("can", [True, False])
def test_brokers_are_asked_once_whether_they_commit_batches_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, can: bool
) -> None:
    asked: list[dict[str, str]] = []

    @contextmanager
    def admin_for(options: SinkOptions) -> Iterator[Any]:
        asked.append(options.admin_settings)
        yield cast(Any, SimpleNamespace(can_commit_groups=lambda: can))

    monkeypatch.setattr(brokers, "_known", {})
    monkeypatch.setattr(brokers, "kept_admin", admin_for)
    monkeypatch.setattr(brokers, "_coordinator_count", lambda admin: 50)
    expected = {"txnAppId": "q", "txnVersion": "7"} if can else {"delivery": "at-least-once"}
    for _ in range(2):
        assert written_once("q", 7, SETTINGS) == expected
    assert len(asked) == 1
    assert asked[0]["client.id"] == "mine", "with the options of the write, such as those of a login"
