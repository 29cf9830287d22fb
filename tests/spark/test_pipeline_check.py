"""What `levada pipeline check` finds before anything runs, and what it makes of a right pipeline."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from levada.cli.main import main
from levada.spark.pipeline import PipelineOptions
from levada.spark.pipeline.command import BuiltPipeline, plan_of
from levada.spark.pipeline.context import Context
from levada.spark.pipeline.definition import load
from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.queries import output_mode
from levada.spark.pipeline.writes import TopicSink
from levada.spark.rows import Rows, in_range

SCHEMA = "id long, user string, amount double"


@pytest.fixture
def planned(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Callable[..., BuiltPipeline]:
    """The plan of a pipeline that is given as what its YAML says, or as the text of a Python file."""

    def plan(content: dict[str, Any] | str) -> BuiltPipeline:
        file = tmp_path / ("p.py" if isinstance(content, str) else "p.yaml")
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        options = PipelineOptions(file, bootstrap=bootstrap, checkpoint=str(tmp_path / "progress"))
        definition, problems = load(file) if file.suffix == ".yaml" else (_nothing(tmp_path), [])
        assert problems == []
        return plan_of(spark, options, definition)

    return plan


def _nothing(directory: Path) -> Any:
    from levada.spark.pipeline.definition import Definition

    return Definition(directory)


def said(plan: BuiltPipeline) -> list[str]:
    return [str(problem) for problem in plan.findings.problems]


def test_each_problem_is_found_and_named_with_its_place(
    planned: Callable[..., BuiltPipeline], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    plan = planned(
        {
            "sources": {
                "orders": {"topic": topic, "schema": SCHEMA},
                "gone": {"topic": topic + "-x", "schema": SCHEMA},
                "bad": {"topic": topic, "schema": "id lng"},
                "wrong": {"topic": topic, "schema": SCHEMA, "options": {"maxOffsetPerTrigger": 1}},
                "users": {"table": "users", "database": f"sqlite:///{tmp_path}/a.db", "cursor": "id"},
            },
            "steps": {
                "totals": {"sql": "SELECT user, sum(amount) AS total FROM ordrs GROUP BY user"},
                "wrong_column": {"sql": "SELECT usr FROM orders"},
                "no_function": {"python": "steps.py:score", "inputs": ["orders"]},
                "late": {"sql": "SELECT user, count(*) AS n FROM orders GROUP BY user"},
                "after": {"sql": "SELECT * FROM totals"},
            },
            "sinks": {
                "out": {"from": "totals", "topic": "out"},
                "keyed": {"from": "orders", "topic": "keyed", "key": "usr"},
                "files": {"from": "orders", "parquet": str(tmp_path / "taken")},
                "lake": {"from": "late", "delta": str(tmp_path / "lake")},
                "odd": {"from": "orders", "topic": "odd", "options": {"kafka.lingerms": 5}},
                "kept": {"from": "orders", "database": f"sqlite:///{tmp_path}/b.db", "table": "t", "key": "id"},
                "away": {"from": "orders", "database": "postgresql://127.0.0.1:1/x", "table": "t", "key": "id"},
            },
        }
    )
    found = said(plan)
    for beginning in (
        f"sources.gone: unknown topic '{topic}-x'; did you mean {topic}?",
        "sources.bad: read: 'id lng' is not a schema",
        "sources.wrong: unknown option 'maxoffsetpertrigger'; did you mean maxOffsetsPerTrigger?",
        "sources.users: there is no table 'users'",
        "steps.totals: unknown source or step 'ordrs'; did you mean orders?",
        "steps.wrong_column: A column, variable, or function parameter with name `usr` cannot be resolved.",
        "steps.no_function: there is no file",
        "sinks.keyed: ",
        "sinks.files: ",
        "sinks.odd: options 'kafka.*': unknown setting 'lingerms'",
        "sinks.lake: Invalid streaming output mode: append.",
        "sinks.kept: there is no table 't'; set create: true, or make it: CREATE TABLE",
        "sinks.away: cannot use postgresql://127.0.0.1:1/x: ",
    ):
        assert [line for line in found if line.startswith(beginning)], (beginning, found)
    assert len(found) == 13
    assert all("\n" not in line for line in found)


def test_a_right_pipeline_has_notes_only_and_one_query_for_each_sink(
    planned: Callable[..., BuiltPipeline], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    plan = planned(
        {
            "sources": {
                "orders": {"topic": topic, "schema": SCHEMA},
                "clicks": {"topic": topic, "schema": "id long", "dead_letters": "clicks.dead"},
                "lines": {"files": str(tmp_path), "format": "text"},
            },
            "steps": {
                "valid": {"from": "orders", "quality": [{"not_null": "id"}]},
                "fresh": {"from": "valid", "expire_after": "1 hour"},
                "totals": {"sql": "SELECT user, sum(amount) AS total FROM valid GROUP BY user"},
                "clicked": {"sql": "SELECT id FROM clicks"},
            },
            "sinks": {
                "fresh": {"from": "fresh", "parquet": str(tmp_path / "fresh")},
                "totals": {"from": "totals", "topic": f"{topic}.totals", "key": "user"},
                "clicked": {"from": "clicked", "console": True},
                "lines": {"from": "lines", "topic": f"{topic}.lines", "format": "string"},
            },
        }
    )
    assert said(plan) == []
    notes = [str(note) for note in plan.findings.notes]
    assert f"sinks.totals: topic '{topic}.totals' is not there yet; the broker will make it" in notes
    # The rejected rows of clicks go into no sink: they have a query of their own.
    assert [write.name for write in plan.writes] == ["fresh", "totals", "clicked", "lines", "clicks-dead-letters"]
    assert output_mode(plan.writes[1]) == "update"
    assert output_mode(plan.writes[0]) == "append"


def test_rows_that_expire_may_not_be_left_behind_by_sql(
    planned: Callable[..., BuiltPipeline], new_topic: Callable[..., str]
) -> None:
    plan = planned(
        {
            "sources": {"orders": {"topic": new_topic(), "schema": SCHEMA}},
            "steps": {
                "fresh": {"from": "orders", "expire_after": "1 hour"},
                "some": {"sql": "SELECT id FROM fresh"},
            },
            "sinks": {"out": {"from": "some", "console": True}},
        }
    )
    assert said(plan) == [
        "sources.orders: rows that expire or repeat would be lost: send the step's result to a sink, not into SQL"
    ]


PYTHON = """
def pipeline(context):
    orders = context.read({topic!r}, {schema!r})
    valid = orders.quality([])
