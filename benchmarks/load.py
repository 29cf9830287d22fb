"""A client that only sends and counts: requests encoded before, a fixed number in flight, on any number of sockets."""

import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.wire import INT32, Template

RECEIVE_BYTES = 1 << 21
CONNECT_SECONDS = 60


class Connection:
    """One socket; blocking, so that what is sent is sent whole."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, frame: bytes) -> bytes:
        """Send one request and wait for its response, which comes without its size."""
        self.socket.sendall(frame)
        (size,) = INT32.unpack(self._receive(4))
        return self._receive(size)

    def close(self) -> None:
        self.socket.close()

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return bytes(data)


@dataclass(slots=True)
class Plan:
    """What to send: `count` times the template, to one partition after the other, from one offset after the other."""

    template: Template
    count: int
    in_flight: int
    reply_size: int
    """All responses have this size, so bytes need only be counted."""
    partitions: int = 1
    keeps_replies: bool = False


@dataclass(slots=True)
class Outcome:
    """What came back. Requests that left together are one burst: their number shows how a server was asked."""

    bursts: int = 0
    replies: list[bytes] = field(default_factory=list)

    def check(self, plan: Plan, check_reply: Callable[[int, bytes], None]) -> None:
        """Every kept reply answers its request, in order; `check_reply` gets its number and its bytes."""
        stream = b"".join(self.replies)
        assert len(stream) == plan.count * plan.reply_size
        for number in range(plan.count):
            reply = stream[number * plan.reply_size + 4 : (number + 1) * plan.reply_size]
            (correlation_id,) = INT32.unpack_from(reply)
            assert correlation_id == number, f"reply {correlation_id} where {number} was due"
            check_reply(number, reply)


def drive(connection: Connection, plan: Plan) -> Outcome:
    """Keep the plan's number of requests in flight on one connection until all are answered."""
    outcome = Outcome()
    sender = _Sender(plan)
    target = connection.socket
    target.settimeout(CONNECT_SECONDS)
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    received = answered = 0
    sender.send(target, min(plan.in_flight, plan.count))
    outcome.bursts += 1
    while answered < plan.count:
        count = target.recv_into(buffer)
        assert count, "the server closed the connection"
        if plan.keeps_replies:
            outcome.replies.append(bytes(buffer[:count]))
        received += count
        finished = received // plan.reply_size - answered
        answered += finished
        due = min(finished, plan.count - sender.sent)
        if due:
            sender.send(target, due)
            outcome.bursts += 1
    assert received == plan.count * plan.reply_size
    return outcome


def drive_many(connections: Sequence[Connection], plan: Plan) -> Outcome:
    """The same on many connections at once, each with the plan's number in flight."""
    outcome = Outcome()
    sender = _Sender(plan)
    by_fd = {connection.socket.fileno(): connection.socket for connection in connections}
    partial = dict.fromkeys(by_fd, 0)
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    answered = 0
    with select.epoll() as poll:
        for fd, target in by_fd.items():
            poll.register(fd, select.EPOLLIN)
            sender.send(target, min(plan.in_flight, plan.count - sender.sent))
            outcome.bursts += 1
        while answered < plan.count:
            ready = poll.poll(CONNECT_SECONDS)
            assert ready, "no response came"
            for fd, _ in ready:
                count = by_fd[fd].recv_into(buffer)
                assert count, "the server closed a connection"
                finished, partial[fd] = divmod(partial[fd] + count, plan.reply_size)
                answered += finished
                due = min(finished, plan.count - sender.sent)
                if due:
                    sender.send(by_fd[fd], due)
                    outcome.bursts += 1
    return outcome


class _Sender:
    """Numbers the requests; several that are due at once leave in one system call."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._frames = [bytearray(plan.template.frame) for _ in range(plan.in_flight)]
        self.sent = 0

    def send(self, target: socket.socket, count: int) -> None:
        plan, frames = self._plan, self._frames[:count]
        for frame in frames:
            plan.template.patch(frame, self.sent, self.sent // plan.partitions, self.sent % plan.partitions)
            self.sent += 1
        size = plan.template.size * count
        sent = target.sendmsg(frames) if frames else 0
        if sent < size:
            target.sendall(memoryview(b"".join(frames))[sent:])
