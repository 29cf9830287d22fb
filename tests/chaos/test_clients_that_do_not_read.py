"""Clients that ask for much and take nothing of it: what they cost the broker."""

import socket
from pathlib import Path

from levada import Consumer, Producer
from levada.protocol.api import ApiKey
from levada.protocol.codec import encode_bytes
from levada.protocol.headers import encode_request_header
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.brokers import BrokerProcess, sound
from tests.chaos.test_garbage import memory_mb

CLIENTS = 400
MAY_GROW_MB = 200
MEGABYTE = 1 << 20
RECORDS = 12


def a_fetch() -> bytes:
    """For more than the kernel's buffers take of it."""
    ask = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MEGABYTE)
    topic = FetchTopic(topic="t", partitions=[ask])
    body = encode_bytes(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=MEGABYTE, topics=[topic]), 12)
    frame = encode_request_header(ApiKey.FETCH, 12, 1, "greedy") + body
    return len(frame).to_bytes(4, "big") + frame


def test_clients_that_do_not_read_do_not_pin_a_megabyte_each(tmp_path: Path) -> None:
    with sound(BrokerProcess(tmp_path / "data")) as broker:
        with Producer(broker.bootstrap) as producer:
            for _ in range(RECORDS):
                producer.send("t", bytes(900_000))
        before = memory_mb(broker)
        clients = []
        try:
            for _ in range(CLIENTS):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                client.connect(("localhost", broker.port))
                client.sendall(a_fetch() * 8)
                clients.append(client)
            # It is answered when all before it have been looked at.
            with Consumer(broker.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.subscribe(["t"])
                read = 0
                while read < RECORDS:
                    read += len(consumer.poll(1.0))
            assert memory_mb(broker) - before < MAY_GROW_MB
        finally:
            for client in clients:
                client.close()
