"""The log of the local coordinator: who may write it, what counts, and what its readers see."""

import errno
from pathlib import Path

import pytest

from levada.doors.frames import encode_batch, frame, frames
from levada.metadata.door import Deposed, DoorError, MetadataBatch, Token
from levada.metadata.records import RemoveTopicRecord
from tests.unit.doors.nodes import Machine, Node, ShortWrite, failing, finish


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "coordinator")


def over(machine: Machine, node_id: int = 2) -> Node:
    """Another node that takes over, since the one before was silent for too long."""
    node = machine.node(node_id)
    machine.clock.now += 10_000
    return node.lead()


def test_what_one_writes_the_other_reads(machine: Machine) -> None:
    writer, reader = machine.node(1).lead(), machine.node(2)
    assert reader.read() == []
    writer.write("a", "b")
    assert reader.read() == ["a", "b"]
    writer.write("c")
    assert reader.read() == writer.read() == machine.reader() == ["a", "b", "c"]
    assert reader.image.offset == 2


def test_a_log_goes_on_over_many_lives(machine: Machine) -> None:
    for number in range(5):
        node = machine.node().lead()
        node.write(f"{number}")
        node.stop()
    assert machine.reader() == ["0", "1", "2", "3", "4"]
    assert machine.node().lead().token is not None


def test_a_deposed_writer_learns_it_and_can_write_no_more(machine: Machine) -> None:
    first = machine.node(1).lead()
    first.write("a")
    second = over(machine)
    with pytest.raises(Deposed):
        first.write("b")
    with pytest.raises(Deposed):
        first.write("c")
    second.write("d")
    assert first.read() == second.read() == machine.reader() == ["a", "d"]


def expect_deposed(node: Node, value: str) -> None:
    with pytest.raises(Deposed):
        node.write(value)


def test_a_write_that_came_before_the_successors_note_counts(machine: Machine) -> None:
    first, second = machine.node(1).lead(), machine.node(2)
    machine.clock.now += 10_000
    # The epoch is claimed, and the predecessor's log not looked at.
    second.disk.before("open", "log-", lambda: expect_deposed(first, "late"))
    second.lead()
    assert second.seen == ["late"]
    second.write("next")
    assert first.read() == machine.reader() == ["late", "next"]


def test_a_write_that_came_after_the_successors_note_does_not(machine: Machine) -> None:
    first, second = machine.node(1).lead(), machine.node(2)
    first.write("a")
    machine.clock.now += 10_000
    second.disk.before("create", "log-", lambda: expect_deposed(first, "late"))
    second.lead()
    second.write("next")
    assert first.read() == second.read() == machine.reader() == ["a", "next"]


def test_of_two_claimants_one_wins(machine: Machine) -> None:
    first, second = machine.node(1), machine.node(2)
    second.disk.before("create", "epoch-", first.lead)
    assert finish(second.door.campaign()) is None
    first.write("a")
    assert second.read() == ["a"]


def test_a_claimant_that_was_overtaken_may_not_write(machine: Machine) -> None:
    slow, fast = machine.node(1), machine.node(2)

    def overtake() -> None:
        machine.clock.now += 10_000
        fast.lead().write("a")

    # Its epoch is claimed, its log is not begun.
    slow.disk.before("create", "log-", overtake)
    assert finish(slow.door.campaign()) is None
    fast.write("b")
    assert slow.read() == fast.read() == machine.reader() == ["a", "b"]


def test_a_reader_is_not_misled_by_a_claimant_that_was_overtaken(machine: Machine) -> None:
    """The slow claimant notes more of the zombie's log than the fast one did, and the reader meets that note first."""
    zombie, slow, fast, reader = (machine.node(number) for number in (1, 2, 3, 4))
    zombie.lead().write("a")
    reader.read()
    machine.clock.now += 10_000
    machine.file("epoch-0000000002").write_text('{"node_id": 2, "incarnation": "gone"}')

    def let_the_fast_one_go_first() -> None:
        fast.lead()
        expect_deposed(zombie, "late")
        finish(slow.door._begin_log(Token(2)))

    # The reader has seen that epoch 2 is the newest, and will see what its log begins with.
    reader.disk.before("open", "log-0000000002", let_the_fast_one_go_first)
    assert reader.read() == ["a"]
    fast.write("b")
    assert reader.read() == fast.read() == machine.reader() == ["a", "b"]


def test_a_reader_that_is_overtaken_while_it_reads_takes_only_what_counts(machine: Machine) -> None:
    first, reader = machine.node(1).lead(), machine.node(3)
    first.write("a")
    reader.read()

    def depose() -> None:
        over(machine).write("b")
        expect_deposed(first, "late")

    # It knows which epoch is the newest, and has not read what that wrote.
    reader.disk.before("open", "log-0000000001", depose)
    assert reader.read() == machine.reader() == ["a", "b"]


