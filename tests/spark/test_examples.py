"""The examples of the pipelines' page, run with a real broker and a real Spark."""

import doctest
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from levada.spark.pipeline.definition import parse
from levada.spark.sessions import BOOTSTRAP_SETTING
from tests.brokers import BrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"


def test_the_page(own_broker: BrokerProcess, spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get(BOOTSTRAP_SETTING)
    try:
        failed, tried = doctest.testfile(
            str(PAGE),
            module_relative=False,
            globs={"bootstrap": own_broker.bootstrap, "directory": str(tmp_path)},
            encoding="utf-8",
        )
    finally:
        spark.conf.set(BOOTSTRAP_SETTING, before or "")
    assert tried > 20
    assert failed == 0


def test_the_pipeline_of_the_page_is_one(tmp_path: Path) -> None:
    [text] = [block.partition("```")[0] for block in PAGE.read_text().split("```yaml\n")[1:]]
    definition, problems = parse(yaml.safe_load(text), tmp_path)
    assert not problems
    assert [sink.name for sink in definition.sinks] == ["clean", "totals"]
