"""Progress lines of pipelines, and the cause of a failure in one line."""

import io
import threading
import time
from dataclasses import replace

import pytest

from levada.client.types import TopicPartition
from levada.spark.pipeline.databases import quoted, quoted_table, safe
from levada.spark.pipeline.failure import cause_of
from levada.spark.pipeline.meter import Meter, Sample
from levada.spark.pipeline.progress import Display, QueryProgress, distance, heading, line, progress_of, short
from levada.spark.pipeline.sinks.batches import Control, Stopped

BEGAN = "2026-11-18T04:00:00.000Z"
REPORT = {
    "timestamp": BEGAN,
    "batchId": 12,
    "numInputRows": 3400,
    "processedRowsPerSecond": 3412.4,
    "durationMs": {"triggerExecution": 840},
    "sources": [
        {
            "endOffset": {"~group": "g", "orders": {"0": 100, "1": 50}},
            "latestOffset": {"orders": {"0": 150, "1": 50, "2": 7}},
        },
        {"endOffset": '{"a": {"0": 1}}', "latestOffset": '{"a": {"0": 4}}'},
    ],
}


def test_a_report_of_spark_becomes_a_line() -> None:
    progress = progress_of("totals", REPORT)
    offsets = {TopicPartition("orders", 0): 100, TopicPartition("orders", 1): 50}
    assert progress == QueryProgress("totals", 12, 0, 0.0, 840, 60, timestamp=BEGAN, offsets=offsets)
    shown = replace(progress, events_per_second=3412.4, lag_s=1.23)
    assert line(shown, 8) == "totals    batch 12       3.4k events/s        lag 60 (1.2 s)      840 ms"


def test_where_a_topic_is_read_twice_its_group_is_as_far_as_both() -> None:
    ends = [{"endOffset": {"~group": "g", "orders": {"0": offset}}} for offset in (7, 5, 9)]
    assert progress_of("joined", {"sources": ends}).offsets == {TopicPartition("orders", 0): 5}


def test_a_query_without_a_report_is_starting() -> None:
    assert line(progress_of("a", {}, "waiting for x"), 1) == (
        "a  starting          0 events/s                 lag -        0 ms  waiting for x"
    )


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (1_200_000, "1.2M")]
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_offsets_without_numbers_in_common_have_no_distance() -> None:
    assert distance({"cursor": "2026-01-01"}, {"cursor": "2026-01-02"}) is None
    assert distance(None, {"a": 1}) is None
    assert distance({"a": 7}, {"a": 5}) == 0


def test_lines_are_written_over_on_a_terminal_and_not_elsewhere() -> None:
    two = [QueryProgress("a", 1, 1, 1.0, 1, 0), QueryProgress("b", 1, 1, 1.0, 1, 0)]
    terminal = io.StringIO()
    display = Display(terminal, is_terminal=True, columns=20)
    display.show(two, 7.0)
    display.show(two, 7.0)
    first, second = terminal.getvalue().split("\x1b[3A")
    assert first == second
    assert all(len(text.removeprefix("\x1b[2K")) < 20 for text in first.splitlines())
    file = io.StringIO()
    Display(file, is_terminal=False).show(two, 7.0)
    assert "\x1b" not in file.getvalue()
    assert file.getvalue().count("\n") == 3


def test_all_queries_are_told_of_in_one_line() -> None:
    two = [QueryProgress("a", 1, 7, 950.0, 120, 30, lag_s=0.7), QueryProgress("b", 4, 7, 300.0, 410, 1, lag_s=0.1)]
    assert heading(two, 950.0) == "2 queries  950 events/s  lag 31 (0.7 s)  slowest batch b 410 ms"
    assert "lag 31  " in heading([two[0], replace(two[1], lag_s=None)], 950.0), "which is most behind is not known"
    assert heading([progress_of("a", {}), progress_of("b", {})], 0.0) == "2 queries  0 events/s  lag -"
    file = io.StringIO()
    Display(file, is_terminal=False).show(two, 400.0, "  12 s  ")
    assert file.getvalue().startswith("  12 s  2 queries  400 events/s  lag 31")
    file = io.StringIO()
    Display(file, is_terminal=False).show(two[:1], 400.0)
    assert "slowest" not in file.getvalue(), "one query needs no line about all"


FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


