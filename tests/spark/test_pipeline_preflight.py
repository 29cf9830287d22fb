"""What is wrong with a pipeline's broker, topics or schemas is told in seconds, before Spark is started."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from levada.spark.pipeline.status import STOPPED, StatusFile
from tests.strangers import STRANGERS, stranger

PROBED = "2.0 s"
"""What a broker is given to answer, where a client that just went on trying would take a minute."""
PIPELINE = """
sources:
  orders: {{topic: {topic}, schema: "{schema}"}}
sinks:
  clean: {{from: orders, parquet: {out}}}
"""
PYTHON = """
def pipeline(context):
    context.write(context.read("orders", "id long"), topic="clean")
"""


def pipeline(command: str, file: Path, address: str) -> "subprocess.CompletedProcess[str]":
    ran = run_of(command, file, address)
    assert not (file.parent / "progress").exists()
    return ran


def run_of(command: str, file: Path, address: str, scheme: str = "") -> "subprocess.CompletedProcess[str]":
    """In a process of its own, which would not find a Java if it looked for one."""
    flags = ["--bootstrap-server", address, "--checkpoint", f"{scheme}{file.parent / 'progress'}"]
    environment = {**os.environ, "JAVA_HOME": "/no/such/java", "PATH": "/no/such/path"}
    ran = subprocess.run(
        [sys.executable, "-m", "levada", "pipeline", command, str(file), *flags],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stdout == ""
    return ran


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("kind", ["refusing", "silent", "web"])
def test_a_broker_that_is_none_is_one_line(tmp_path: Path, command: str, kind: str) -> None:
    yaml, python = tmp_path / "p.yaml", tmp_path / "p.py"
    yaml.write_text(PIPELINE.format(topic="orders", schema="id long", out=tmp_path / "out"))
    python.write_text(PYTHON)
    with stranger(kind) as address:
        for file in (yaml, python):
            ran = pipeline(command, file, address)
            assert ran.stderr.startswith(f"levada: bootstrap: no Kafka broker answers: {address} ")
            assert STRANGERS[kind] + (PROBED if kind == "silent" else "") in ran.stderr
            assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_topic_that_is_not_there_and_a_type_that_is_none_are_a_line_each(
    tmp_path: Path, bootstrap: str, new_topic: Callable[..., str], command: str
) -> None:
    topic = new_topic()
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE.format(topic=f"{topic}x", schema="id lng, name string", out=tmp_path / "out"))
    assert pipeline(command, file, bootstrap).stderr == (
        "levada: sources.orders.schema: unknown type 'lng' of field 'id'; did you mean long?\n"
        f"levada: sources.orders: unknown topic '{topic}x'; did you mean {topic}?\n"
    )


@pytest.mark.parametrize("scheme", ["", "file://", "file:"])
def test_a_second_run_on_one_checkpoint_is_refused(tmp_path: Path, scheme: str) -> None:
    """By its name or by the name of a query, which has its progress in one place."""
    progress = tmp_path / "progress"
    progress.mkdir()
    for name, said in (("first", "pipeline 'first'"), ("second", "query 'clean' of another pipeline")):
        file = tmp_path / f"{name}.yaml"
        file.write_text(PIPELINE.format(topic="orders", schema="id long", out=tmp_path / "out"))
        with StatusFile(str(progress), "first", ["clean"]) as first:
            ran = run_of("run", file, "localhost:1", scheme)
            first.end(STOPPED)
        said += f" runs already with the checkpoint {progress}: stop it, or give another --checkpoint"
        assert ran.stderr == f"levada: {said}\n"
