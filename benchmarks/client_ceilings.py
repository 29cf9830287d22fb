"""The bytes alone: the same ones through the same broker, over one connection, and no client that looks at them.

Requests are encoded before, answers are received into one buffer and counted. What is left is the broker, the kernel
and the machine; a client has to encode or decode the records besides, on the same cores.
"""

import socket
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from benchmarks.client_contenders import BATCH_BYTES, PARTITION_FETCH_BYTES, WAIT_SECONDS, Reading, Rounds, Settings
from benchmarks.load import Connection
from benchmarks.wire import INT32, TIMESTAMP_MS, fetch_template, fetched_records, produce_template
from levada.records import build_batch, extents

IN_FLIGHT = 5
RECEIVE_BYTES = 4 << 20


def exchange(target: socket.socket, frames: Sequence[bytes]) -> None:
    """Send all of these, so many at once in flight, and wait for as many answers."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    sent = answered = 0
    counter = _Answers()
    while answered < len(frames):
        while sent < min(answered + IN_FLIGHT, len(frames)):
            target.sendall(frames[sent])
            sent += 1
        count = target.recv_into(buffer)
        assert count, "the broker closed the connection"
        answered += counter.finished(buffer[:count])


class _Answers:
    """Counts the frames of a stream without keeping them."""

    def __init__(self) -> None:
        self._left = 0
        self._size = b""

    def finished(self, data: memoryview) -> int:
        """How many end in this piece of the stream."""
        count = at = 0
        while at < len(data):
            if self._left == 0:
                taken = bytes(data[at : at + 4 - len(self._size)])
                self._size += taken
                at += len(taken)
                if len(self._size) == 4:
                    (self._left,), self._size = INT32.unpack(self._size), b""
                continue
            step = min(self._left, len(data) - at)
            self._left -= step
            at += step
            count += self._left == 0
        return count


class BareProduce(Rounds):
    """One batch of the size that producers send, again and again."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._connection = _connected(settings)
        each = BATCH_BYTES // (len(settings.value) + 10)
        batch = build_batch([(TIMESTAMP_MS, None, settings.value, ())] * each)
        template = produce_template(batch, settings.topic)
        requests = settings.count // each
        self.count = requests * each
        self._frames = [template.numbered(number, partition=number % settings.partitions) for number in range(requests)]

    def run(self) -> None:
        exchange(self._connection.socket, self._frames)

    def close(self) -> None:
        self._connection.close()


class BareFetch(Reading):
    """Every batch that there is to read, by requests that ask for one batch each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._connection = _connected(settings)
        self.count = self.wanted
        by_partition = [list(self._requests(partition)) for partition in range(settings.partitions)]
        # All partitions in turns, as a consumer asks for them.
        self._frames = [frame for frames in zip_longest(*by_partition) for frame in frames if frame is not None]

    def _requests(self, partition: int) -> Iterator[bytes]:
        template = fetch_template(PARTITION_FETCH_BYTES, self.settings.read_topic)
        offset, end = 0, self.wanted // self.settings.partitions
        while offset < end:
            reply = self._connection.call(template.numbered(0, offset=offset, partition=partition))
            _, starts, last_offsets = extents(fetched_records(reply))
            one = fetch_template(starts[1], self.settings.read_topic)
            yield one.numbered(0, offset=offset, partition=partition)
            offset = last_offsets[0] + 1

    def run(self) -> None:
        exchange(self._connection.socket, self._frames)

    def close(self) -> None:
        self._connection.close()


def _connected(settings: Settings) -> Connection:
    connection = Connection(int(settings.bootstrap.rpartition(":")[2]))
    connection.socket.settimeout(WAIT_SECONDS)
    return connection