def test_rates_and_lags_are_those_of_the_clock_and_of_ends_of_now() -> None:
    meter = Meter()
    meter.note(Sample(100.0, {FIRST: 0, SECOND: 0}, {}, {"a": 0}))
    meter.note(Sample(110.0, {FIRST: 500, SECOND: 500}, {"a": {FIRST: 300, SECOND: 500}}, {"a": 400}))
    assert meter.incoming([FIRST, SECOND]) == 100.0
    assert meter.reading("a") == 40.0
    assert meter.lag("a") == 200
    assert meter.seconds_behind("a") == 2.0
    assert meter.lag("not started") is None
    assert meter.seconds_behind("not started") is None
    meter.note(Sample(130.0, {FIRST: 500}, {"a": {FIRST: 400}}))
    assert meter.seconds_behind("a") is None, "nothing came in in the last 15 s"
    meter.note(Sample(171.0, {FIRST: 500}, {"a": {FIRST: 500}}))
    assert meter.seconds_behind("a") == 0.0
    assert [sample.at for sample in meter.samples] == [130.0, 171.0]


IN_FOREACH_BATCH = """[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An \
error occurred. Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "x.py", line 23, in f
    raise PipelineError("no")
levada.spark.pipeline.problems.PipelineError: sqlite:///a.db was away
for 3 s
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1]
"""

IN_A_TASK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "x.py", line 37, in <lambda>
    d.mapInArrow(g, d.schema).collect()
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/tmp/e/x.py", line 35, in g
    raise KeyError("in task")
KeyError: 'in task'

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""

FROM_SPARK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "x.py", line 37, in <lambda>
    d.collect()
pyspark.errors.exceptions.captured.SparkRuntimeException: [USER_RAISED_EXCEPTION] two rows for one key SQLSTATE: P0001
"""

WITH_JAVA = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "x.py", line 37, in <lambda>
    next(rows)
py4j.protocol.Py4JJavaError: An error occurred while calling o1.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:\x20
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.Scheduler.run(Scheduler.scala:70)
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] two rows for one key SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:3082)
"""

NOT_FOUND = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `foo` cannot be resolved. Did you mean [`id`]? \
SQLSTATE: 42703; line 1 pos 7;
'Project ['foo]
+- SubqueryAlias v
"""


@pytest.mark.parametrize(
    ("account", "cause"),
    [
        (IN_FOREACH_BATCH, "sqlite:///a.db was away for 3 s"),
        (IN_A_TASK, "KeyError: 'in task'"),
        (FROM_SPARK, "two rows for one key"),
        (WITH_JAVA, "two rows for one key"),
        (NOT_FOUND, "A column with name `foo` cannot be resolved. Did you mean [`id`]?"),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\nselec",
         "Syntax error at or near 'selec'."),
        ("plain\nand simple", "plain and simple"),
    ],
)  # fmt: skip
def test_the_cause_of_a_failure_is_one_line(account: str, cause: str) -> None:
    assert cause_of(account) == cause


def test_names_are_quoted_and_passwords_are_not_shown() -> None:
    assert quoted('a"b') == '"a""b"'
    assert quoted_table("s.t") == '"s"."t"'
    assert safe("postgresql://me:secret@host:5/db") == "postgresql://me:***@host:5/db"
    assert safe("sqlite:///a.db") == "sqlite:///a.db"
    assert safe("postgresql://host/db") == "postgresql://host/db"
    assert safe("postgresql://me@host/db?user=me&password=secret") == "postgresql://me@host/db?user=me&password=***"
    assert safe("postgresql://host/db?pass%77ord=secret&a=b") == "postgresql://host/db?pass%77ord=***&a=b"
    for password in ("se/cret", "se?cret", "se#cret", "se@cret", "se[cret"):
        assert safe(f"postgresql://me:{password}@host:5/db") == "postgresql://me:***@host:5/db"


def test_waits_end_when_their_time_is_up_or_the_pipeline_stops() -> None:
    began = time.monotonic()
    assert 1 <= len(list(Control().waits(0.3))) <= 3
    assert 0.25 < time.monotonic() - began < 2
    control = Control()
    threading.Timer(0.05, control.stopping.set).start()
    with pytest.raises(Stopped):
        list(control.waits(60))
    assert time.monotonic() - began < 5
