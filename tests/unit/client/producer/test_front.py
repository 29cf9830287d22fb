"""The short way into a batch, compiled and pure: both do the same, and leave the same to the longer way."""

from typing import Any

import pytest

from levada.client.cluster import PartitionView, TopicView
from levada.client.errors import IllegalState
from levada.client.options import producer_options
from levada.client.producer import _front, pure_front
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.handle import Handle
from levada.client.producer.routes import Routes
from levada.model.hashes import partition_for_key

TWINS = pytest.mark.parametrize("twin", [_front, pure_front], ids=["compiled", "pure"])
NOW_MS = 1_700_000_000_000


class Stage:
    """A topic with three partitions, each with an open batch."""

    def __init__(self, twin: Any, check: Any = None, *, uses_system_time: bool = False) -> None:
        options = producer_options("localhost:9092", {"batch_size": 500})
        self.accumulator = Accumulator(options, lambda: 0.0, lambda: None)
        routes = Routes(options, lambda bound: 0, lambda: 0.0)
        partitions = [PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(3)]
        self.partitions = routes.add(TopicView("t", bytes(16), False, partitions, 0)).partitions
        for queue in self.partitions:
            assert self.accumulator.append(queue, NOW_MS, None, b"first", (), None) is not None
        self.longer: list[tuple[Any, ...]] = []
        self.front = twin.Front(
            routes.topics,
            Handle,
            self.accumulator.append_open,
            lambda: NOW_MS + 5,
            check,
            lambda *record: self.longer.append(record),
            uses_system_time=uses_system_time,
        )
        self.front.is_open = True
        routes.sticky(routes.topics["t"])


@TWINS
def test_a_record_goes_into_the_open_batch(twin: Any) -> None:
    stage = Stage(twin)
    handle = stage.front.send("t", b"value")
    assert isinstance(handle, Handle)
    assert (handle.batch, handle.index, handle.timestamp_ms) == (stage.partitions[0].open, 1, NOW_MS + 5)
    handle = stage.front.send("t", b"value", key=b"key", timestamp_ms=NOW_MS + 9)
    queue = stage.partitions[partition_for_key(b"key", 3)]
    assert handle.batch is queue.open
    assert queue.open.writer.records()[-1] == (NOW_MS + 9, b"key", b"value", ())
    assert not stage.longer


@TWINS
def test_the_rest_takes_the_longer_way(twin: Any) -> None:
    stage = Stage(twin)
    stage.front.send("unknown", b"value")
    stage.front.send("t", b"value", partition=1)
    stage.front.send("t", b"value", headers={"a": b"b"})
    stage.front.send("t", bytes(600))
    stage.front.is_open = False
    stage.front.send("t", b"value", on_delivery=print)
    assert [record[0] for record in stage.longer] == ["unknown", "t", "t", "t", "t"]
    assert stage.longer[1] == ("t", b"value", None, None, 1, None, None)
    assert stage.longer[4][6] is print


@TWINS
def test_other_buffers_and_callbacks_go_the_same_way(twin: Any) -> None:
    stage = Stage(twin)
    told: list[Any] = []
    handles = [
        stage.front.send("t", bytearray(b"array")),
        stage.front.send("t", memoryview(b"view")),
        stage.front.send("t", None, on_delivery=lambda metadata, error: told.append(metadata.offset)),
    ]
    assert [handle.index for handle in handles] == [1, 2, 3]
    assert stage.partitions[0].open is not None
    stage.partitions[0].open.succeed(100, -1)
    assert told == [103]
    assert handles[1].result().offset == 102
    assert not stage.longer


@TWINS
@pytest.mark.parametrize(
    ("topic", "details"),
    [
        ("t", {"value": "text"}),
        ("t", {"value": 5}),
        ("t", {"key": "text"}),
        ([], {}),
        (None, {}),
        ("t", {"timestamp_ms": 1.5}),
        ("t", {"timestamp_ms": 2**63}),
        ("t", {"on_delivery": 5}),
    ],
)
def test_what_is_of_the_wrong_kind_takes_the_longer_way_where_it_is_told(
    twin: Any, topic: Any, details: dict[str, Any]
) -> None:
    stage = Stage(twin)
    stage.front.send(topic, **details)
    assert len(stage.longer) == 1
    assert [queue.open and queue.open.count for queue in stage.partitions] == [1, 1, 1]


@TWINS
def test_what_is_checked_first_may_refuse(twin: Any) -> None:
    def refuse() -> None:
        raise IllegalState("not now")

    stage = Stage(twin, refuse)
    with pytest.raises(IllegalState, match="not now"):
        stage.front.send("t", b"value")
    assert stage.partitions[0].open is not None
    assert stage.partitions[0].open.count == 1


@pytest.mark.parametrize("uses_system_time", [True, False])
def test_time_is_the_clocks_unless_it_is_the_systems(uses_system_time: bool) -> None:
    handle = Stage(_front, uses_system_time=uses_system_time).front.send("t", b"value")
    assert (handle.timestamp_ms == NOW_MS + 5) is not uses_system_time