def test_who_has_not_read_everything_may_not_write(machine: Machine) -> None:
    writer = machine.node().lead()
    writer.write("a")
    writer.next_offset = 7
    with pytest.raises(Deposed):
        writer.write("b")
    assert machine.reader() == ["a"]


def test_a_reader_acts_only_on_what_is_on_the_device(machine: Machine) -> None:
    synced: list[str] = []
    reader = machine.node(9)
    for name in ("log-0000000001", "log-0000000001", "log-0000000002"):
        reader.disk.before("sync", name, lambda name=name: synced.append(name))  # type: ignore[misc]
    for _ in range(2):
        reader.disk.before("sync_directory", "coordinator", lambda: synced.append("directory"))
    writer = machine.node(1).lead()
    assert reader.read() == []
    assert synced == ["log-0000000001", "directory"]
    writer.write("a")
    assert reader.read() == ["a"]
    assert synced == ["log-0000000001", "directory", "log-0000000001"]
    # What a new file takes over from its predecessor counts from here on, and goes if the file does.
    over(machine)
    assert reader.read() == ["a"]
    assert synced[3:] == ["log-0000000002", "directory"]


def test_a_writer_reads_back_only_what_it_was_told_is_written(machine: Machine) -> None:
    writer = machine.node().lead()
    seen: list[list[str]] = []
    writer.disk.before("sync", "log-", lambda: seen.append(writer.read()))
    writer.write("a")
    assert seen == [[]]
    assert writer.read() == ["a"]


# A disk that fails


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), ShortWrite(0), ShortWrite(11)])
def test_what_the_disk_did_not_take_was_not_written(machine: Machine, failure: Exception) -> None:
    writer = machine.node().lead()
    writer.write("a")
    writer.disk.before("append", "log-", failing(failure))
    with pytest.raises(OSError):
        writer.write("b")
    writer.write("c")
    assert writer.read() == machine.reader() == ["a", "c"]


def test_a_writer_that_cannot_undo_a_short_write_gives_up(machine: Machine) -> None:
    writer = machine.node().lead()
    writer.write("a")
    writer.disk.before("append", "log-", failing(ShortWrite(5)))
    writer.disk.before("truncate", "log-", failing(OSError(errno.EIO, "broken")))
    with pytest.raises(Deposed):
        writer.write("b")
    writer.lead().write("c")
    assert machine.reader() == ["a", "c"]


@pytest.mark.parametrize("operation", ["sync", "names"])
def test_who_cannot_tell_whether_a_write_counts_says_so_and_begins_anew(machine: Machine, operation: str) -> None:
    writer = machine.node().lead()
    writer.write("a")
    writer.disk.before(operation, "", failing(OSError(errno.EIO, "broken")))
    with pytest.raises(Deposed):
        writer.write("b")
    writer.lead().write("c")
    assert writer.read() == machine.reader() == ["a", "b", "c"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), ShortWrite(0), ShortWrite(7)])
def test_a_log_that_could_not_be_begun_is_not_written_to(machine: Machine, failure: Exception) -> None:
    machine.node(1).lead().write("a")
    machine.clock.now += 10_000
    node = machine.node(2)
    node.disk.before("append", "log-", failing(failure))
    with pytest.raises(OSError):
        node.lead()
    node.lead().write("b")
    assert machine.reader() == ["a", "b"]


@pytest.mark.parametrize("names_before_failure", range(6))
def test_a_read_that_failed_half_way_is_done_again(machine: Machine, names_before_failure: int) -> None:
    first = machine.node(1).lead()
    first.write("a")
    first.snapshot()
    first.write("b")
    reader = machine.node(9)
    reader.read()
    for number in range(2, 5):
        over(machine, number).write(f"{number}")
    reader.disk.before("names", "", failing(OSError(errno.EMFILE, "too many")), skipping=names_before_failure)
    with pytest.raises(OSError):
        reader.read()
    assert reader.read() == ["a", "b", "2", "3", "4"]


# Files that are torn or damaged


def test_a_torn_batch_at_the_end_never_counted(machine: Machine) -> None:
    writer = machine.node().lead()
    writer.write("a")
    whole = machine.log(1).read_bytes()
    writer.write("b")
    torn = machine.log(1).read_bytes()
    writer.stop()
    for size in range(len(whole), len(torn)):
        machine.log(1).write_bytes(torn[:size])
        assert machine.reader() == ["a"]
    node = machine.node().lead()
    node.write("c")
    assert machine.reader() == ["a", "c"]


