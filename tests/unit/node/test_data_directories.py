"""A node's directories of logs at its start: whose they are, which cannot be used, and what lies twice in them."""

import asyncio
import shutil
from pathlib import Path

import pytest

from levada.model.config import ConfigError
from levada.model.error_codes import ErrorCode
from levada.model.hashes import uuid_to_text
from levada.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from levada.records import build_batch
from levada.storage.move_tail import MOVED_FILE
from tests.logs import read_all
from tests.nodes import RunningNode, running_node


def start(*directories: Path, node_id: int = 1) -> dict[str, int]:
    """Start a node and stop it again; what it said of each of its directories."""

    async def main() -> dict[str, int]:
        settings = {"log.dirs": ",".join(map(str, directories)), "node.id": str(node_id)}
        async with running_node(directories[0], settings) as node:
            return await states(node)

    return asyncio.run(main())


async def states(node: RunningNode) -> dict[str, int]:
    answer = await node.call(DescribeLogDirsRequest(topics=None))
    return {Path(one.log_dir).name: one.error_code for one in answer.results}


def refusal(*directories: Path) -> str:
    """Why a node does not start, in one line."""
    with pytest.raises(ConfigError) as refused:
        start(*directories)
    text = str(refused.value)
    assert "\n" not in text
    return text


def properties(directory: Path) -> dict[str, str]:
    lines = (directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def write_properties(directory: Path, **changed: str) -> None:
    """With names whose dots are written `_`."""
    fields = properties(directory) | {name.replace("_", "."): value for name, value in changed.items()}
    (directory / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in fields.items() if value))


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return tmp_path / "first"


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return tmp_path / "second"


# Whose they are


def test_every_directory_has_an_id_of_its_own_and_the_cluster_of_all(first: Path, second: Path) -> None:
    assert start(first, second) == {"first": 0, "second": 0}
    one, other = properties(first), properties(second)
    assert one["directory.id"] != other["directory.id"]
    assert (one["cluster.id"], one["node.id"]) == (other["cluster.id"], other["node.id"])


def test_a_directory_that_is_added_later_belongs_to_the_cluster(first: Path, second: Path) -> None:
    start(first)
    start(first, second)
    assert properties(first)["cluster.id"] == properties(second)["cluster.id"]


def test_a_directory_of_another_cluster_is_refused(first: Path, second: Path) -> None:
    start(first)
    start(second)
    text = refusal(first, second)
    assert f"{second} belongs to cluster {properties(second)['cluster.id']}" in text


def test_a_directory_of_another_cluster_is_refused_before_others_are_marked(
    first: Path, second: Path, tmp_path: Path
) -> None:
    start(first)
    start(second)
    refusal(first, tmp_path / "third", second)
    assert not (tmp_path / "third" / "meta.properties").exists()


def test_a_directory_of_another_node_is_refused(first: Path, second: Path) -> None:
    start(second, node_id=7)
    assert f"{second} belongs to node 7" in refusal(first, second)


def test_a_damaged_identity_is_refused(first: Path, second: Path) -> None:
    start(first, second)
    (second / "meta.properties").write_text("version=1\n")
    assert f"{second}/meta.properties is damaged" in refusal(first, second)


def test_a_directory_that_another_broker_uses_is_refused(first: Path, second: Path) -> None:
    async def main() -> None:
        async with running_node(second):
            settings = {"log.dirs": f"{first},{second}"}
            with pytest.raises(ConfigError, match=f"{second} is in use by another broker"):
                async with running_node(first, settings):
                    pass

    asyncio.run(main())


def test_a_directory_and_its_copy_are_refused(first: Path, second: Path) -> None:
    start(first)
    shutil.copytree(first, second)
    assert f"{second} and {first} have the same directory.id" in refusal(first, second)


def test_directories_of_older_releases_get_an_id_and_keep_the_rest(first: Path, second: Path) -> None:
    start(first, second)
    before = properties(second)
    write_properties(second, directory_id="")
    assert start(first, second) == {"first": 0, "second": 0}
    after = properties(second)
    assert after["directory.id"] not in ("", before["directory.id"])
    assert (after["cluster.id"], after["node.id"]) == (before["cluster.id"], before["node.id"])


# Directories that cannot be used


@pytest.mark.parametrize("in_the_way", ["second", "second/meta.properties/", "second/meta.properties.tmp/"])
def test_a_broker_is_up_without_a_directory_that_cannot_be_used(
    first: Path, second: Path, in_the_way: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = first.parent / in_the_way
    if in_the_way.endswith("/"):
        (path / "something").mkdir(parents=True)
    else:
        path.write_text("a file")
    assert start(first, second) == {"first": 0, "second": ErrorCode.KAFKA_STORAGE_ERROR}
    assert [line for line in caplog.messages if line.startswith(f"log directory offline directory={second}")]


def test_a_broker_does_not_start_without_its_first_directory(first: Path, second: Path) -> None:
    first.write_text("a file")
    with pytest.raises(OSError, match="first"):
        start(first, second)
    assert not second.exists()


# What lies in two directories


async def fill(node: RunningNode) -> None:
    await node.create("t")
    partition = node.broker.partition("t", bytes(16), 0)
    partition.append(build_batch([(0, None, b"v", ())]), allows_zstd=True, now_ms=0)


def make(*directories: Path) -> None:
    """A topic `t`, whose log is in the first directory."""

    async def main() -> None:
        async with running_node(directories[0], {"log.dirs": ",".join(map(str, directories))}) as node:
            await fill(node)

    asyncio.run(main())
    assert (directories[0] / "t-0").exists()


def test_two_logs_of_one_partition_are_refused_and_kept(first: Path, second: Path) -> None:
    make(first, second)
    shutil.copytree(first / "t-0", second / "t-0")
    for _ in range(2):
        assert f"t-0 is in {first} and in {second}" in refusal(first, second)
    assert (first / "t-0").exists()
    assert (second / "t-0").exists()


def test_of_two_logs_the_one_counts_that_the_other_was_moved_to(first: Path, second: Path) -> None:
    make(first, second)
    shutil.copytree(first / "t-0", second / "t-0")
    (first / "t-0" / MOVED_FILE).write_text(properties(second)["directory.id"])

    async def main() -> None:
        async with running_node(first, {"log.dirs": f"{first},{second}"}) as node:
            partition = node.broker.partition("t", bytes(16), 0)
            assert partition.log.directory == f"{second}/t-0"
            assert [value for _, value in read_all(partition.log)] == [b"v"]
            holding = node.broker.logs.holding("t", 0)
            assert holding is not None
            assert uuid_to_text(holding.directory_id) == properties(second)["directory.id"]

    asyncio.run(main())
    (left,) = [path.name for path in first.iterdir() if path.name.startswith("t-0")]
    assert left.endswith("-delete")


def test_a_log_whose_directory_is_not_configured_is_offline_and_not_made_anew(first: Path, second: Path) -> None:
    make(second, first)
    shutil.copytree(second / "coordinator", first / "coordinator")

    async def main() -> None:
        async with running_node(first) as node:
            hosted = node.broker.replicas.by_name("t")
            assert hosted is not None
            assert (hosted.offline, hosted.partitions) == ({0}, {})
            assert not (first / "t-0").exists()

    asyncio.run(main())
