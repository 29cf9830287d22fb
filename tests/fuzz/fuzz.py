"""Talks wildly to a broker until it is stopped: `make fuzz`, with MINUTES=... to end and SEED=... to repeat.

A broker must stay alive, serve others, keep its memory, have no error of its own, and take no turn of its event loop
that is longer than HELD_MS, but for those that LONG_TURNS names. The first finding ends the run:
what was sent lies in a file then, the suspects first, and `--replay FILE` sends it again.
"""

import argparse
import asyncio
import json
import random
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from levada.net.channel import Channel, ChannelClosed
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim.requests.topics import records_of
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess
from tests.fuzz.attack import PATIENCE_SECONDS, WrongOutcome, play
from tests.fuzz.batches import NOW_MS
from tests.fuzz.large import large_request
from tests.fuzz.streams import KINDS, Outcome, Stream, random_stream
from tests.fuzz.talks import Talk, WrongAnswer
from tests.fuzz.values import TOPICS, Values

HELD_MS = 50
LARGE_SHARE = 0.01
"""Of all connections, those that send one request of very many elements."""
CONNECTIONS = 400
AT_ONCE = 100
RESTART_EVERY = 20
MEMORY_LIMIT_MB = 400
SANITY = "sanity"
SANE = {"compression.type": "producer", "min.insync.replicas": "1", "message.timestamp.type": "CreateTime"}
"""Whatever is set for all topics."""

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1",
    "group.max.size=50",
    "log.segment.delete.delay.ms=0",
    "auto.create.topics.enable=false",
    f"levada.loop.held.warn.ms={HELD_MS}",
)
HELD = re.compile(r"event loop held ms=\d+ cpu_ms=(\d+) at=(\S+)")
LONG_TURNS = {
    "levada.broker.fetch_sessions.": "a session of tens of thousands of partitions is opened as a whole",
    "levada.world.real_disk.": "a file system that is busy, or has very many files, works long for one call",
    "levada.storage.loading.open_log:": "the files of a new log are made, of one log in a turn",
    "re2.": "RE2 takes long to read thousands of characters that stand for large classes",
    "levada.controller.": "thousands of topics or partitions in one request are decided as a whole, as in Apache",
    "levada.doors.frames.": "what is decided as a whole is written, and read again, as one batch of records",
}
"""Calls in the stack of a turn that may take longer, and why."""

OWN_ERRORS = re.compile(r"Traceback|error of our own|never retrieved|cannot decide")
PEER = re.compile(r"peer=127\.0\.0\.1:(\d+)")
MAY_CLOSE = (
    "produce without acks failed",
    "DescribeTopicPartitions with a negative limit or cursor",
    "an ACL, or a filter of ACLs, of an unknown kind",
)
"""Reasons to close a connection whose requests followed their schemas."""


class Found(Exception):
    """What a run looks for."""


@dataclass(slots=True)
class Batch:
    """What was sent between two looks at the broker."""

    sent: list[tuple[int, list[bytes]]] = field(default_factory=list)
    """With the port it came from."""
    refused: set[int] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)


