"""A pipeline whose checkpoint is on a disk that is full: it ends with one line, and goes on when there is room."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from levada.spark.pipeline import PipelineOptions
from levada.spark.pipeline.command import plan_of, run
from levada.spark.pipeline.definition import load
from tests.small_disks import mounted_disk
from tests.spark.sink_checks import committed_records

PAGE = 4096
FILES = 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    with mounted_disk(tmp_path / "small", "512k") as path:
        yield path


def fill(disk: Path, free_pages: int) -> None:
    """Leave so many pages."""
    taken = 0
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        with suppress(OSError):
            while True:
                taken += ballast.write(bytes(PAGE))
        ballast.truncate(taken // PAGE * PAGE - free_pages * PAGE)


@pytest.mark.parametrize("free_pages", [0, 6, 9])
def test_a_pipeline_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    spark: SparkSession,
    bootstrap: str,
    small_disk: Path,
    tmp_path: Path,
    free_pages: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is full when the query begins, when its first batch does, or later."""
    lines, file = tmp_path / "lines", tmp_path / "p.yaml"
    lines.mkdir()
    for number in range(FILES):
        (lines / f"{number}.log").write_text(f"{number}\n")
    sink = {"database": f"sqlite:///{tmp_path}/a.db", "table": "lines", "key": "value", "create": True}
    content = {"sources": {"lines": {"files": str(lines), "max_files": 1}}, "sinks": {"kept": sink}}
    file.write_text(yaml.safe_dump(content))
    definition, problems = load(file)
    options = PipelineOptions(file, bootstrap=bootstrap, checkpoint=str(small_disk), is_available_now=True)

    def run_once() -> int:
        plan = plan_of(spark, options, definition)
        assert [*problems, *plan.findings.problems] == []
        return run(plan, options)

    fill(small_disk, free_pages)
    assert run_once() == 1
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("levada: kept: ")]
    advice = f"make room (the checkpoint is in {small_disk}) and run it again, it goes on where it was"
    assert said == f"levada: kept: No space left on device: {advice}"
    (small_disk / "ballast").unlink()
    assert run_once() == 0
    connection = sqlite3.connect(tmp_path / "a.db")
    assert sorted(connection.execute("SELECT value FROM lines").fetchall()) == [(f"{each}",) for each in range(FILES)]
    connection.close()


@pytest.mark.parametrize("free_pages", [4, 12])
def test_a_count_into_a_topic_on_a_full_disk_goes_on_when_there_is_room(
    spark: SparkSession,
    bootstrap: str,
    new_topic: Callable[..., str],
    small_disk: Path,
    tmp_path: Path,
    free_pages: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its state is in the checkpoint as well, and what it had written before it failed is not written again."""
    lines, file, topic = tmp_path / "lines", tmp_path / "p.yaml", new_topic()
    lines.mkdir()
    for number in range(FILES):
        (lines / f"{number}.log").write_text(f"{number}\nboth\n")
    content = {
        "sources": {"lines": {"files": str(lines), "max_files": 1}},
        "steps": {"counts": {"sql": "SELECT value, count(*) AS count FROM lines GROUP BY value"}},
        "sinks": {"kept": {"from": "counts", "topic": topic, "mode": "update", "key": "value"}},
    }
    file.write_text(yaml.safe_dump(content))
    definition, problems = load(file)
    options = PipelineOptions(file, bootstrap=bootstrap, checkpoint=str(small_disk), is_available_now=True)

    def run_once() -> int:
        plan = plan_of(spark, options, definition)
        assert [*problems, *plan.findings.problems] == []
        return run(plan, options)

    fill(small_disk, free_pages)
    assert run_once() == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("levada: kept: ")]
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert f"make room (the checkpoint is in {small_disk}) and run it again, it goes on where it was" in said[0]
    (small_disk / "ballast").unlink()
    assert run_once() == 0
    written = [json.loads(record.value or b"") for record in committed_records(bootstrap, topic)]
    counts = [{"value": "0", "count": 1}, {"value": "1", "count": 1}]
    counts += [{"value": "both", "count": 1}, {"value": "both", "count": 2}]
    assert sorted(written, key=str) == sorted(counts, key=str)
