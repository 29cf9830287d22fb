"""Addresses of this machine at which no Kafka broker is: closed ports, and programs that speak something else."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

STRANGERS = {
    "refusing": "refused the connection: no program listens there",
    "silent": "took the connection, but has not answered as a Kafka broker in ",
    "closing": "closed the connection before it answered: it is no Kafka broker",
    "web": "answered, but not as a Kafka broker: it may be a web server",
    "full": "took no connection in ",
    "nameless": "there is no host 'no-such-host.invalid'",
}
"""What is there, and what a client says about it."""

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"


@contextmanager
def stranger(kind: str) -> Iterator[str]:
    """The address of one of these, as long as it is needed."""
    if kind == "nameless":
        # A name that no resolver knows (RFC 6761).
        yield "no-such-host.invalid:9092"
        return
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0 if kind == "full" else 64))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if kind == "refusing":
            server.close()
        elif kind == "full":
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(server.getsockname())
        else:
            _serve(kind, server, stack)
        yield address


def _serve(kind: str, server: socket.socket, stack: ExitStack) -> None:
    kept: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            if kind == "closing":
                connection.close()
                continue
            kept.append(connection)
            if kind == "web":
                connection.recv(1_024)
                connection.sendall(BAD_REQUEST)

    def end() -> None:
        # A thread in accept() hears of it only by this.
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in kept:
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    stack.callback(end)