class Fuzzer:
    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._values = Values()
        self._seen_log = 0
        self._next_offset = 0
        self.batch = Batch()

    async def run_batch(self, seed: str) -> None:
        """Many connections, then a look at what they did."""
        self.batch = Batch()
        await self._reset_topics()
        chance = random.Random(seed)
        jobs = iter([random.Random(chance.random()) for _ in range(CONNECTIONS)])

        async def work() -> None:
            for own_chance in jobs:
                await self._connect(own_chance)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        await self.look()

    async def replay(self, connections: list[list[bytes]]) -> None:
        await self._reset_topics()
        for frames in connections:
            await self._play(Stream("replay", tuple(frames), Outcome.ANY))
        await self.look()

    async def look(self) -> None:
        """Found, if the broker is not as it was."""
        try:
            await asyncio.wait_for(self._serve_one(), PATIENCE_SECONDS)
        except (TimeoutError, ChannelClosed, OSError) as error:
            raise Found(f"the broker does not serve: {error!r}") from error
        self._read_log()
        if self.batch.complaints:
            raise Found(self.batch.complaints[0])
        if memory_mb(self._broker.pid) > MEMORY_LIMIT_MB:
            raise Found(f"the broker has {memory_mb(self._broker.pid)} MB")

    def restart(self) -> None:
        """What hostile clients have left in the logs must neither keep a broker from stopping nor from starting."""
        try:
            code = self._broker.stop()
            if code:
                raise Found(f"the broker ended with {code}")
            self._broker.start()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise Found(f"the broker does not stop and start: {error}") from error

    async def _connect(self, chance: random.Random) -> None:
        if chance.random() < LARGE_SHARE:
            name, frame = large_request(chance)
            await self._play(Stream(name, (frame,), Outcome.ANY))
            return
        if chance.random() < 0.3:
            stream = random_stream(chance, chance.choice(list(KINDS)))
            await self._play(stream.cut(chance) if chance.random() < 0.3 else stream)
            return
        talk = Talk(chance, self._values)
        try:
            await asyncio.wait_for(talk.run(self._broker.port), PATIENCE_SECONDS)
        except (WrongAnswer, TimeoutError, OSError) as error:
            self.batch.complaints.append(repr(error))
        self.batch.sent.append((talk.own_port, talk.sent))
        if talk.was_refused:
            self.batch.refused.add(talk.own_port)

    async def _play(self, stream: Stream) -> None:
        own_port = 0
        try:
            own_port = await asyncio.wait_for(play(self._broker.port, stream), PATIENCE_SECONDS)
        except (WrongOutcome, TimeoutError, OSError) as error:
            self.batch.complaints.append(f"{error!r} {stream}")
        self.batch.sent.append((own_port, list(stream.chunks)))

    def _read_log(self) -> None:
        log = self._broker.log
        new, self._seen_log = log[self._seen_log :], len(log)
        found = OWN_ERRORS.search(new)
        if found is not None:
            start = new.rfind("\n", 0, found.start()) + 1
            raise Found(new[start : start + 4_000])
        for held in HELD.finditer(new):
            if int(held[1]) > HELD_MS and not any(call in held[2] for call in LONG_TURNS):
                raise Found(f"a turn took {held[1]} ms of the processor: {held[0]}")
        reused = Counter(own_port for own_port, _ in self.batch.sent)
        for line in new.splitlines():
            peer = PEER.search(line)
            own_port = 0 if peer is None else int(peer[1])
            # A port that was used again in this batch belongs to two connections, and only one was refused.
            if own_port in self.batch.refused and reused[own_port] == 1 and not any(one in line for one in MAY_CLOSE):
                raise Found(f"closed, though it followed its schema: {line}")

    async def _serve_one(self) -> None:
        """A record goes in and comes out."""
        value = b"%d" % self._next_offset
        channel = await Channel.connect(RealNet(), "localhost", self._broker.port)
        try:
            data = PartitionProduceData(index=0, records=build_batch([(NOW_MS, None, value, ())]))
            topic = TopicProduceData(name=SANITY, partition_data=[data])
            produced = await channel.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
            (partition,) = produced.responses[0].partition_responses
            if (partition.error_code, partition.base_offset) != (0, self._next_offset):
                raise Found(f"record {self._next_offset} was not kept: {partition}")
            ask = FetchPartition(partition=0, fetch_offset=self._next_offset, partition_max_bytes=1_000)
            wanted = FetchTopic(topic=SANITY, partitions=[ask])
            fetched = await channel.call(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000, topics=[wanted]), 12)
            (read,) = fetched.responses[0].partitions
            if read.error_code or not bytes(records_of(read)).endswith(value + b"\0"):
                raise Found(f"record {self._next_offset} cannot be read: {read}")
        finally:
            channel.close()
        self._next_offset += 1

    async def _reset_topics(self) -> None:
        """Begin with the same topics again, all of them empty."""
        channel = await Channel.connect(RealNet(), "localhost", self._broker.port)
        try:
            listed = await channel.call(MetadataRequest(topics=None), 12)
            names = [topic.name for topic in listed.topics]
            doomed = [DeleteTopicState(name=name, topic_id=NO_UUID) for name in names if name != SANITY]
            await channel.call(DeleteTopicsRequest(topics=doomed, timeout_ms=1_000), 6)
            topics = [
                CreatableTopic(
                    name=name,
                    num_partitions=2,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in SANE.items()],
                )
                for name in (*TOPICS, *([] if SANITY in names else [SANITY]))
            ]
            created = await channel.call(CreateTopicsRequest(topics=topics), 7)
            if any(topic.error_code for topic in created.topics):
                raise Found(f"topics cannot be made anew: {created.topics}")
            self._values.learn("topic_id", [topic.topic_id for topic in created.topics if topic.name != SANITY])
        finally:
            channel.close()


def memory_mb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def write_down(found: Found, batch: Batch, path: Path) -> None:
    """All that was sent, as a line of JSON for each connection; those that the broker complained of come first."""
    named = {int(port) for port in PEER.findall(str(found))}
    ordered = sorted(batch.sent, key=lambda one: one[0] not in named)
    path.write_text("".join(json.dumps([frame.hex() for frame in frames]) + "\n" for _, frames in ordered))


def batches(seed: str) -> Iterator[str]:
    """Seeds of batches: from the first, or from the one that is named after a point."""
    first_seed, _, number = seed.partition(".")
    at = int(number or 0)
    while True:
        yield f"{first_seed}.{at}"
        at += 1


async def fuzz(broker: BrokerProcess, options: argparse.Namespace) -> int:
    fuzzer = Fuzzer(broker)
    end = time.monotonic() + 60 * options.minutes
    seed = "replay"
    try:
        if options.replay is not None:
            lines = options.replay.read_text().splitlines()
            await fuzzer.replay([[bytes.fromhex(frame) for frame in json.loads(line)] for line in lines])
            print("nothing found")
            return 0
        for number, seed in enumerate(batches(options.seed), 1):
            await fuzzer.run_batch(seed)
            if number % RESTART_EVERY == 0:
                fuzzer.restart()
                await fuzzer.look()
            if number % 10 == 0 or time.monotonic() > end:
                print(f"seed {seed}: {number * CONNECTIONS} connections, {memory_mb(broker.pid)} MB", flush=True)
            if time.monotonic() > end:
                break
        fuzzer.restart()
    except Found as found:
        path = Path(tempfile.gettempdir()) / f"levada-fuzz-{seed}.jsonl"
        write_down(found, fuzzer.batch, path)
        print(f"FOUND with seed {seed}: {found}")
        print(f"log: {broker.log_path}")
        print(f"again: make fuzz SEED={seed}, or python -m tests.fuzz.fuzz --replay {path}")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", default=str(secrets.randbelow(10**9)))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="levada-fuzz-"))
    broker = BrokerProcess(directory / "data", *SETTINGS).start()
    code = 0
    try:
        code = asyncio.run(fuzz(broker, options))
    except KeyboardInterrupt:
        pass
    finally:
        broker.kill()
    if not code:
        shutil.rmtree(directory)
    return code


if __name__ == "__main__":
    sys.exit(main())