"""


def test_a_sink_may_not_have_the_name_of_the_query_for_dead_letters(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    context = Context(spark, bootstrap)
    orders = context.read(new_topic(), SCHEMA, name="orders")
    context.write(context.sql("SELECT id FROM orders", orders=orders), name="orders-dead-letters", console=True)
    writes, problems = context.left_behind()
    assert writes == []
    assert [str(problem) for problem in problems] == [
        "sources.orders.dead_letters: two sinks are called 'orders-dead-letters': names keep their checkpoints apart"
    ]


def test_a_python_file_is_built_and_its_errors_have_their_line(
    planned: Callable[..., BuiltPipeline], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    assert said(planned(PYTHON.format(topic=topic, schema=SCHEMA))) == [
        f"{tmp_path}/p.py:4: quality: name at least one rule, such as not_null('id')"
    ]
    (problem,) = said(planned("def pipeline(context):\n    pass\n"))
    assert problem.endswith("writes nothing: call context.write")
    (problem,) = said(planned("def pipelin(context):\n    pass\n"))
    assert problem.endswith("unknown function 'pipeline'; did you mean pipelin?")
    (problem,) = said(planned("def pipeline(context:\n"))
    assert f"{tmp_path}/p.py:1" in problem


def test_rejected_rows_are_written_once_however_many_sinks_there_are(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    context = Context(spark, bootstrap)
    orders = context.read(new_topic(), SCHEMA, name="orders")
    context.write(orders, name="one", topic="one")
    context.write(orders, name="two", console=True)
    other = context.read(new_topic(), SCHEMA, name="other")
    # A step that the context does not know of still has the rejected rows with it.
    context.write(other.expire_after("1 hour"), name="three", topic="three")
    assert ["_rejected" in write.frame.columns for write in context.writes] == [True, False, True]
    assert context.left_behind() == ([], [])
    context.read(new_topic(), SCHEMA, name="unread")
    ((left,), problems) = context.left_behind()
    assert problems == []
    assert left.name == "unread-dead-letters"
    assert isinstance(left.sink, TopicSink)
    with pytest.raises(PipelineError, match="two sinks are called 'one'"):
        context.write(orders, name="one", console=True)
    with pytest.raises(PipelineError, match=r"sinks\.four\.topc: unknown key 'topc'; did you mean topic\?"):
        context.write(orders, name="four", topc="x")
    with pytest.raises(PipelineError, match="its rows are not a stream"):
        context.write(spark.range(1), name="five", console=True)


BROKEN, FIRST, SECOND, THIRD = (
    ("broken", "parse"),
    ('{"id":0}', "quality"),
    ('{"id":1}', "route"),
    ('{"id":3}', "quality"),
)


@pytest.mark.parametrize(
    ("sinks", "expected"),
    [
        (("source", "one", "two", "other"), [BROKEN, FIRST, SECOND, THIRD]),
        (("other", "one"), [BROKEN, FIRST, SECOND, THIRD]),
        ((), [BROKEN, FIRST, SECOND, THIRD]),
        # A step that the context has not seen rejects what another one rejects as well.
        (("one", "unseen"), [BROKEN, FIRST, SECOND, THIRD, THIRD]),
    ],
)
def test_what_a_step_rejects_is_one_dead_letter_whichever_rows_have_sinks(
    spark: SparkSession, tmp_path: Path, sinks: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a").write_text("\n".join(["broken", *(f'{{"id":{number}}}' for number in range(4))]))
    context = Context(spark, "localhost:1")
    source = context.files(str(tmp_path / "lines"), format="json", schema="id long", name="source")
    assert isinstance(source, Rows)
    one = context.quality(source, [in_range("id", 1)])
    chosen = {
        "source": source,
        "one": one,
        "two": context.route(one, "id", {2: "a", 3: "b"}),
        "other": context.quality(source, [in_range("id", high=2)]),
        "unseen": one.quality([in_range("id", high=2)]),
    }
    for name in sinks:
        context.write(chosen[name], name=name, console=True)
    left, problems = context.left_behind()
    assert problems == []
    assert len({write.name for write in (*context.writes, *left)}) == len(sinks) + len(left)
    written = [write.rows.rejected for write in (*context.writes, *left) if isinstance(write.rows, Rows)]
    letters = [rejected.select("_source.value", "_rejected.stage") for rejected in written]
    found: list[tuple[str, str]] = []
    writer = reduce(DataFrame.union, letters).writeStream.foreachBatch(
        lambda rows, _: found.extend((bytes(row.value).decode(), row.stage) for row in rows.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path / "progress")).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    assert sorted(found) == sorted(expected)


def test_a_file_that_is_wrong_is_refused_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("sources: {a: {topic: a, schema: 'id long'}}\nsinks: {b: {topc: x}}\n")
    assert main(["pipeline", "check", str(file)]) == 1
    said_of_key = capsys.readouterr().err
    assert said_of_key == "levada: sinks.b.topc: unknown key 'topc'; did you mean topic?\n"
    file.write_text("sources: {a: {topic: a, schema: 'id long'}}\nsinks: {b: {topic: x}}\n")
    assert main(["pipeline", "run", str(file)]) == 1
    assert capsys.readouterr().err.startswith("levada: checkpoint: is missing: give --checkpoint DIR")
    assert main(["pipeline", "check", str(tmp_path / "none.yaml")]) == 1
    assert capsys.readouterr().err == f"levada: there is no file {tmp_path}/none.yaml\n"
    with pytest.raises(SystemExit) as exit_of:
        main(["pipeline", "run", str(file), "--set", "novalue"])
    assert exit_of.value.code == 2
