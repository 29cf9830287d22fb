"""A pipeline's YAML file: what is read from it, and what is said of what is wrong in it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from levada.spark.pipeline.definition import Definition, load, parse
from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.rules import rules_of
from levada.spark.pipeline.values import with_variables

WHOLE = """
bootstrap: localhost:9092
checkpoint: progress
trigger: 10 seconds
settings: {spark.sql.shuffle.partitions: 2}
sources:
  orders: {topic: orders, schema: "id long", options: {maxOffsetsPerTrigger: 100, failOnDataLoss: false}}
  lines: {files: logs, max_files: 10}
  users: {table: users, database: "sqlite:///a.db", cursor: changed, settle: 5s}
steps:
  valid: {from: orders, quality: [{not_null: id}]}
  fresh: {from: valid, expire_after: 1 hour}
  once: {from: fresh, deduplicate: id, within: 10 minutes}
  totals: {sql: "SELECT count(*) AS n FROM once"}
  scored: {python: "scores.py:score", inputs: [totals, users]}
  tagged: {from: once, route: tag, topics: {vip: orders.vip}, default: orders.rest}
sinks:
  totals: {from: totals, topic: totals, key: n, mode: update}
  table: {from: scored, database: "postgresql://host/db", table: scores, key: [a, b], retry_for: 1h}
  tagged: {from: tagged, routed: true}
  out: {from: lines, parquet: out, partition_by: day}
  seen: {from: users, console: true}
