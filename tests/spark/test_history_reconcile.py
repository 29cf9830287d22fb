"""Two tables compared key by key."""

from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from levada.spark.history import reconcile
from levada.spark.history.differences import Kind

SCHEMA = "id long, region string, amount double, tags map<string,int>, at timestamp"
AT = datetime(2026, 11, 15, 12)
ROWS = [
    (1, "eu", 1.5, {"a": 1, "b": 2}, AT),
    (2, None, None, None, None),
    (3, "us", float("nan"), {}, AT),
    (None, "eu", 4.0, {"a": 1}, AT),
]


def test_equal_tables_agree_whatever_their_order_nulls_and_nan(spark: SparkSession) -> None:
    left = spark.createDataFrame(ROWS, SCHEMA)
    right = spark.createDataFrame(list(reversed(ROWS)), SCHEMA).select("at", "tags", "amount", "region", "id")
    report = reconcile(left, right, keys=["id", "region"])
    assert report.agrees
    assert (report.left_rows, report.right_rows, report.equal) == (4, 4, 4)
    assert str(report) == "the tables agree: 4 rows left, 4 right, 4 keys equal"


def test_every_kind_of_difference_is_counted_and_shown(spark: SparkSession) -> None:
    left = spark.createDataFrame(
        [(1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0), (4, "d", 4.0), (4, "d", 4.0)],
        "id long, name string, amount double",
    )
    right = spark.createDataFrame([(1, "a", 1.0), (2, "B", None), (4, "d", 4.0), (5, "e", 5.0)], left.schema)
    report = reconcile(left, right, keys="id")
    assert not report.agrees
    assert (report.equal, report.missing_left, report.missing_right, report.different, report.duplicates) == (
        1,
        1,
        1,
        1,
        1,
    )
    assert report.columns == {"name": 1, "amount": 1}
    assert {each.kind: each.key for each in report.examples} == {
        Kind.MISSING_LEFT: (5,),
        Kind.MISSING_RIGHT: (3,),
        Kind.DIFFERENT: (2,),
        Kind.DUPLICATE: (4,),
    }
    assert str(report).splitlines() == [
        "the tables differ: 5 rows left, 4 right, 1 keys equal",
        "1 keys missing on the left",
        "  id=5",
        "1 keys missing on the right",
        "  id=3",
        "1 keys with other values (name: 1, amount: 1)",
        "  id=2: name 'b' != 'B', amount 2.0 != None",
        "1 keys there more than once",
        "  id=4: 2 times left, 1 right",
    ]


def test_numbers_may_differ_by_the_tolerance_and_not_by_more(spark: SparkSession) -> None:
    left = spark.createDataFrame([(1, 1.0, 5), (2, 2.0, 5)], "id long, amount double, count long")
    right = spark.createDataFrame([(1, 1.01, 5), (2, 2.2, 6)], "id long, amount double, count int")
    assert reconcile(left, right, keys="id").different == 2
    report = reconcile(left, right, keys="id", tolerance={"amount": 0.1})
    assert [each.columns for each in report.examples] == [{"amount": (2.0, 2.2), "count": (5, 6)}]
    assert reconcile(left, right, keys="id", tolerance=1.0).agrees


def test_columns_and_types_that_differ_are_reported(spark: SparkSession) -> None:
    left = spark.createDataFrame([("1", "x", 1)], "id string, name string, extra int")
    right = spark.createDataFrame([(1, "x", 2)], "id long, name string, other int")
    report = reconcile(left, right, keys="id")
    assert (report.only_left_columns, report.only_right_columns) == (("extra",), ("other",))
    assert report.other_types == {"id": ("string", "bigint")}
    assert (report.equal, report.agrees) == (1, False)
    assert "column id is string on the left and bigint on the right: compared as text" in str(report)
    assert reconcile(left, right, keys="id", compare=["name"]).agrees


def test_examples_are_limited_and_counts_are_not(spark: SparkSession) -> None:
    report = reconcile(spark.range(50), spark.range(0), keys="id", limit=3)
    assert (report.missing_right, [each.key for each in report.examples]) == (50, [(0,), (1,), (2,)])


def test_names_of_columns_may_have_dots(spark: SparkSession) -> None:
    names = "`user.id` long, `a.b` string, `c``d` int, `user` struct<id: long>"
    left = spark.createDataFrame([(1, "x", 1, (7,)), (2, "y", 2, (7,))], names)
    right = spark.createDataFrame([(1, "x", 1, (7,)), (2, "z", 2, (7,)), (3, "z", 3, (7,))], names)
    report = reconcile(left, right, keys="user.id", tolerance={"c`d": 1})
    assert (report.equal, report.different, report.missing_left, report.columns) == (1, 1, 1, {"a.b": 1})
    assert "  user.id=2: a.b 'y' != 'z'" in str(report).splitlines()
    assert reconcile(left, right.where("`user.id` < 2"), keys=["a.b", "user.id"]).missing_right == 1


def test_a_key_that_is_not_there_and_a_stream_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="the left one has no key column 'user', only id"):
        reconcile(spark.range(1), spark.range(1), keys="user")
    with pytest.raises(ValueError, match="the right one is a stream"):
        reconcile(spark.range(1), spark.readStream.format("rate").load(), keys="id")
