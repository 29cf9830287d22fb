"""The pipelines' page and the README, each run from top to bottom with a real broker and a real Spark."""

import doctest
import io
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from levada.cli.main import main
from levada.spark import read
from levada.spark.defaults import BOOTSTRAP_SETTING
from tests.brokers import BrokerProcess
from tests.pages import ROOT, Block, Reader, blocks_of, commands_of, compare
from tests.registries import registry_server

SPARK = "levada.spark"
"""What the README's block for Spark uses."""


@pytest.fixture
def left_running(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A command that would end with its Spark leaves the one of all tests running, and as it was."""
    before = spark.conf.get(BOOTSTRAP_SETTING)
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    monkeypatch.chdir(tmp_path)
    yield spark
    spark.conf.set(BOOTSTRAP_SETTING, before or "")


class PipelinesReader:
    """Does what the blocks of a page say, in this process; `./` is where Spark would have been started."""

    def __init__(self, bootstrap: str, registry: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._names: dict[str, Any] = {"bootstrap": bootstrap, "registry": registry, "directory": str(directory)}

    def follow(self, block: Block) -> None:
        if block.language == "yaml":
            name = block.text.partition("\n")[0].removeprefix("# ")
            assert name.endswith(".yaml"), f"{block}: its first line must be a comment with a name for the file"
            (self._directory / name).write_text(block.text)
        elif block.language == "console":
            for command, shown in commands_of(block.text):
                self._type(block, command, shown)
        else:
            assert block.language == "python", f"{block}: cannot run {block.language or 'no language'}"
            assert block.text.startswith(">>> "), f"{block}: not an example for doctest"
            self._try(block)

    def _type(self, block: Block, command: str, shown: str) -> None:
        program, *arguments = shlex.split(command.replace("./", f"{self._directory}/"))
        assert program == "levada", f"{block}: {command}"
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = main([*arguments, "--bootstrap-server", self._bootstrap])
        assert code == 0, printed.getvalue()
        compare(block, command, shown, printed.getvalue())

    def _try(self, block: Block) -> None:
        name = str(block)
        examples = doctest.DocTestParser().get_doctest(block.text, self._names, name, name, block.line)
        told = io.StringIO()
        doctest.DocTestRunner().run(examples, out=told.write, clear_globs=False)
        self._names.update(examples.globs)
        assert told.getvalue() == ""


@pytest.mark.usefixtures("left_running")
def test_the_page_of_pipelines_does_what_it_shows(
    own_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry_server() as registry:
        monkeypatch.setenv("REGISTRY", registry.url)
        reader = PipelinesReader(own_broker.bootstrap, registry.url, tmp_path)
        for block in blocks_of(ROOT / "docs" / "pipelines.md"):
            if not block.not_run:
                reader.follow(block)


def test_the_readme_does_what_it_shows(left_running: SparkSession, tmp_path: Path) -> None:
    """All of it, in its order: the script for Spark counts what the clients above it have sent."""
    with Reader(tmp_path) as reader:
        for block in blocks_of(ROOT / "README.md"):
            if SPARK in block.text:
                reader.run_here(block)
                # A script's queries end with it: what runs on here would not be written there.
                assert left_running.streams.active == []
                assert counted(reader.bootstrap) == {f"user-{number}".encode(): "200" for number in range(10)}
            elif not block.not_run:
                reader.follow(block)


def counted(bootstrap: str) -> dict[bytes, str]:
    counts = read("counts", format="string", stream=False, bootstrap=bootstrap).good
    return {row["key"]: row["value"] for row in counts.selectExpr("_source.key", "value").collect()}