"""


def problems_in(text: str) -> list[str]:
    _, problems = parse(yaml.safe_load(text), Path())
    return [str(problem) for problem in problems]


def small(**changes: Any) -> str:
    """The smallest pipeline that is right, with changes."""
    right = {"sources": {"orders": {"topic": "orders", "schema": "id long"}}, "sinks": {"out": {"parquet": "out"}}}
    return yaml.safe_dump({**right, **changes})


def test_a_whole_file_is_read() -> None:
    definition, problems = parse(yaml.safe_load(WHOLE), Path("here"))
    assert problems == []
    assert [part.kind for part in definition.sources] == ["topic", "files", "table"]
    assert [part.kind for part in definition.steps] == [
        "quality",
        "expire_after",
        "deduplicate",
        "sql",
        "python",
        "route",
    ]
    assert [part.kind for part in definition.sinks] == ["topic", "database", "routed", "parquet", "console"]
    assert definition.trigger == "10000 milliseconds"
    assert definition.settings == {"spark.sql.shuffle.partitions": "2"}
    orders, _, users = definition.sources
    assert orders.options["options"] == {"maxOffsetsPerTrigger": "100", "failOnDataLoss": "false"}
    assert users.options["settle"] == 5.0
    assert definition.steps[2].value == ["id"]
    assert definition.sinks[1].options["retry_for"] == 3600.0


def test_the_smallest_file_needs_no_from() -> None:
    assert problems_in(small()) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sink": {}}, "sink: unknown key 'sink'; did you mean sinks?"),
        (
            {"sinks": {"totals": {"topc": "totals"}}},
            "sinks.totals.topc: unknown key 'topc'; did you mean topic?",
        ),
        (
            {"sinks": {"totals": {"topic": "totals", "kee": "id"}}},
            "sinks.totals.kee: unknown key 'kee'; did you mean key?",
        ),
        ({"sinks": {"out": {"from": "order", "parquet": "out"}}}, ("sinks.out.from: unknown source or step 'order'; "
         "did you mean orders?")),
        ({"sinks": {"out": {}}}, "sinks.out: must have one of topic, routed, parquet, delta, database, console"),
        ({"sinks": {"out": {"database": "sqlite:///a", "table": "t"}}}, "sinks.out: 'key' is missing"),
        ({"sinks": {"out": "orders"}}, "sinks.out: must be a mapping"),
        ({"trigger": "often"}, "trigger: it must be a length of time such as '10 minutes', '90s' or 90, not 'often'"),
        ({"steps": {"a": {"sql": ""}}}, "steps.a.sql: must not be empty"),
        ({"steps": {"a": {"deduplicate": "id", "from": "orders"}}}, "steps.a: 'within' is missing"),
        ({"steps": {"orders": {"sql": "SELECT 1"}}}, "steps.orders: a source or a step above has this name already"),
        ({"steps": {"a-b": {"sql": "SELECT 1"}}}, "steps.a-b: must be a name that SQL can use: letters, digits and _"),
        ({"steps": {"a": {"sql": "SELECT 1"}}}, "sinks.out: 'from' is missing: which of orders, a?"),
        ({"sources": {"f": {"files": "logs", "format": "xml"}}}, ("sources.f.format: must be one of text, json, csv, "
         "not 'xml'")),
        ({"sources": {"f": {"files": "logs", "max_files": 0}}}, ("sources.f.max_files: must be a whole number above 0, "
         "not 0")),
        ({"sources": {"t": {"topic": "t", "watermark": {"at": "often"}}}}, ("sources.t.watermark: at must be a length "
         "of time such as '10 minutes', '90s' or 90, not 'often'")),
        ({"sources": {"t": {"topic": "t", "watermark": "at"}}}, ("sources.t.watermark: must be a mapping of a column "
         "and a time, not 'at'")),
        ({"sources": {"t": {"topic": "t", "registry": False}}}, ("sources.t.registry: must be true, or the address of "
         "a schema registry")),
        ({"sources": {"t": {"topic": "${NOT_THERE_9}"}}}, ("sources.t.topic: the environment has no variable "
         "'NOT_THERE_9'")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(changes: dict[str, Any], problem: str) -> None:
    assert problem in problems_in(small(**changes))


def test_the_login_of_a_registry_is_in_no_text_of_what_was_read() -> None:
    sources = {"t": {"topic": "t", "registry": "http://ann:hush@h", "options": {"registry_password": "hush"}}}
    definition, problems = parse(
        {"registry": "http://ann:hush@h", "registry_password": "hush", "sources": sources, "sinks": {}}, Path()
    )
    assert problems == []
    assert definition.registry_password == "hush"
    assert "hush" not in repr(definition)


def test_all_problems_are_said_at_once() -> None:
    assert len(problems_in(small(trigger="x", sinks={"a": {"x": 1}, "b": {"topic": "t", "y": 2}}))) == 3


def test_a_file_without_sources_and_sinks_says_so() -> None:
    assert problems_in("bootstrap: a:1") == ["sources: is missing", "sinks: is missing"]


def test_a_step_may_only_use_what_is_above_it() -> None:
    steps = {"a": {"from": "b", "expire_after": "1h"}, "b": {"from": "orders", "expire_after": "1h"}}
    found = problems_in(small(steps=steps, sinks={"out": {"from": "b", "parquet": "out"}}))
    assert found == ["steps.a.from: unknown source or step 'b'"]


def test_variables_of_the_environment_are_put_in() -> None:
    given = {"a": ["x ${NAME}", 1], "b": {"c": "${NAME}${NAME}"}}
    assert with_variables(given, {"NAME": "v"}) == {"a": ["x v", 1], "b": {"c": "vv"}}


def test_text_that_is_no_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("sources:\n  a: {topic: x\nsinks: {}\n")
    with pytest.raises(PipelineError, match=r"p.yaml:\d: not YAML: "):
        load(file)
    file.write_text("- a\n")
    with pytest.raises(PipelineError, match="must be a mapping with sources, steps and sinks"):
        load(file)


def test_a_part_knows_where_its_rows_come_from() -> None:
    definition, _ = parse(yaml.safe_load(WHOLE), Path())
    assert isinstance(definition, Definition)
    assert [sink.input for sink in definition.sinks] == ["totals", "scored", "tagged", "lines", "users"]


def test_quality_rules_are_read_from_a_list() -> None:
    rules = rules_of(
        [
            {"not_null": "id"},
            {"in_range": {"column": "amount", "low": 0}},
            {"unique": {"keys": ["id"], "within": "1h"}},
            {"check": {"name": "paid", "condition": "paid > 0"}},
        ]
    )
    assert [rule.name for rule in rules] == ["not_null(id)", "in_range(amount)", "unique(id)", "paid"]


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"not_null": "id"}, "quality must be a list of rules, such as [{not_null: id}]"),
        ([{"notnull": "id"}], "unknown rule 'notnull'; did you mean not_null?"),
        ([{"in_range": {"colum": "a"}}], "rule in_range: unknown key 'colum'; did you mean column?"),
        ([{"fresh": "at"}], "rule fresh: 'within' is missing"),
    ],
)
def test_a_wrong_rule_is_refused(rules: Any, problem: str) -> None:
    with pytest.raises(PipelineError) as raised:
        rules_of(rules)
    assert str(raised.value) == problem


def problems_in_file(path: Path, text: str) -> list[str]:
    path.write_text(text)
    _, problems = load(path)
    return [str(problem) for problem in problems]


def test_two_sinks_of_one_name_are_refused_with_their_lines(tmp_path: Path) -> None:
    text = (
        "sources:\n  orders: {topic: orders, schema: id long}\n"
        "sinks:\n  out: {parquet: here}\n  seen: {console: true}\n  out: {parquet: there}\n"
    )
    assert problems_in_file(tmp_path / "p.yaml", text) == ["sinks.out: is there twice, in lines 4 and 6"]


def test_a_key_that_is_there_twice_is_refused_wherever_it_is(tmp_path: Path) -> None:
    text = (
        "sources:\n  orders: {topic: orders, schema: id long, topic: others}\n"
        "steps:\n  sane: {from: orders, quality: [{not_null: id, not_null: user}]}\n"
        "sinks:\n  out: {from: sane, parquet: here}\n"
        "trigger: 1s\n'trigger': 2s\n"
    )
    assert problems_in_file(tmp_path / "p.yaml", text) == [
        "sources.orders.topic: is there twice, in line 2",
        "steps.sane.quality[0].not_null: is there twice, in line 4",
        "trigger: is there twice, in lines 7 and 8",
    ]


def test_a_watermark_takes_a_time_as_all_keys_do() -> None:
    watermark = {"a": "10 minutes", "b": "90s", "c": 5, "d": 0, "e": "0.0 seconds"}
    watermark |= {"f": "1 minute 30 seconds", "g": "interval 10 minutes"}
    source = {"topic": "t", "watermark": watermark}
    definition, problems = parse({"sources": {"t": source}, "sinks": {"out": {"parquet": "out"}}}, Path())
    assert problems == []
    assert definition.sources[0].options["watermark"] == {
        "a": "600000 milliseconds",
        "b": "90000 milliseconds",
        "c": "5000 milliseconds",
        "d": "0 milliseconds",
        "e": "0 milliseconds",
        # As Spark writes what has several parts.
        "f": "1 minute 30 seconds",
        "g": "interval 10 minutes",
    }


def test_a_merged_mapping_may_be_overridden(tmp_path: Path) -> None:
    """`<<` is YAML's way to say a thing once: what is written beside it wins."""
    text = (
        "sources:\n  a: &usual {topic: a, schema: id long, format: json}\n  b: &more {<<: *usual, topic: b}\n"
        "  c: {<<: *more, topic: c}\nsinks:\n  out: {from: c, parquet: here}\n"
    )
    assert problems_in_file(tmp_path / "p.yaml", text) == []
