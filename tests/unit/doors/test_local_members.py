"""Who takes part in a local coordinator, who leads, and where it may be."""

import asyncio
from pathlib import Path

import pytest

from levada.metadata.door import AlreadyRegistered, Deposed, DoorError, Member
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
    controller = finish(other.door.controller())
    assert controller is not None
    assert controller.node_id == 1
    assert machine.names("epoch-") == ["epoch-0000000001"]


def test_a_leader_that_is_silent_for_a_session_is_succeeded(machine: Machine) -> None:
    machine.node(1).lead().write("a")
    other = machine.node(2)
    machine.clock.now += SESSION_MS
    other.lead()
    finish(other.door.beat())
    controller = finish(other.door.controller())
    assert controller is not None
    assert controller.node_id == 2
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
    machine.clock.boot = "second boot"
    assert finish(machine.node(2).door.controller()) is None
    assert machine.node(3).lead().token is not None


def test_members_are_found_where_they_said_they_are(machine: Machine) -> None:
    first, second = machine.node(1), machine.node(2)
    finish(first.door.announce("localhost", 9092))
    assert finish(second.door.members()) == [Member(1, "life-1", "localhost", 9092), Member(2, "life-2")]
    first.stop()
    assert finish(second.door.members()) == [Member(2, "life-2")]


def test_a_controller_that_resigns_or_leaves_is_succeeded_at_once(machine: Machine) -> None:
    first, second = machine.node(1).lead(), machine.node(2)
    assert finish(second.door.campaign()) is None
    finish(first.door.resign())
    second.lead().write("a")
    with pytest.raises(Deposed):
        first.write("b")
    second.stop()
    machine.node(3).lead().write("c")
    assert machine.reader() == ["a", "c"]


def test_a_node_that_has_resigned_may_be_elected_again(machine: Machine) -> None:
    first, second = machine.node(1).lead(), machine.node(2)
    finish(first.door.resign())
    first.lead().write("a")
    assert finish(second.door.campaign()) is None
    assert machine.reader() == ["a"]


def test_a_claim_that_is_not_finished_is_told_to_readers(machine: Machine) -> None:
    machine.node(1).lead().write("a")
    machine.file("epoch-0000000002").write_bytes(b'{"node_id": 9, "incarnation": "dead"}')
    reader = Node(machine.directory, 99, machine.clock)
    changes = finish(reader.door.read(-1))
    assert (changes.batches, changes.is_whole) == ([], False)
    machine.node(2).lead()
    changes = finish(reader.door.read(-1))
    assert (len(changes.batches), changes.is_whole) == (1, True)


def test_a_deposed_controller_is_told_so_when_it_asks(machine: Machine) -> None:
    first = machine.node(1).lead()
    assert first.token is not None
    finish(first.door.confirm(first.token))
    machine.clock.now += SESSION_MS
    machine.node(2).lead()
    with pytest.raises(Deposed):
        finish(first.door.confirm(first.token))


def test_of_brokers_that_start_at_once_one_names_the_cluster(machine: Machine) -> None:
    """Both have seen that there is no id before either has written one."""

    async def main() -> None:
        doors = [machine.node(number).door for number in (1, 2, 3)]
        ids = await asyncio.gather(*[door.cluster_id(f"proposal-{number}") for number, door in enumerate(doors)])
        assert len(set(ids)) == 1

    asyncio.run(main())


@pytest.mark.parametrize("name", ["epoch-0000000001", "member-1"])
@pytest.mark.parametrize("content", [b"", b"\x00\x00", b"{", b"7", b"[]", b"{}", b'{"node_id": null}', b"\xff\xfe"])
def test_a_name_that_a_power_cut_took_stops_no_member(machine: Machine, name: str, content: bytes) -> None:
    machine.node(1).lead().write("a")
    other = machine.node(2)
    machine.file(name).write_bytes(content)
    other.lead().write("b")
    assert machine.reader() == ["a", "b"]


def test_no_member_leads_at_first(machine: Machine) -> None:
    assert finish(machine.node(1).door.controller()) is None


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
