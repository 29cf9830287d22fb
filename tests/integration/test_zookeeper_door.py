"""The coordinator in ZooKeeper, on three real servers: who may write, what counts, and what its readers see."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from levada.doors.zookeeper_layout import CONTROLLER
from levada.doors.zookeeper_session import Delete, LostReply, Operation
from levada.metadata.door import AlreadyRegistered, Deposed, Member
from tests.integration.zookeeper_nodes import SESSION_MS, Cluster, Run, ZooKeeperNode

SESSION_SECONDS = SESSION_MS / 1000


def test_what_one_writes_the_other_reads_in_order(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer, reader = await cluster.node(1).lead(), cluster.node(2)
        assert await reader.read() == []
        await writer.write("a", "b")
        assert await reader.read() == ["a", "b"]
        waiting = asyncio.create_task(reader.door.wait(10))
        begun = time.monotonic()
        await writer.write("c")
        await waiting
        assert time.monotonic() - begun < 1
        assert await reader.read() == await writer.read() == await cluster.reader() == ["a", "b", "c"]
        assert reader.image.offset == 2
        controller = await reader.door.controller()
        assert controller is None, "node 1 does not take part"

    run(main)


def test_a_deposed_writer_learns_it_and_can_write_no_more(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = await cluster.node(1).lead(), cluster.node(2)
        await first.write("a")
        assert first.token is not None
        await first.door.confirm(first.token)
        assert await second.door.campaign() is None
        # As when its session is over, and it does not know that yet.
        await second.door.session.transact(Delete(CONTROLLER))
        await second.lead()
        with pytest.raises(Deposed, match="epoch 1 is over"):
            await first.write("b")
        with pytest.raises(Deposed):
            await first.write("c")
        with pytest.raises(Deposed):
            await first.door.confirm(first.token)
        await second.write("d")
        assert await first.read() == await second.read() == await cluster.reader() == ["a", "d"]

    run(main)


def test_a_deposed_controller_is_told_so_when_it_asks(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = await cluster.node(1).lead(), cluster.node(2)
        await second.door.read(-1)
        await second.door.session.transact(Delete(CONTROLLER))
        await second.lead()
        assert first.token is not None
        with pytest.raises(Deposed):
            await first.door.confirm(first.token)
        # It may claim again, once its successor has gone.
        await second.door.resign()
        await first.lead()
        await first.write("a")
        assert first.token.epoch == 3

    run(main)


def test_of_two_claimants_one_wins(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        nodes = [cluster.node(number) for number in (1, 2, 3)]
        await asyncio.gather(*[node.door.read(-1) for node in nodes])
        tokens = await asyncio.gather(*[node.door.campaign() for node in nodes])
        assert len([token for token in tokens if token is not None]) == 1

    run(main)


def test_who_has_not_read_everything_may_not_write(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer = await cluster.node().lead()
        await writer.write("a")
        writer.next_offset = 7
        with pytest.raises(Deposed):
            await writer.write("b")
        assert await cluster.reader() == ["a"]

    run(main)


# Replies that are lost


class Losing:
    """Stands before the next transaction of a node, and loses its answer."""

    def __init__(self, node: ZooKeeperNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self._session = node.door.session
        self._transact = self._session.transact
        self._monkeypatch = monkeypatch
        self._late: asyncio.Task[int | None] | None = None

    def next(self, how: str, meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        async def transact(*operations: Operation) -> int | None:
            self._monkeypatch.setattr(self._session, "transact", self._transact)
            if how == "answer":
                await self._transact(*operations)
            if meanwhile is not None:
                await meanwhile()
            if how == "late":
                self._late = asyncio.create_task(self._later(operations))
            raise LostReply("lost by the test")

        self._monkeypatch.setattr(self._session, "transact", transact)

    async def _later(self, operations: tuple[Operation, ...]) -> int | None:
        await asyncio.sleep(0.12)
        return await self._transact(*operations)


@pytest.mark.parametrize("how", ["request", "answer", "late"])
def test_an_append_whose_reply_was_lost_counts_once(run: Run, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(cluster: Cluster) -> None:
        writer = await cluster.node().lead()
        await writer.write("a")
        Losing(writer, monkeypatch).next(how)
        await writer.write("b")
        await asyncio.sleep(0.2)
        await writer.write("c")
        assert await writer.read() == await cluster.reader() == ["a", "b", "c"]
        assert writer.image.offset == 2

    run(main)


@pytest.mark.parametrize("how", ["request", "answer"])
def test_a_lost_reply_is_resolved_after_a_successor_was_elected(
    run: Run, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = await cluster.node(1).lead(), cluster.node(2)
        await second.read()

        async def succeed() -> None:
            await second.door.session.transact(Delete(CONTROLLER))
            await (await second.lead()).write("b")

        Losing(first, monkeypatch).next(how, succeed)
        if how == "answer":
            await first.write("a")
        else:
            with pytest.raises(Deposed):
                await first.write("a")
        with pytest.raises(Deposed):
            await first.write("c")
        assert await cluster.reader() == (["a", "b"] if how == "answer" else ["b"])

    run(main)


def test_a_claim_whose_reply_was_lost_is_made_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(cluster: Cluster) -> None:
        node = cluster.node()
        await node.read()
        Losing(node, monkeypatch).next("answer")
        with pytest.raises(OSError, match="lost by the test"):
            await node.door.campaign()
        await (await node.lead()).write("a")
        assert await cluster.reader() == ["a"]

    run(main)


def test_appends_outlive_the_servers_they_are_sent_to(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer = await cluster.node().lead()
        written: list[str] = []
        is_over = False

        async def write_on() -> None:
            while not is_over:
                value = str(len(written))
                await writer.write(value)
                written.append(value)

        writing = asyncio.create_task(write_on())
        for number in range(3):
            await asyncio.sleep(0.2)
            server = cluster.server_of(writer)
            before = len(written)
            await asyncio.to_thread(server.kill if number else server.pause)
            while len(written) < before + 20:
                assert not writing.done(), writing
                await asyncio.sleep(0.01)
            if number:
                server.start()
                await asyncio.to_thread(server.wait_until_serving)
            else:
                server.go_on()
        is_over = True
        await writing
        assert await cluster.reader() == written

    run(main)


def test_appends_go_on_when_a_quorum_is_back(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer = await cluster.node().lead()
        await writer.write("a")
        gone = cluster.ensemble.servers[:2]
        for server in gone:
            await asyncio.to_thread(server.kill)
        await asyncio.sleep(0.2)
        assert writer.token is not None
        with pytest.raises(OSError):
            await writer.door.confirm(writer.token)
        for server in gone:
            server.start()
        for server in gone:
            await asyncio.to_thread(server.wait_until_serving)
        for value in ("b", "c"):
            while True:
                try:
                    await writer.write(value)
                    break
                except Deposed:
                    await writer.lead()
                except OSError:
                    # Surely nothing was written.
                    continue
        assert await cluster.reader() == ["a", "b", "c"]

    run(main)


# Sessions


async def end_session(node: ZooKeeperNode) -> None:
    """As the servers end one that they have not heard of: by its id, from elsewhere."""
    session = node.door.session
    before = session.session_id

    def end() -> None:
        other = KazooClient(session._hosts, client_id=session._kazoo.client_id)
        other.start()
        other.stop()
        other.close()

    await asyncio.to_thread(end)
    while session.session_id == before or not session.is_connected:
        await asyncio.sleep(0.01)


def test_a_broker_whose_session_expired_takes_part_again(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node, other = await cluster.node(1).join(), cluster.node(2)
        await node.door.announce("localhost", 9092)
        await node.lead()
        await node.write("a")
        await end_session(node)
        assert await other.door.members() == []
        with pytest.raises(Deposed, match="the session of epoch 1 has expired"):
            await node.write("b")
        await node.door.beat()
        assert await other.door.members() == [Member(1, "life-1", "localhost", 9092)]
        await node.lead()
        await node.write("c")
        assert await other.read() == ["a", "c"]

    run(main)


def test_a_broker_whose_place_was_taken_is_told(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(1).join()
        await end_session(node)
        await cluster.node(1, "another life").join()
        with pytest.raises(AlreadyRegistered, match=r"a broker with id 1 is running on .*; stop it or choose another"):
            await node.door.beat()

    run(main)


def test_a_second_process_with_the_same_id_is_refused(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = await cluster.node(1).join(), cluster.node(1, "another life")
        with pytest.raises(AlreadyRegistered, match=r"a broker with id 1 is running on .*; stop it or choose another"):
            await second.join()
        joining = asyncio.create_task(second.join())
        await asyncio.sleep(0.3)
        await first.close()
        begun = time.monotonic()
        await joining
        assert time.monotonic() - begun < 1

    run(main)


def test_a_controller_that_resigns_is_succeeded_at_once(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = await (await cluster.node(1).join()).lead(), await cluster.node(2).join()
        assert await second.door.controller() == Member(1, "life-1")
        succeeding = asyncio.create_task(second.lead())
        await asyncio.sleep(0.3)
        assert not succeeding.done()
        begun = time.monotonic()
        await first.door.resign()
        await succeeding
        assert time.monotonic() - begun < 0.5
        await second.write("a")
        with pytest.raises(Deposed):
            await first.write("b")
        # By a watch, not after its time.
        await asyncio.sleep(0.1)
        assert await first.door.controller() == Member(2, "life-2")

    run(main)


class Writer:
    """A node in a process of its own, which leads and writes."""

    def __init__(self, cluster: Cluster) -> None:
        command = [sys.executable, "-m", "tests.integration.zookeeper_nodes", cluster.ensemble.hosts, cluster.chroot]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert self.process.stdout is not None
        self._output = self.process.stdout

    async def written(self, count: int) -> None:
        for _ in range(count):
            assert (await asyncio.to_thread(self._output.readline)).strip().isdigit()

    async def last_words(self) -> list[str]:
        """What it has printed since, until it ended."""
        with self.process:
            return (await asyncio.to_thread(self._output.read)).split()


def test_a_paused_controller_is_succeeded_and_writes_nothing_more(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer, other = Writer(cluster), await cluster.node(2).join()
        await writer.written(20)
        begun = time.monotonic()
        writer.process.send_signal(signal.SIGSTOP)
        await other.lead()
        assert time.monotonic() - begun < SESSION_SECONDS + 3
        await other.write("successor")
        writer.process.send_signal(signal.SIGCONT)
        *rest, end = await writer.last_words()
        assert end == "deposed"
        written = await cluster.reader()
        # What it had asked for when it was paused may have been carried out unheard.
        assert written.pop() == "successor"
        assert len(written) in (20 + len(rest), 21 + len(rest))
        assert written == [f"zombie-{number}" for number in range(len(written))]

    run(main)


def test_a_broker_that_was_killed_finds_its_place_free_after_a_session(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer = Writer(cluster)
        await writer.written(3)
        writer.process.kill()
        await writer.last_words()
        begun = time.monotonic()
        node = await cluster.node(1, "another life").join()
        assert time.monotonic() - begun < 2 * SESSION_SECONDS
        await node.lead()
        assert len(await node.read()) >= 3

    run(main)


def test_a_controller_whose_loop_hangs_is_succeeded(run: Run) -> None:
    """kazoo's threads go on: it is the watchdog that ends the session."""

    async def main(cluster: Cluster) -> None:
        is_leading, may_go_on = threading.Event(), threading.Event()
        outcome: list[object] = []

        async def hang() -> None:
            node = await (await cluster.node(1).join()).lead()
            await node.write("a")
            is_leading.set()
            may_go_on.wait(20)
            try:
                await node.write("zombie")
            except Deposed as error:
                outcome.append(error)
            while not node.door.session.is_connected:
                await asyncio.sleep(0.01)
            await node.door.beat()
            outcome.append(await node.read())
            await node.close()

        hanging = threading.Thread(target=lambda: asyncio.run(hang()))
        hanging.start()
        try:
            await asyncio.to_thread(is_leading.wait, 10)
            begun = time.monotonic()
            other = await cluster.node(2).lead()
            assert time.monotonic() - begun < SESSION_SECONDS + 3
            await other.write("b")
        finally:
            may_go_on.set()
            await asyncio.to_thread(hanging.join)
        assert isinstance(outcome[0], Deposed)
        assert outcome[1] == ["a", "b"]
        assert [one.node_id for one in await other.door.members()] == []

    run(main)
