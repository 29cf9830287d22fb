"""How comparisons and origins read."""

from levada.spark.history.differences import Difference, Kind, Report
from levada.spark.history.origins import Origin, RecordState
from levada.spark.history.ranges import OffsetRange, TopicRange
from levada.spark.history.replay import Replayed


def test_a_report_agrees_only_if_nothing_differs() -> None:
    assert Report(("id",), 2, 2, 2, {}).agrees
    assert not Report(("id",), 2, 2, 2, {Kind.MISSING_LEFT: 1}).agrees
    assert not Report(("id",), 2, 2, 2, {}, only_right_columns=("x",)).agrees


def test_a_report_reads_line_by_line() -> None:
    example = Difference(Kind.DIFFERENT, ("ann", 3), {"points": (1, None)})
    report = Report(("user", "day"), 4, 3, 2, {Kind.DIFFERENT: 1}, {"points": 1}, ("extra",), examples=(example,))
    assert str(report).splitlines() == [
        "the tables differ: 4 rows left, 3 right, 2 keys equal",
        "columns only on the left: extra",
        "1 keys with other values (points: 1)",
        "  user='ann', day=3: points 1 != None",
    ]


def test_origins_are_drawn_as_a_tree() -> None:
    order = Origin(2, None, "orders", 1, 4, 1_000, None, RecordState.GONE)
    point = Origin(1, "points", "points", 0, 7, 2_000, b"\xffann", sources=(order,))
    total = Origin(0, "totals", "totals", 0, 3, 3_000, b"ann", run="r", unlisted=5, sources=(point,))
    assert str(total).splitlines() == [
        "totals-0-3 key=ann by totals in run r at 1970-01-01T00:00:03.000Z",
        "  points-0-7 key=\\xffann by points at 1970-01-01T00:00:02.000Z",
        "    orders-1-4 (gone) at 1970-01-01T00:00:01.000Z",
        "  and 5 more whose offsets were not kept",
    ]
    assert total.beginnings == [order]


def test_a_replay_says_what_it_did_and_what_it_would_do() -> None:
    source = TopicRange("orders", {0: OffsetRange(5, 9)})
    done = "run r read 4 records (orders-0 5 to 8), retracted 3 and wrote 4 in points"
    assert str(Replayed("r", source, "points", 4, 3, 4)) == done
    assert "would retract 3 and write 4" in str(Replayed("r", source, "points", 4, 3, 4, is_dry=True))
    assert "before: nothing was done" in str(Replayed("r", source, "points", 0, 0, 0, was_done=True))
