"""A Spark session with everything set for topics."""

import os
import re
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from levada.spark.defaults import BOOTSTRAP_SETTING, CONNECT, DEFAULT_BOOTSTRAP, DEFAULT_MASTER
from levada.spark.java import java_home
from levada.spark.worker_python import is_launcher, worker_python
from pyspark_levada import DefaultSource

UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
LOCAL_CORES = re.compile(r"local\[(\d+|\*)")
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
CLUSTER_SHUFFLE_PARTITIONS = 4
"""A stream keeps a state for each, which takes its time in every batch. Large states and clusters want more."""

SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Over TCP each task waits 40 ms: Spark sends its input in two pieces, and the second waits for an acknowledgement.
    UNIX_SOCKETS: "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch writes what it changed, and the whole state is written in the background.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

CONNECT_PORT: Final = 15002
CONNECT_SECONDS: Final = 5.0
CONNECT_PACKAGES: Final = ("grpc", "grpc_status", "zstandard")
OF_A_SESSION: Final = ("spark.sql.", "spark.levada.")
"""Settings that begin so can be a session's; the others are the server's."""
PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")


class NoConnectServer(RuntimeError):
    """A Spark Connect server that cannot be asked; the text is one line."""


def session(
    master: str = DEFAULT_MASTER,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    app_name: str = "levada",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Spark on this machine, or on a cluster with `master="spark://host:7077"`; the running session if there is one.

    `master="sc://host:15002"` is a Spark Connect server: of our settings, it gets those of a session.

    `bootstrap` are the brokers that `read` and `write` use when they are not told others; `settings` are Spark's own
    and win over ours.
    """
    ours = {**SETTINGS, SHUFFLE_PARTITIONS: str(shuffle_partitions(master)), BOOTSTRAP_SETTING: bootstrap}
    if master.startswith(CONNECT):
        check_server(master)
        builder = SparkSession.builder.remote(master)
        ours = {name: value for name, value in ours.items() if name.startswith(OF_A_SESSION)}
    else:
        prepare_environment(is_local=master.startswith("local"))
        builder = SparkSession.builder.master(master).appName(app_name)
        if master.startswith("local") and not is_launcher(os.environ["PYSPARK_PYTHON"]):
            # Over them each worker that Spark hangs up on says so, on the user's terminal.
            del ours[UNIX_SOCKETS]
    for name, value in {**ours, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Spark's own search for sources imports every `pyspark_*` module on the path, and finds none where one cannot be.
    spark.dataSource.register(DefaultSource)
    return spark


def shuffle_partitions(master: str) -> int:
    """As many as there are cores on this machine for tasks.

    >>> shuffle_partitions("local[2,4]"), shuffle_partitions("local"), shuffle_partitions("spark://host:7077")
    (2, 1, 4)
    """
    if master == "local":
        return 1
    cores = LOCAL_CORES.match(master)
    if cores is None:
        return CLUSTER_SHUFFLE_PARTITIONS
    return (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1])


def check_server(address: str) -> None:
    """NoConnectServer where a Spark Connect server cannot be asked; PySpark's client would try for minutes."""
    if missing := [name for name in CONNECT_PACKAGES if find_spec(name) is None]:
        raise NoConnectServer(
            f"{address} is a Spark Connect server, whose client needs {missing[0]}: pip install 'pyspark[connect]'"
        )
    try:
        found = urlsplit(address)
        host, port = found.hostname, found.port or CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if not host:
        raise NoConnectServer(f"{address!r} is no address of a Spark Connect server: give one as sc://host:15002")
    if any(name.lower() in PROXIES for name in os.environ):
        # It may be in reach of the proxy alone.
        return
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        raise NoConnectServer(f"there is no Spark Connect server at {host}:{port}: {error.strerror or error}") from None


def is_connected(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, in which nothing of Java's side can be asked."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def bootstrap_of(spark: SparkSession, given: str | None = None) -> str:
    """The brokers that were named, or those of the session."""
    return given or spark.conf.get(BOOTSTRAP_SETTING, DEFAULT_BOOTSTRAP) or DEFAULT_BOOTSTRAP


def prepare_environment(*, is_local: bool = True) -> None:
    """What Spark takes from the environment: a Java, the Python of its workers, an address to bind to."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    if "PYSPARK_PYTHON" not in os.environ:
        # On other machines there is no launcher of ours.
        os.environ["PYSPARK_PYTHON"] = worker_python() if is_local else sys.executable
    if is_local:
        # Without it Spark looks for the machine's name, and fails where that has no address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
