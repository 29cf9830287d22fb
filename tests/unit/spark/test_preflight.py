"""Schemas in Spark's short form, looked at without Spark: only a type that is none is refused."""

import pytest

from levada.spark.pipeline.preflight import type_fault


@pytest.mark.parametrize(
    "schema",
    [
        "id long",
        "id: long, name: string",
        "id BIGINT NOT NULL COMMENT 'a, b', price decimal(10, 2)",
        "`my field` string, tags array<struct<a: int, b: map<string, int>>>, at timestamp_ntz",
        "a interval day to second",
        "",
        "bigint",
        '{"type": "struct", "fields": []}',
    ],
)
def test_what_spark_takes_or_may_say_better_itself_is_let_through(schema: str) -> None:
    assert type_fault(schema) is None


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("id lng", "unknown type 'lng' of field 'id'; did you mean long?"),
        ("id long, name Strng", "unknown type 'Strng' of field 'name'; did you mean string?"),
    ],
)
def test_a_type_that_is_none_is_named(schema: str, fault: str) -> None:
    assert type_fault(schema) == fault


@pytest.mark.parametrize(
    "schema",
    [
        "id long comment 'the key, never empty', b int",
        "at time, name character(10), g geometry(4326)",
        "id bananas",
    ],
)
def test_what_only_spark_can_tell_is_left_to_it(schema: str) -> None:
    assert type_fault(schema) is None
