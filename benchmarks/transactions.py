"""What transactions cost: `python -m benchmarks.transactions [--json FILE] [--rounds 9]`.

The same portions of records with and without transactions, through our client and through librdkafka, in rounds that
take turns; then commits of single transactions and of groups. A stream that waits for nothing is measured for
comparison. librdkafka adds partitions to a transaction before it writes to them, a millisecond or more after the first
record, whatever the broker does; so the figures of our client are held to the limits. Ends with 1 when one is beyond.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer

from benchmarks.broker import machine
from benchmarks.figures import Check, spread
from benchmarks.load import Connection
from benchmarks.servers import Server, broker_command, running
from benchmarks.wire import check_created, create_topic_frame
from levada import Producer as OwnProducer
from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.group_commit import GroupCommitMember, GroupCommitRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.world.real import real_world

TOPIC = "bulk"
VALUE = b"v" * 1024
RECORDS_EACH = 1_000
TRANSACTIONS = 40
WARM_UP_TRANSACTIONS = 5
MEMBERS = 20
COMMITS = 200
COORDINATOR_PARTITIONS = 50
TRANSACTION_KEY = 1
TIMEOUT_SECONDS = 60
HOST = "127.0.0.1"
OWN_BATCH_BYTES = 1_000_000
"""librdkafka's default."""
SILENT = 0
"""librdkafka would tell that the broker went away at the end of each round."""

SHARE_WANTED = 0.7
COMMIT_MS_ALLOWED = 15.0
GROUP_RATIO_ALLOWED = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="levada-bench-") as directory,
        running(broker_command(Path(directory) / "data")) as server,
    ):
        report = {"machine": machine(), "rounds": arguments.rounds, **measure(server, arguments.rounds)}
    checks = checks_of(report)
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


def measure(server: Server, rounds: int) -> dict[str, Any]:
    client = Connection(server.port)
    check_created(client.call(create_topic_frame(1, TOPIC)))
    client.close()
    transactional, portioned, streaming = Transactional(server), Plain(server), Plain(server, waits_for_each=False)
    own, own_portioned = OwnTransactional(server), OwnPlain(server)
    ways: list[Way] = [transactional, portioned, streaming, own, own_portioned]
    for way in ways:
        way.send(WARM_UP_TRANSACTIONS)
    transactional.commit_ms.clear()
    own.commit_ms.clear()
    rates: dict[Way, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            rates[way].append(way.send(TRANSACTIONS))
    own.close()
    own_portioned.close()
    figures = {
        "share": [one / other for one, other in zip(rates[own], rates[own_portioned])],
        "records_per_second_of_our_client": rates[own],
        "commit_ms_of_our_client": own.commit_ms,
        "share_with_librdkafka": [one / other for one, other in zip(rates[transactional], rates[portioned])],
        "share_of_a_stream": [one / other for one, other in zip(rates[transactional], rates[streaming])],
        "records_per_second": rates[transactional],
        "records_per_second_without": rates[portioned],
        "records_per_second_of_a_stream": rates[streaming],
        "commit_ms": transactional.commit_ms,
        **asyncio.run(measure_commits(server)),
    }
    for name, sample in figures.items():
        print(f"{name:32}{spread(sample)}")
    return {
        "value_bytes": len(VALUE),
        "records_each": RECORDS_EACH,
        "group_members": MEMBERS,
        **{name: spread(sample).as_json() for name, sample in figures.items()},
    }


def checks_of(report: dict[str, Any]) -> list[Check]:
    ratio = report["group_commit_ms"]["median"] / report["single_commit_ms"]["median"]
    return [
        Check("throughput as a share of that without", report["share"]["median"], SHARE_WANTED, is_floor=True),
        Check("commit with what is still to be sent, p50 ms", report["commit_ms"]["median"], COMMIT_MS_ALLOWED),
        Check(f"group commit of {MEMBERS}, times a single one", ratio, GROUP_RATIO_ALLOWED),
    ]


def settings_of(server: Server) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"{HOST}:{server.port}",
        "enable.idempotence": True,
        "queue.buffering.max.messages": 2 * TRANSACTIONS * RECORDS_EACH,
        "log_level": SILENT,
    }


class Way(Protocol):
    def send(self, times: int) -> float:
        """Records per second of so many portions."""


class OwnPlain:
    """Our idempotent producer, waiting for each portion."""

    def __init__(self, server: Server, **options: Any) -> None:
        self._producer = OwnProducer(f"{HOST}:{server.port}", batch_size=OWN_BATCH_BYTES, **options)

    def send(self, times: int) -> float:
        begun = time.perf_counter()
        for _ in range(times):
            for _ in range(RECORDS_EACH):
                self._producer.send(TOPIC, VALUE)
            self._producer.flush()
        return times * RECORDS_EACH / (time.perf_counter() - begun)

    def close(self) -> None:
        self._producer.close()


class OwnTransactional(OwnPlain):
    def __init__(self, server: Server) -> None:
        super().__init__(server, transactional_id="bench-own")
        self.commit_ms: list[float] = []
        self._producer.init_transactions()

    def send(self, times: int) -> float:
        begun = time.perf_counter()
        for _ in range(times):
            self._producer.begin_transaction()
            for _ in range(RECORDS_EACH):
                self._producer.send(TOPIC, VALUE)
            asked = time.perf_counter()
            self._producer.commit_transaction()
            self.commit_ms.append((time.perf_counter() - asked) * 1_000)
        return times * RECORDS_EACH / (time.perf_counter() - begun)


