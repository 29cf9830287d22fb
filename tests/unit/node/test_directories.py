"""What lies in a data directory when a node starts: names that look alike, and copies that moves left behind."""

from pathlib import Path

import pytest

from levada.model.hashes import uuid_to_text
from levada.node.directories import Found, find_deleted, find_partitions, find_unfinished, superseded
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import LogDirectory
from levada.storage.move_tail import MOVED_FILE
from levada.world.real_disk import RealDisk

UNIQUE = "0123456789abcdef" * 2
A, B = b"a" * 16, b"b" * 16
DISK = RealDisk()


def place(root: Path, directory_id: bytes = A) -> LogDirectory:
    path = root / directory_id[:1].decode()
    path.mkdir(exist_ok=True)
    return LogDirectory(DISK, str(path), LogConfig(), lambda _: 0, directory_id=directory_id)


def put(where: LogDirectory, *names: str) -> None:
    for name in names:
        (Path(where.directory) / name).mkdir()


def mark_moved(where: LogDirectory, name: str, directory_id: bytes) -> Path:
    path = Path(where.directory) / name / MOVED_FILE
    path.write_text(uuid_to_text(directory_id))
    return path


@pytest.mark.parametrize("topic", ["t", "a.b-c", "t-0", "with-future", "x-delete", f"t-0.{UNIQUE}-future", "7"])
def test_a_partition_its_copy_and_its_remains_are_told_apart(tmp_path: Path, topic: str) -> None:
    where = place(tmp_path)
    put(where, f"{topic}-12", f"{topic}-12.{UNIQUE}-future", f"{topic}-12.{UNIQUE}-delete")
    assert [(one.topic, one.index) for one in find_partitions(DISK, where)] == [(topic, 12)]
    (unfinished,) = find_unfinished(DISK, where)
    assert (unfinished.topic, unfinished.index) == (topic, 12)
    assert unfinished.path == f"{where.directory}/{topic}-12.{UNIQUE}-future"
    assert find_deleted(DISK, where) == [f"{where.directory}/{topic}-12.{UNIQUE}-delete"]


@pytest.mark.parametrize(
    "name",
    [f"t-0.{UNIQUE[1:]}-future", f"t-0.{UNIQUE}0-future", f"t-0{UNIQUE}-future", f"t-x.{UNIQUE}-future", "t-future"],
)
def test_what_only_looks_like_a_copy_is_left_alone(tmp_path: Path, name: str) -> None:
    where = place(tmp_path)
    put(where, name)
    assert find_unfinished(DISK, where) == []


def test_a_log_that_has_moved_is_superseded_by_its_copy(tmp_path: Path) -> None:
    old, new = place(tmp_path, A), place(tmp_path, B)
    put(old, "t-0", "t-1")
    put(new, "t-0")
    marker = mark_moved(old, "t-0", B)
    found = [*find_partitions(DISK, old), *find_partitions(DISK, new)]
    assert superseded(DISK, found) == [Found(old, "t", 0, None)]
    assert marker.exists()


def test_a_move_that_did_not_come_to_its_end_leaves_the_log_where_it_is(tmp_path: Path) -> None:
    old, new = place(tmp_path, A), place(tmp_path, B)
    put(old, "t-0")
    put(new, f"t-0.{UNIQUE}-future", "t-1")
    marker = mark_moved(old, "t-0", B)
    assert superseded(DISK, [*find_partitions(DISK, old), *find_partitions(DISK, new)]) == []
    assert not marker.exists()


def test_a_log_that_came_back_is_not_superseded_by_itself(tmp_path: Path) -> None:
    where = place(tmp_path, A)
    put(where, "t-0")
    marker = mark_moved(where, "t-0", A)
    assert superseded(DISK, find_partitions(DISK, where)) == []
    assert not marker.exists()


def test_the_data_directory_of_another_broker_is_no_partition(tmp_path: Path) -> None:
    """It was taken for one of a topic that was deleted, and removed."""
    where = place(tmp_path)
    put(where, "broker-1", "orders-0")
    (Path(where.directory) / "broker-1" / "meta.properties").write_text("version=1\nnode.id=1\n")
    assert [(one.topic, one.index) for one in find_partitions(DISK, where)] == [("orders", 0)]
