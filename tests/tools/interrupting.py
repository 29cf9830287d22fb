"""Ctrl-C while a tool waits for an answer."""

import os
import signal
import socket
import subprocess
import sys

from tests.tools.scenario import Ran

WAIT_SECONDS = 30.0


def interrupted(arguments: list[str]) -> Ran:
    """What a tool says whose first request is never answered, when the user has enough."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_SECONDS)
        host, port = server.getsockname()
        command = [sys.executable, "-m", "levada", *arguments, "--bootstrap-server", f"{host}:{port}"]
        # A shell's background jobs ignore Ctrl-C, and their children would too.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
        )
        try:
            return _interrupt(server, process)
        finally:
            process.kill()
            process.wait()


def _interrupt(server: socket.socket, process: "subprocess.Popen[str]") -> Ran:
    # The first connection only finds out whether a broker answers.
    with server.accept()[0] as probe:
        probe.settimeout(WAIT_SECONDS)
        _answer_versions(probe)
    with server.accept()[0] as connection:
        connection.settimeout(WAIT_SECONDS)
        assert connection.recv(1)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_SECONDS)
        return Ran(process.returncode, out, err)


def _answer_versions(probe: socket.socket) -> None:
    """ApiVersions v0 of a broker that serves nothing."""
    request = b""
    while len(request) < 4 or len(request) < 4 + int.from_bytes(request[:4], "big"):
        request += probe.recv(1_024)
    correlation_id, no_error, no_versions = request[8:12], bytes(2), bytes(4)
    answer = correlation_id + no_error + no_versions
    probe.sendall(len(answer).to_bytes(4, "big") + answer)


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
