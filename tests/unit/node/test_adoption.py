"""A data directory without metadata: what of it becomes topics, and what must not be lost by it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from levada.model.config import ConfigError
from tests.nodes import running_node

APACHE_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def make(path: Path, topic: str, partitions: int) -> None:
    """A topic in a directory that has lost its metadata."""

    async def main() -> None:
        async with running_node(path) as node:
            await node.create(topic, partitions)

    asyncio.run(main())
    shutil.rmtree(path / "coordinator")


def start(path: Path) -> list[str]:
    async def main() -> list[str]:
        async with running_node(path) as node:
            return list(node.broker.image.topics)

    return asyncio.run(main())


def test_a_topic_of_which_partitions_are_missing_stops_the_start_and_loses_nothing(tmp_path: Path) -> None:
    make(tmp_path, "orders", 3)
    shutil.rmtree(tmp_path / "orders-1")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"only some partitions of topic orders .* or move orders-\* away"):
            start(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"coordinator", "orders-0", "orders-2"}


def test_partitions_with_several_ids_are_not_one_topic(tmp_path: Path) -> None:
    make(tmp_path, "orders", 2)
    (tmp_path / "orders-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {APACHE_METADATA_ID}")
    with pytest.raises(ConfigError, match="only some partitions of topic orders"):
        start(tmp_path)


def test_apaches_own_metadata_is_no_topic_and_stays(tmp_path: Path) -> None:
    make(tmp_path, "orders", 1)
    shutil.copytree(tmp_path / "orders-0", tmp_path / "__cluster_metadata-0")
    (tmp_path / "__cluster_metadata-0" / "partition.metadata").write_text(f"topic_id: {APACHE_METADATA_ID}")
    for _ in range(2):
        assert start(tmp_path) == ["orders"]
    assert (tmp_path / "__cluster_metadata-0").exists()
