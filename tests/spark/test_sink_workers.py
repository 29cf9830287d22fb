"""What Spark's workers keep of writes that are over."""

import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

from levada.spark.sink import kept
from levada.spark.sink import task as task_module
from levada.spark.sink.commit import BatchCommit
from levada.spark.sink.kept import driver_key, drivers
from levada.spark.sink.names import WriteName
from levada.spark.sink.options import read_options
from levada.spark.sink.task import WriteAttempt, write_rows
from tests.spark.sink_checks import check_nothing_hangs, numbers, sink_options


def test_a_write_without_a_number_leaves_no_client_behind(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Its name is a random one, which no other write will have."""
    topic = new_topic()
    options = read_options(sink_options(bootstrap, topic=topic), is_stream=False)
    before = dict(kept._producers._kept)
    for number in range(3):
        name = WriteName.of_query(str(uuid.uuid4()))
        rows = pa.RecordBatch.from_pydict({"value": [str(number)]})
        report = write_rows(options, WriteAttempt(name, None, 0, 0), iter([rows]))
        BatchCommit(options, name, None, [report]).run()
        assert drivers.kept(driver_key(options, name.driver_id)) is None
    assert dict(kept._producers._kept) == before
    assert numbers(bootstrap, topic) == [0, 1, 2]
    check_nothing_hangs(bootstrap, topic)


def test_a_worker_remembers_the_last_runs_that_it_has_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "_looked_up", {})
    monkeypatch.setattr(task_module, "MOST_LOOKED_UP", 2)
    name = WriteName.of_query("q")
    for run in ("first", "second", "third"):
        task_module.note_looked_up(name, run)
    assert list(task_module._looked_up) == [(name, "second"), (name, "third")]
