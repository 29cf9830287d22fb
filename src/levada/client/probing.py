"""One question before a client is made: does a Kafka broker answer at these addresses?"""

import socket
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from levada.client.cluster.contact import (
    HANGS_UP,
    NOT_KAFKA,
    SAYS_NOTHING,
    TAKES_NO_CONNECTION,
    connection_fault,
)
from levada.client.cluster.view import Address
from levada.client.options import parse_addresses
from levada.protocol.api import ApiKey
from levada.protocol.codec import encode
from levada.protocol.headers import encode_request_header
from levada.protocol.messages.api_versions import ApiVersionsRequest

PROBE_SECONDS: Final = 3.0
CLIENT_ID: Final = "levada-probe"
CORRELATION_ID: Final = 0x4C455641
LEAST_ANSWER, MOST_ANSWER = 6, 1 << 20

Verdict: TypeAlias = tuple[Address, str | None]
"""An address, and what is wrong there; None if a broker answered."""


def faults_of(servers: str | Sequence[str], seconds: float = PROBE_SECONDS) -> list[str]:
    """What is wrong with each address, if a broker answers at none of them within `seconds`; else nothing.

    All are asked at the same time, each by a thread: looking a name up takes as long as it likes.
    """
    addresses = [Address(host, port) for host, port in parse_addresses(servers)]
    verdicts: SimpleQueue[Verdict] = SimpleQueue()
    for address in addresses:
        threading.Thread(target=_ask, args=(address, seconds, verdicts), daemon=True).start()
    give_up_at = time.monotonic() + seconds + 0.5
    faults = dict.fromkeys(addresses, "")
    for _ in addresses:
        try:
            address, fault = verdicts.get(timeout=max(give_up_at - time.monotonic(), 0))
        except Empty:
            break
        if fault is None:
            return []
        faults[address] = fault
    return [fault or TAKES_NO_CONNECTION.format(address=address, seconds=seconds) for address, fault in faults.items()]


def _ask(address: Address, seconds: float, verdicts: "SimpleQueue[Verdict]") -> None:
    verdicts.put((address, _fault_at(address, seconds)))


def _fault_at(address: Address, seconds: float) -> str | None:
    try:
        connection = socket.create_connection((address.host, address.port), seconds)
    except TimeoutError:
        return TAKES_NO_CONNECTION.format(address=address, seconds=seconds)
    except OSError as error:
        return connection_fault(error, address, address.host)
    with connection:
        try:
            return _fault_of_answer(connection, address)
        except TimeoutError:
            return SAYS_NOTHING.format(address=address, seconds=seconds)
        except OSError:
            return HANGS_UP.format(address=address)


def _fault_of_answer(connection: socket.socket, address: Address) -> str | None:
    """Ask for the versions served, in the form that every broker understands."""
    pieces: list[Any] = encode(ApiVersionsRequest(), 0)
    body = b"".join([encode_request_header(ApiKey.API_VERSIONS, 0, CORRELATION_ID, CLIENT_ID), *pieces])
    connection.sendall(len(body).to_bytes(4, "big") + body)
    answer = b""
    while len(answer) < 8:
        received = connection.recv(4_096)
        if not received:
            return (NOT_KAFKA if answer else HANGS_UP).format(address=address)
        answer += received
    size, correlation_id = int.from_bytes(answer[:4], "big"), int.from_bytes(answer[4:8], "big")
    is_broker = LEAST_ANSWER <= size <= MOST_ANSWER and correlation_id == CORRELATION_ID
    return None if is_broker else NOT_KAFKA.format(address=address)
