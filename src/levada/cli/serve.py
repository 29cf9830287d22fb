"""`levada serve`: one broker in this process, until it is told to stop."""

import argparse
import asyncio
import logging
import logging.handlers
import os
import queue
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from levada.cli.kit.files import read_properties
from levada.cli.kit.processes import LISTENING, noted_process, start_daemon
from levada.cli.kit.refusals import Refused, WrongUsage, warn
from levada.cli.kit.system_errors import reason
from levada.model.config import ConfigError
from levada.node.coordinator import check_coordinator
from levada.node.development import DEVELOPMENT
from levada.node.listeners import parse_listener
from levada.node.node import Node
from levada.node.settings import NodeSettings, node_settings
from levada.node.start_errors import cannot_use
from levada.world.loop_watch import LoopWatch
from levada.world.process_metrics import ProcessMetrics
from levada.world.real import RealClock, allow_open_files, loop_name, real_world, spare_garbage_collector
from levada.world.real import run as run_loop

logger = logging.getLogger(__name__)

LOG_NAME = "levada.log"

SMALL_SEGMENTS = {"log.segment.bytes": str(16 << 20)}
"""For a laptop: what is deleted makes room soon."""

DEFAULTS = {"log.dirs": "./levada-data", "listeners": "PLAINTEXT://localhost:9092", "node.id": "1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where topics are kept, several with commas between (default ./levada-data)"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="port 0 picks a free one (default localhost:9092)")
    parser.add_argument("--node-id", metavar="N", help="this broker's id (default 1)")
    parser.add_argument(
        "--coordinator",
        metavar="local[:DIR]|zookeeper://HOST:PORT,.../PATH",
        help="where the cluster's state lives (default local, in the data dir)",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a Kafka server.properties")
    parser.add_argument("properties", metavar="FILE", type=Path, nargs="?", help="the same, as Kafka's script takes it")
    parser.add_argument(
        "--set", "--override", metavar="KEY=VALUE", action="append", default=[], help="wins over the file"
    )
    parser.add_argument(
        "--dev", action="store_true",
        help="settings for a laptop and for tests: groups wait for no members, few internal partitions, small files",
    )  # fmt: skip
    parser.add_argument(
        "--daemon", "-daemon", action=argparse.BooleanOptionalAction, default=False,
        help="go on in the background once the broker listens",
    )  # fmt: skip
    parser.add_argument(
        "--log-file", metavar="FILE", type=Path,
        help=f"where the log goes (default stderr, or DATA-DIR/{LOG_NAME} in the background)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    if arguments.log_file is not None:
        _begin_log(arguments.log_file)
    if arguments.daemon:
        log_path = arguments.log_file or _log_in_data_directory(settings)
        given = [*arguments.given, "--no-daemon", "--log-file", str(log_path)]
        return start_daemon(given, settings.data_directory, log_path)
    with logging_to(arguments.log_file):
        run_loop(serve(settings))
    return 0


def _begin_log(path: Path) -> None:
    """Before the broker is started, which could not say why it ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise Refused(f"cannot write the log {path}: {reason(error)}; give another --log-file") from None


def _log_in_data_directory(settings: NodeSettings) -> Path:
    directory = Path(settings.data_directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / LOG_NAME
        path.open("ab").close()
    except OSError as error:
        raise cannot_use(error, settings.data_directory) from None
    return path


async def serve(settings: NodeSettings) -> None:
    """Run a node until SIGTERM, SIGHUP or Ctrl-C."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Under nohup a terminal that closes is nothing to the broker.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stopping.set)
    node = Node(real_world(settings.config["num.recovery.threads.per.data.dir"]), settings)
    fatal: list[str] = []

    def stop_for(reason: str) -> None:
        fatal.append(reason)
        stopping.set()

    node.on_fatal = stop_for
    watch = LoopWatch(settings.config["levada.loop.held.warn.ms"])
    process = ProcessMetrics(node.metrics, RealClock().monotonic_ms())
    logger.info("starting loop=%s data_dir=%s", loop_name(), settings.data_directory)
    try:
        await node.start()
        spare_garbage_collector()
        # Before, there is no client to be kept waiting.
        watch.start()
        process.start()
        name = f"broker {settings.node_id} {LISTENING} {settings.listeners[0].host or '0.0.0.0'}:{node.port}"
        with noted_process(settings.data_directories, name):
            print(f"levada: {name}", flush=True)
            await stopping.wait()
        logger.info("stopping")
    finally:
        watch.stop()
        process.stop()
        await node.stop()
    if fatal:
        raise Refused(f"the broker has stopped: {fatal[0]}; see its log, mend what failed and start it again")


def settings_of(arguments: argparse.Namespace) -> NodeSettings:
    """Flags win over --set, which wins over the file, which wins over --dev and our defaults."""
    given: dict[str, str] = {**DEVELOPMENT, **SMALL_SEGMENTS} if arguments.dev else {}
    if arguments.config is not None and arguments.properties is not None:
        raise WrongUsage(f"two files of properties: --config {arguments.config} and {arguments.properties}")
    config_path = arguments.config or arguments.properties
    if config_path is not None:
        given.update(read_properties(config_path, "--config"))
    for assignment in arguments.set:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set wants KEY=VALUE, not {assignment!r}")
        given[key.strip()] = value.strip()
    if (jmx_port := os.environ.get("JMX_PORT")) and "levada.metrics.port" not in given:
        warn(f"JMX_PORT={jmx_port}: metrics are served over HTTP there, for Prometheus and `levada metrics`")
        given["levada.metrics.port"] = jmx_port
    if arguments.data_dir is not None:
        given["log.dirs"] = arguments.data_dir
    if arguments.listen is not None:
        parse_listener("--listen", arguments.listen)
        given["listeners"] = f"PLAINTEXT://{arguments.listen}"
    if arguments.node_id is not None:
        given["node.id"] = arguments.node_id
    settings = node_settings(_with_defaults(given), allow_open_files(), coordinator=arguments.coordinator)
    check_coordinator(settings)
    return settings


def _with_defaults(given: dict[str, str]) -> dict[str, str]:
    """Our defaults, where neither a key nor its older name was given."""
    older_names = {"log.dirs": "log.dir", "node.id": "broker.id"}
    absent = [key for key in DEFAULTS if key not in given and older_names.get(key) not in given]
    return {**given, **{key: DEFAULTS[key] for key in absent}}


@contextmanager
def logging_to(path: Path | None) -> Iterator[None]:
    """One line an event, to a file or to stderr, written by another thread: a slow terminal must not hold the loop.

    A file that was moved away by a rotation is opened anew.
    """
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler() if path is None else logging.handlers.WatchedFileHandler(path)
    handler.setFormatter(formatter)
    lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = logging.handlers.QueueListener(lines, handler)
    root = logging.getLogger()
    queueing = logging.handlers.QueueHandler(lines)
    root.addHandler(queueing)
    root.setLevel(logging.INFO)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(queueing)
        listener.stop()
        handler.close()
