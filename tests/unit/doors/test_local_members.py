"""Who takes part in a local coordinator, who leads, and where it may be."""

import asyncio
from pathlib import Path

import pytest

from levada.metadata.door import AlreadyRegistered, DoorError
from tests.unit.doors.nodes import SESSION_MS, Machine, Node, finish


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "coordinator")


def test_a_second_process_with_the_same_id_is_refused(machine: Machine) -> None:
    first = machine.node(1)
    second = Node(machine.directory, 1, machine.clock)
    second.door.open()
    with pytest.raises(AlreadyRegistered, match=r"a broker with id 1 is running on .*; stop it or choose another"):
        finish(second.door.register())
    machine.node(2)
    first.stop()
    finish(second.door.register())


def test_no_member_claims_while_the_leader_lives(machine: Machine) -> None:
    leader, other = machine.node(1).lead(), machine.node(2)
    for _ in range(5):
        machine.clock.now += SESSION_MS - 1
        assert finish(other.door.campaign()) is None
        finish(leader.door.beat())
    assert finish(other.door.controller_id()) == 1
    assert machine.names("epoch-") == ["epoch-0000000001"]


def test_a_leader_that_is_silent_for_a_session_is_succeeded(machine: Machine) -> None:
    machine.node(1).lead().write("a")
    other = machine.node(2)
    machine.clock.now += SESSION_MS
    other.lead()
    assert finish(other.door.controller_id()) == 2
    assert other.seen == ["a"]


def test_a_leader_that_came_back_as_another_process_does_not_lead(machine: Machine) -> None:
    machine.node(1).lead().stop()
    Node(machine.directory, 1, machine.clock, incarnation="another life").join()
    assert finish(machine.node(2).door.campaign()) is not None


def test_a_node_need_not_wait_for_itself(machine: Machine) -> None:
    machine.node(1).lead().stop()
    assert machine.node(1).lead().token is not None


def test_a_heartbeat_from_before_the_machine_was_switched_off_is_none(machine: Machine) -> None:
    machine.node(1).lead()
    machine.clock.now = 5
    assert machine.node(2).lead().token is not None


@pytest.mark.parametrize("name", ["epoch-0000000001", "member-1"])
@pytest.mark.parametrize("content", [b"", b"\x00\x00", b"{", b"7", b"[]", b"{}", b'{"node_id": null}', b"\xff\xfe"])
def test_a_name_that_a_power_cut_took_stops_no_member(machine: Machine, name: str, content: bytes) -> None:
    machine.node(1).lead().write("a")
    other = machine.node(2)
    machine.file(name).write_bytes(content)
    other.lead().write("b")
    assert machine.reader() == ["a", "b"]


def test_no_member_leads_at_first(machine: Machine) -> None:
    assert finish(machine.node(1).door.controller_id()) is None


def test_the_cluster_has_the_id_that_was_proposed_first(machine: Machine) -> None:
    assert finish(machine.node(1).door.cluster_id("one")) == "one"
    assert finish(machine.node(2).door.cluster_id("two")) == "one"


def test_a_network_file_system_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(machine.directory, 1, machine.clock)
    monkeypatch.setattr(node.disk, "network_file_system", lambda path: "nfs4")
    with pytest.raises(DoorError, match=r"coordinator is on a network file system \(nfs4\).*use a local disk"):
        node.door.open()


def test_the_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a" / "b" / "c")
    machine.node().lead().write("a")
    assert machine.reader() == ["a"]


def test_a_wait_that_is_cancelled_as_an_entry_comes_is_cancelled(machine: Machine) -> None:
    """Or the task that follows the log would go on for ever, and with it the end of its node."""

    async def main() -> None:
        door = machine.node(1).lead().door

        async def follow() -> None:
            while True:
                await door.wait(60.0)

        following = asyncio.create_task(follow())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        door._appended.set()
        await asyncio.sleep(0)
        following.cancel()
        _, late = await asyncio.wait([following], timeout=5)
        assert not late
        assert following.cancelled()

    asyncio.run(main())
