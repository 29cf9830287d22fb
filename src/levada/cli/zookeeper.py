"""`levada zookeeper`: one server of Apache ZooKeeper in the foreground, from the jars that pyspark brings."""

import argparse
import ctypes
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final

from levada.cli.kit.processes import LISTENING
from levada.cli.kit.refusals import Refused, WrongUsage
from levada.spark.java import NoJava, java_program
from levada.world.disk import DirectoryLock
from levada.world.real_disk import RealDisk

JARS: Final = (
    "zookeeper", "zookeeper-jute", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "metrics-core",
    "snappy-java",
)  # fmt: skip
"""Of the hundreds that pyspark has, those that a server loads."""

MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CONFIG_NAME, LOG_CONFIG_NAME, LOG_NAME, ID_NAME, LOCK_NAME = (
    "zoo.cfg", "log4j2.properties", "zookeeper.log", "myid", ".lock"
)  # fmt: skip

SETTINGS: Final = {
    # Ticks are what sessions are counted in: brokers may ask for one of two seconds.
    "tickTime": "500",
    "initLimit": "40",
    "syncLimit": "10",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,stat",
    "autopurge.snapRetainCount": "3",
    "autopurge.purgeInterval": "1",
}
LOGGING: Final = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}} %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""
POLL_SECONDS: Final = 0.05
STOP_SECONDS: Final = 20
_PEER: Final = re.compile(r"(\d+)=(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+):(\d+):(\d+)")
_SET_PARENT_DEATH_SIGNAL: Final = 1


@dataclass(frozen=True, slots=True)
class Server:
    directory: Path
    host: str
    """Which address clients reach; empty for all of this machine's."""
    port: int
    server_id: int
    ensemble: dict[int, str]
    """Where the servers find each other, by id; empty for one that is alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", metavar="DIR", type=Path, required=True, help="where it keeps its data and log")
    parser.add_argument("--port", metavar="PORT", type=int, default=2181, help="for clients (default 2181)")
    parser.add_argument(
        "--host", help="the address for clients (default localhost; in an ensemble all of this machine's)"
    )
    parser.add_argument("--server-id", metavar="N", type=int, help="which server of the ensemble this one is")
    parser.add_argument(
        "--ensemble", metavar="1=HOST:2888:3888,2=...", help="all its servers, and where they find each other"
    )


def run(arguments: argparse.Namespace) -> int:
    server = server_of(arguments)
    lock = _prepare(server)
    try:
        return _run(server, _command(server))
    finally:
        lock.release()


def server_of(arguments: argparse.Namespace) -> Server:
    if (arguments.server_id is None) != (arguments.ensemble is None):
        raise WrongUsage("--server-id and --ensemble go together: a server that is alone has neither")
    if not 0 < arguments.port < 1 << 16:
        raise WrongUsage(f"--port {arguments.port} is no port")
    ensemble = parse_ensemble(arguments.ensemble) if arguments.ensemble is not None else {}
    server_id = arguments.server_id or 0
    if ensemble and server_id not in ensemble:
        raise WrongUsage(f"--ensemble does not name --server-id {server_id}")
    host = arguments.host if arguments.host is not None else "" if ensemble else "localhost"
    return Server(arguments.data_dir, host, arguments.port, server_id, ensemble)


def parse_ensemble(text: str) -> dict[int, str]:
    """
    >>> parse_ensemble("1=a:2888:3888,2=[::1]:2889:3889")
    {1: 'a:2888:3888', 2: '[::1]:2889:3889'}
    """
    peers: dict[int, str] = {}
    for part in text.split(","):
        found = _PEER.fullmatch(part.strip())
        if found is None or not all(0 < int(port) < 1 << 16 for port in found.groups()[2:]):
            raise WrongUsage(f"--ensemble wants ID=HOST:2888:3888, not {part!r}")
        if not 1 <= int(found[1]) <= 255 or int(found[1]) in peers:
            raise WrongUsage(f"--ensemble wants each server once, with an id from 1 to 255, not {part!r}")
        peers[int(found[1])] = part.strip().partition("=")[2]
    return peers


def configuration(server: Server) -> str:
    """What the server reads."""
    settings = {**SETTINGS, "dataDir": str(server.directory.absolute()), "clientPort": str(server.port)}
    if server.host:
        settings["clientPortAddress"] = server.host
    settings |= {f"server.{number}": address for number, address in server.ensemble.items()}
    # It is read as Java's properties are, to which a backslash means something.
    return "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items())


def _prepare(server: Server) -> DirectoryLock:
    """The directory, with what the server reads in it."""
    server.directory.mkdir(parents=True, exist_ok=True)
    try:
        lock = RealDisk().lock(str(server.directory / LOCK_NAME))
    except BlockingIOError:
        raise Refused(f"a ZooKeeper server runs in {server.directory} already") from None
    try:
        _check_id(server)
        _check_port(server)
        (server.directory / CONFIG_NAME).write_text(configuration(server))
        log_path = (server.directory / LOG_NAME).absolute()
        (server.directory / LOG_CONFIG_NAME).write_text(LOGGING.format(path=log_path))
    except BaseException:
        lock.release()
        raise
    return lock


def _check_id(server: Server) -> None:
    """A server that took another one's votes would break what the ensemble has promised."""
    path = server.directory / ID_NAME
    known = path.read_text().strip() if path.exists() else ""
    if known not in ("", str(server.server_id)):
        raise Refused(f"{server.directory} belongs to server {known}; start it with that id or use another --data-dir")
    path.write_text(f"{server.server_id}\n")