class Plain:
    """An idempotent producer that waits for each portion as others do for each transaction, or once for all."""

    def __init__(self, server: Server, *, waits_for_each: bool = True) -> None:
        self._waits_for_each = waits_for_each
        self._producer = Producer(settings_of(server))

    def send(self, times: int) -> float:
        """Records per second."""
        begun = time.perf_counter()
        for _ in range(times):
            for _ in range(RECORDS_EACH):
                self._producer.produce(TOPIC, VALUE)
            assert not self._waits_for_each or self._producer.flush(TIMEOUT_SECONDS) == 0
        assert self._producer.flush(TIMEOUT_SECONDS) == 0
        return times * RECORDS_EACH / (time.perf_counter() - begun)


class Transactional:
    def __init__(self, server: Server) -> None:
        self.commit_ms: list[float] = []
        self._producer = Producer({**settings_of(server), "transactional.id": "bench"})
        self._producer.init_transactions(TIMEOUT_SECONDS)

    def send(self, times: int) -> float:
        begun = time.perf_counter()
        for _ in range(times):
            self._producer.begin_transaction()
            for _ in range(RECORDS_EACH):
                self._producer.produce(TOPIC, VALUE)
            asked = time.perf_counter()
            self._producer.commit_transaction(TIMEOUT_SECONDS)
            self.commit_ms.append((time.perf_counter() - asked) * 1_000)
        return times * RECORDS_EACH / (time.perf_counter() - begun)


async def measure_commits(server: Server) -> dict[str, list[float]]:
    """Milliseconds until a commit is answered, and until it is complete: of single ones and of groups, in turns."""
    channel = await Channel.connect(real_world().net, HOST, server.port)
    single = [await initialize(channel, "single")]
    group = [await initialize(channel, one) for one in salted("group", MEMBERS)]
    taken: dict[str, list[float]] = {}
    for _ in range(COMMITS):
        single = await timed(channel, "single", single, taken)
        group = await timed(channel, "group", group, taken)
    channel.close()
    return taken


async def timed(
    channel: Channel, name: str, members: list[GroupCommitMember], taken: dict[str, list[float]]
) -> list[GroupCommitMember]:
    await write(channel, members)
    begun = time.perf_counter()
    following = await (commit_alone(channel, *members) if name == "single" else commit_together(channel, members))
    answered = time.perf_counter()
    await until_complete(channel, members)
    taken.setdefault(f"{name}_commit_ms", []).append((answered - begun) * 1_000)
    taken.setdefault(f"{name}_complete_ms", []).append((time.perf_counter() - begun) * 1_000)
    return following


def salted(name: str, size: int) -> Iterable[str]:
    """Ids that one coordinator has."""
    home = coordinator_partition(name, COORDINATOR_PARTITIONS)
    ids = (f"{name}-{salt}" for salt in count())
    return islice((one for one in ids if coordinator_partition(one, COORDINATOR_PARTITIONS) == home), size)


async def initialize(channel: Channel, transactional_id: str) -> GroupCommitMember:
    await channel.call(FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id]), 4)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    given = await channel.call(request, 5)
    assert given.error_code == ErrorCode.NONE, given
    return member_of(transactional_id, given.producer_id, given.producer_epoch)


def member_of(transactional_id: str, producer_id: int, producer_epoch: int) -> GroupCommitMember:
    return GroupCommitMember(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch)


async def write(channel: Channel, members: Sequence[GroupCommitMember]) -> None:
    """A record of each, which begins its transaction."""
    for member in members:
        batch = build_batch(
            [(time.time_ns() // 1_000_000, None, VALUE, ())],
            producer_id=member.producer_id,
            producer_epoch=member.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(
            transactional_id=member.transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data]
        )
        answer = await channel.call(request, 12)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer


async def commit_alone(channel: Channel, member: GroupCommitMember) -> list[GroupCommitMember]:
    request = EndTxnRequest(
        transactional_id=member.transactional_id,
        producer_id=member.producer_id,
        producer_epoch=member.producer_epoch,
        committed=True,
    )
    answer = await channel.call(request, 5)
    assert answer.error_code == ErrorCode.NONE, answer
    return [member_of(member.transactional_id, answer.producer_id, answer.producer_epoch)]


async def commit_together(channel: Channel, members: list[GroupCommitMember]) -> list[GroupCommitMember]:
    answer = await channel.call(GroupCommitRequest(members=members), 0)
    assert answer.error_code == ErrorCode.NONE, answer
    return [member_of(one.transactional_id, one.producer_id, one.producer_epoch) for one in answer.results]


async def until_complete(channel: Channel, members: Sequence[GroupCommitMember]) -> None:
    """One of them is asked after: the last of a group is complete when all are."""
    request = DescribeTransactionsRequest(transactional_ids=[members[-1].transactional_id])
    states: list[str] = []
    while states != ["CompleteCommit"]:
        answer = await channel.call(request, 0)
        states = [one.transaction_state for one in answer.transaction_states]


if __name__ == "__main__":
    sys.exit(main())