@pytest.mark.parametrize("tail", [bytes(7), bytes(8), bytes(100), b"\xff" * 40, b"\x00\x00\x00\x05nonsense"])
def test_what_a_power_cut_left_behind_the_last_batch_is_ignored(machine: Machine, tail: bytes) -> None:
    writer = machine.node().lead()
    writer.write("a")
    writer.stop()
    with machine.log(1).open("ab") as log:
        log.write(tail)
    assert machine.reader() == ["a"]
    machine.node().lead().write("b")
    assert machine.reader() == ["a", "b"]


def test_a_log_whose_beginning_is_torn_was_never_begun(machine: Machine) -> None:
    machine.node(1).lead().write("a")
    second = over(machine)
    start = machine.log(2).read_bytes()
    second.stop()
    for size in range(len(start)):
        machine.log(2).write_bytes(start[:size])
        third = Node(machine.directory, 2, machine.clock).join().lead()
        assert third.seen == ["a"]
        third.stop()
        for name in machine.names("epoch-")[2:]:
            machine.file(name).unlink()
        for name in machine.names("log-")[2:]:
            machine.file(name).unlink()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_damage_before_sound_batches_is_not_taken_for_a_torn_end(machine: Machine) -> None:
    writer = machine.node().lead()
    for value in ("a", "b", "c"):
        writer.write(value)
    writer.stop()
    data = machine.log(1).read_bytes()
    last = data.rindex(b"log") - 40
    for position in range(0, last, 3):
        flip(machine.log(1), position)
        node = machine.node()
        with pytest.raises(DoorError, match=r"log-0000000001 is damaged at byte \d+, with sound batches behind it"):
            node.lead()
        node.stop()
        machine.log(1).write_bytes(data)
        for name in machine.names("epoch-")[1:]:
            machine.file(name).unlink()
    assert machine.node().lead().seen == ["a", "b", "c"]


def test_damage_in_an_older_file_is_not_passed_over(machine: Machine) -> None:
    for number in range(3):
        node = machine.node().lead()
        node.write(f"{number}-a")
        node.write(f"{number}-b")
        node.stop()
    for epoch in (1, 2):
        whole = machine.log(epoch).read_bytes()
        for position in (3, len(whole) // 3):
            flip(machine.log(epoch), position)
            with pytest.raises(DoorError, match="restore the directory from a copy"):
                machine.reader()
            machine.log(epoch).write_bytes(whole)
        machine.log(epoch).unlink()
        with pytest.raises(DoorError, match="restore the directory from a copy"):
            machine.reader()
        machine.log(epoch).write_bytes(whole)
    assert len(machine.reader()) == 6


def test_a_last_batch_that_was_taken_over_may_be_lost_where_it_first_stood(machine: Machine) -> None:
    first = machine.node().lead()
    first.write("a")
    first.write("b")
    whole = machine.log(1).read_bytes()
    first.stop()
    second = machine.node().lead()
    # As if the device had never got it.
    machine.log(1).write_bytes(whole[: whole.rindex(b"log") - 30])
    second.write("c")
    assert machine.reader() == ["a", "b", "c"]


def test_a_log_that_was_begun_and_not_written_to_may_be_lost(machine: Machine) -> None:
    for values in (["a", "b"], [], [], ["c"]):
        node = machine.node().lead()
        for value in values:
            node.write(value)
        node.stop()
    for epoch in (2, 3):
        machine.log(epoch).unlink()
    assert machine.reader() == ["a", "b", "c"]


@pytest.mark.parametrize("offset", [0, 2])
def test_a_batch_at_the_wrong_offset_is_not_passed_over(machine: Machine, offset: int) -> None:
    node = machine.node().lead()
    node.write("a")
    record = RemoveTopicRecord(topic_id=bytes(16))
    with machine.log(1).open("ab") as log:
        log.write(encode_batch(MetadataBatch(1, offset, (record, record))))
    with pytest.raises(DoorError, match=f"offset {offset} where 1 was due"):
        machine.reader()


@pytest.mark.parametrize("name", ["log-0000000001", "snapshot-00000000000000000001"])
def test_what_a_newer_release_wrote_is_neither_read_nor_passed_over(machine: Machine, name: str) -> None:
    node = machine.node().lead()
    node.write("a", "b")
    node.snapshot()
    node.stop()
    whole = machine.file(name).read_bytes()
    (first, *_) = frames(whole)
    newer = frame(first.payload[:1] + b"\x01" + first.payload[2:] + b"more than this release knows")
    machine.file(name).write_bytes(newer + whole[first.end :])
    with pytest.raises(DoorError, match="frames of version 1; this release reads 0"):
        machine.node().lead()