def _check_port(server: Server) -> None:
    try:
        with socket.create_server((server.host, server.port)):
            pass
    except OSError as error:
        raise Refused(f"cannot listen on {server.host or '0.0.0.0'}:{server.port}: {error.strerror}") from None


def _command(server: Server) -> list[str]:
    try:
        java = java_program()
    except NoJava as error:
        raise Refused(str(error).replace("Spark", "ZooKeeper", 1)) from None
    directory = server.directory.absolute()
    # As ZooKeeper's own scripts take them.
    flags = shlex.split(os.environ.get("SERVER_JVMFLAGS", "-Xmx512m"))
    return [
        java, "-XX:+UseSerialGC", "-Dlog4j2.disableJmx=true", "-Dzookeeper.jmx.log4j.disable=true",
        f"-Dlog4j2.configurationFile={directory / LOG_CONFIG_NAME}",
        *flags, "-cp", class_path(), MAIN, str(directory / CONFIG_NAME),
    ]  # fmt: skip


def class_path() -> str:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise Refused("ZooKeeper comes with pyspark: pip install 'levada[spark]'")
    directory = Path(spec.submodule_search_locations[0]) / "jars"
    found = []
    for name in JARS:
        jars = sorted(path for path in directory.glob(f"{name}-*.jar") if path.name[len(name) + 1].isdigit())
        if not jars:
            raise Refused(f"pyspark has no {name} in {directory}: run an Apache ZooKeeper 3.5 or newer of your own")
        found.append(str(jars[-1]))
    return os.pathsep.join(found)


def _run(server: Server, command: list[str]) -> int:
    is_stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_end_with_parent)
    is_listening = False
    try:
        while process.poll() is None and not is_stopping:
            if not is_listening and answers(server):
                is_listening = True
                where = f"{server.host or '0.0.0.0'}:{server.port}"
                print(f"levada: zookeeper {server.server_id} {LISTENING} {where}", flush=True)
            time.sleep(POLL_SECONDS)
    finally:
        _end(process)
        for number, handler in before.items():
            signal.signal(number, handler)
    if not is_stopping:
        raise Refused(f"ZooKeeper has ended with code {process.returncode}; its log is {server.directory / LOG_NAME}")
    return 0


def _end_with_parent() -> None:
    """A server whose launcher was killed would keep its port, and nothing would know of it."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def answers(server: Server) -> bool:
    """Whether it serves; one of an ensemble does when enough of the others are there, which are not waited for."""
    try:
        with socket.create_connection((server.host or "localhost", server.port), timeout=1) as connection:
            connection.settimeout(1)
            connection.sendall(b"ruok" if server.ensemble else b"srvr")
            said = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return False
    return said == b"imok" or b"Mode: " in said


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
