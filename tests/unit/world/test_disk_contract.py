"""What storage relies on, the same for the real disk and the simulated one."""

import errno
from dataclasses import dataclass
from pathlib import Path

import pytest

from levada.sim import Simulation
from levada.world.disk import Disk
from levada.world.real_disk import IOV_MAX, RealDisk


@dataclass
class Place:
    disk: Disk
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


@pytest.fixture(params=["real", "sim"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "real":
        return Place(RealDisk(), str(tmp_path))
    return Place(Simulation(1).world("host").disk, "/data")


def test_appends_go_to_the_end_and_reads_are_by_position(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    assert file.append([b"abc", bytearray(b"de"), memoryview(b"xfgx")[1:3]]) == 7
    assert file.append([b"hi"]) == 2
    assert file.size() == 9
    assert file.read(2, 4) == b"cdef"
    assert file.read(2, 4) == b"cdef"
    assert file.path == place.path("log")
    file.close()


def test_a_read_is_short_only_at_the_end(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([b"abcdef"])
    assert file.read(4, 100) == b"ef"
    assert file.read(6, 1) == b""
    assert file.read(100, 1) == b""
    file.close()


def test_a_warm_read_gives_the_same_bytes_or_none(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([bytes(range(256)) * 20])
    for _ in range(50):
        assert file.read_warm(100, 3000) in (None, file.read(100, 3000))
        assert file.read_warm(5000, 1000) in (None, file.read(5000, 1000))
        assert file.read_warm(9999, 10) in (None, b"")
    file.close()


def test_a_file_may_be_older_than_its_last_write_until_the_next(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([b"abc"])
    file.set_modified_ms(1_600_000_000_123)
    assert file.modified_ms() == 1_600_000_000_123
    place.disk.rename(place.path("log"), place.path("renamed"))
    assert place.disk.open(place.path("renamed")).modified_ms() == 1_600_000_000_123
    file.append([b"d"])
    assert file.modified_ms() > 1_600_000_000_123
    file.close()


def test_an_append_of_nothing_writes_nothing(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    assert file.append([]) == 0
    assert file.append([b""]) == 0
    assert file.size() == 0
    file.close()


def test_any_number_of_buffers_is_one_append(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    buffers = [b"%07d" % number for number in range(2 * IOV_MAX + 3)]
    assert file.append(buffers) == 7 * len(buffers)
    assert file.read(0, file.size()) == b"".join(buffers)
    file.close()


def test_after_a_truncation_the_next_append_follows_the_new_end(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([b"abcdef"])
    file.truncate(2)
    file.append([b"XY"])
    assert file.read(0, 10) == b"abXY"
    file.truncate(6)
    assert file.read(0, 10) == b"abXY\0\0"
    file.close()


def test_two_handles_of_one_file_see_each_other(place: Place) -> None:
    first = place.disk.open(place.path("log"), create=True)
    second = place.disk.open(place.path("log"))
    first.append([b"ab"])
    second.append([b"cd"])
    first.truncate(3)
    second.append([b"!"])
    assert first.read(0, 10) == b"abc!"
    first.close()
    second.close()


def test_opening_an_existing_file_to_create_keeps_it(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([b"kept"])
    file.sync()
    file.close()
    again = place.disk.open(place.path("log"), create=True)
    assert again.read(0, 10) == b"kept"
    again.close()


def test_a_closed_file_refuses_and_closes_twice(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.close()
    file.close()
    with pytest.raises(OSError) as refusal:
        file.read(0, 1)
    assert refusal.value.errno == errno.EBADF
    with pytest.raises(OSError):
        file.append([b"x"])


def test_missing_and_misplaced_names_are_refused(place: Place) -> None:
    disk = place.disk
    for attempt in (disk.open, disk.names, disk.remove, disk.remove_tree, disk.sync_directory):
        with pytest.raises(FileNotFoundError):
            attempt(place.path("missing"))
    with pytest.raises(FileNotFoundError):
        disk.open(place.path("missing/log"), create=True)
    with pytest.raises(FileNotFoundError):
        disk.rename(place.path("missing"), place.path("new"))
    disk.make_directories(place.path("directory"))
    with pytest.raises(IsADirectoryError):
        disk.open(place.path("directory"))
    with pytest.raises(IsADirectoryError):
        disk.remove(place.path("directory"))
    disk.open(place.path("file"), create=True).close()
    with pytest.raises(NotADirectoryError):
        disk.names(place.path("file"))
    with pytest.raises(NotADirectoryError):
        disk.open(place.path("file/inner"), create=True)
    with pytest.raises(FileExistsError):
        disk.make_directories(place.path("file"))


def test_names_come_sorted(place: Place) -> None:
    for name in ("b", "c", "a"):
        place.disk.open(place.path(name), create=True).close()
    place.disk.make_directories(place.path("aa/deep"))
    place.disk.make_directories(place.path("aa/deep"))
    assert place.disk.names(place.root) == ["a", "aa", "b", "c"]
    assert place.disk.names(place.path("aa")) == ["deep"]


def test_a_rename_replaces_a_file_and_leaves_open_handles_alone(place: Place) -> None:
    old = place.disk.open(place.path("old"), create=True)
    new = place.disk.open(place.path("new"), create=True)
    old.append([b"old"])
    new.append([b"new"])
    place.disk.rename(place.path("old"), place.path("new"))
    assert place.disk.names(place.root) == ["new"]
    assert new.read(0, 9) == b"new"
    old.append([b"er"])
    renamed = place.disk.open(place.path("new"))
    assert renamed.read(0, 9) == b"older"
    for file in (old, new, renamed):
        file.close()


def test_a_directory_is_renamed_with_what_is_in_it(place: Place) -> None:
    place.disk.make_directories(place.path("topic-0"))
    file = place.disk.open(place.path("topic-0/log"), create=True)
    place.disk.rename(place.path("topic-0"), place.path("topic-0-delete"))
    file.append([b"still here"])
    assert not place.disk.exists(place.path("topic-0"))
    assert place.disk.exists(place.path("topic-0-delete/log"))
    file.close()
    place.disk.remove_tree(place.path("topic-0-delete"))
    assert place.disk.names(place.root) == []


def test_renames_onto_the_wrong_thing_are_refused(place: Place) -> None:
    disk = place.disk
    disk.make_directories(place.path("full/inner"))
    disk.make_directories(place.path("other"))
    disk.open(place.path("file"), create=True).close()
    with pytest.raises(IsADirectoryError):
        disk.rename(place.path("file"), place.path("other"))
    with pytest.raises(NotADirectoryError):
        disk.rename(place.path("other"), place.path("file"))
    with pytest.raises(OSError) as not_empty:
        disk.rename(place.path("other"), place.path("full"))
    assert not_empty.value.errno == errno.ENOTEMPTY
    with pytest.raises(OSError) as into_itself:
        disk.rename(place.path("full"), place.path("full/inner/deeper"))
    assert into_itself.value.errno == errno.EINVAL
    disk.rename(place.path("full"), place.path("full"))
    disk.rename(place.path("full"), place.path("other"))
    assert disk.names(place.path("other")) == ["inner"]


def test_a_removed_file_can_be_read_through_an_open_handle(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([b"bytes"])
    place.disk.remove(place.path("log"))
    assert not place.disk.exists(place.path("log"))
    assert file.read(0, 10) == b"bytes"
    file.close()


def test_syncs_return(place: Place) -> None:
    file = place.disk.open(place.path("log"), create=True)
    file.append([b"bytes"])
    file.sync()
    place.disk.sync_directory(place.root)
    file.close()


def test_a_lock_is_held_once_and_free_after_its_release(place: Place) -> None:
    lock = place.disk.lock(place.path(".lock"))
    with pytest.raises(BlockingIOError):
        place.disk.lock(place.path(".lock"))
    lock.release()
    lock.release()
    again = place.disk.lock(place.path(".lock"))
    lock.release()
    with pytest.raises(BlockingIOError):
        place.disk.lock(place.path(".lock"))
    again.release()
