"""Tools for the cluster where no golden text can say it: no broker to ask, Ctrl-C at a bad moment, wrong words."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from levada import Admin
from levada.client.admin import ConfigResource, NewTopic
from levada.protocol.api import ApiKey
from tests.brokers import BrokerProcess
from tests.tools.following import WAIT_SECONDS, followed, ours
from tests.tools.interrupting import interrupted
from tests.tools.running import run_ours
from tests.tools.stages import SETTINGS

NO_BROKER = ["--bootstrap-server", "localhost:1"]
PLAN = {"version": 1, "partitions": [{"topic": "three", "partition": 0, "replicas": [1]}]}


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        ["log-dirs", "--describe", *NO_BROKER],
        ["broker-api-versions", *NO_BROKER],
        ["cluster", "cluster-id", *NO_BROKER],
        ["cluster", "unregister", "--id", "3", *NO_BROKER],
        ["features", *NO_BROKER, "describe"],
        ["features", *NO_BROKER, "disable", "--feature", "group.version"],
        ["leader-election", "--election-type", "preferred", "--all-topic-partitions", *NO_BROKER],
        ["reassign-partitions", "--list", *NO_BROKER],
        ["replica-verification", "--broker-list", "localhost:1"],
    ],
    ids=" ".join,
)
def test_a_server_without_a_broker_is_named_in_one_line(command: list[str]) -> None:
    ran = run_ours(command)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("levada: no Kafka broker answers: localhost:1 ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "command", [["version-mapping"], ["feature-dependencies", "--feature", "group.version=1"]], ids=" ".join
)
def test_what_is_known_without_a_broker_is_told_without_one(command: list[str]) -> None:
    assert run_ours(["features", *NO_BROKER, *command]).code == 0


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["cluster", "unregister", "--id", "3"], "broker 3 was being taken off the list"),
        (["leader-election", "--election-type", "unclean", "--all-topic-partitions"], "leaders were being elected"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_who_interrupts_a_change_hears_that_it_may_have_been_done(command: list[str], what: str) -> None:
    ran = interrupted(command)
    assert ran.code == 130
    assert ran.err == f"levada: interrupted while {what}: it may or may not have been done\n"


def test_who_interrupts_before_anything_changes_hears_only_that(plan: str) -> None:
    ran = interrupted(["reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "9"])
    assert (ran.code, ran.err) == (130, "levada: interrupted\n")


class Gate:
    """Stands before a broker and lets everything through but one kind of request, which it keeps."""

    def __init__(self, held: ApiKey) -> None:
        self.arrived = threading.Event()
        self.target = 0
        self._held = held
        self._server = socket.create_server(("localhost", 0))
        self.port: int = self._server.getsockname()[1]
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(("localhost", self.target))
                self._sockets += [client, broker]
                threading.Thread(target=self._pass_on, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(broker, client), daemon=True).start()
        except OSError:
            return

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        try:
            with client.makefile("rb") as stream:
                while size := stream.read(4):
                    frame = stream.read(int.from_bytes(size))
                    if int.from_bytes(frame[:2]) == self._held:
                        self.arrived.set()
                        return
                    broker.sendall(size + frame)
        except OSError:
            return

    def _pass_back(self, broker: socket.socket, client: socket.socket) -> None:
        try:
            while data := broker.recv(65_536):
                client.sendall(data)
        except OSError:
            return


@contextmanager
def gated_broker(directory: Path, held: ApiKey) -> Iterator[Gate]:
    gate = Gate(held)
    advertised = f"advertised.listeners=PLAINTEXT://localhost:{gate.port}"
    broker = BrokerProcess(directory, *SETTINGS, advertised).start()
    gate.target = broker.port
    try:
        yield gate
    finally:
        broker.kill()
        gate.close()


def test_a_reassignment_that_is_interrupted_says_what_is_done_already(tmp_path: Path, plan: str) -> None:
    with gated_broker(tmp_path / "data", ApiKey.ALTER_PARTITION_REASSIGNMENTS) as gate:
        server = f"localhost:{gate.port}"
        with Admin(server) as admin:
            admin.create_topics([NewTopic("three", 1)]).raise_any()
            flags = ["--execute", "--reassignment-json-file", plan, "--throttle", "5000", "--bootstrap-server", server]
            with followed(*ours("reassign-partitions", *flags)) as running:
                running.until("The inter-broker throttle limit was set to 5000 B/s")
                assert gate.arrived.wait(WAIT_SECONDS)
                running.process.send_signal(signal.SIGINT)
                running.until(
                    "levada: interrupted while the reassignment was being started: it may or may not have been done"
                )
                assert running.process.wait(WAIT_SECONDS) == 130
            config = admin.describe_configs([ConfigResource.topic("three")])[ConfigResource.topic("three")]
            assert config["leader.replication.throttled.replicas"].value == "0:1"
