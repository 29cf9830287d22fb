"""Apache Kafka's own DumpLogSegments (Maven) and our dump-log say the same of the same files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess
from tests.integration.isolation import ends_at
from tests.integration.samples import CODECS, samples
from tests.integration.test_confluent_kafka import produce
from tests.integration.test_group_commit import begin, commit
from tests.integration.test_groups import create_topic, wait_until
from tests.integration.test_wire import talk

HERE = Path(__file__).parent / "apache"
JARS = HERE / "build" / "jars"
GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "logs"
DIRECTORIES = sorted(path for path in GOLDEN.rglob("*-0") if path.is_dir())

SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}

MODES = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--verify-index-only"],
    ["--index-sanity-check"],
    ["--deep-iteration", "--max-bytes", "1000"],
]

pytestmark = pytest.mark.skipif(
    shutil.which("mvn") is None or shutil.which("java") is None,
    reason="Maven or Java is not installed, so Apache's DumpLogSegments was not tried",
)


@pytest.fixture(scope="module")
def apache() -> list[str]:
    """The command of Apache's tool."""
    if not JARS.exists():
        fetched = HERE / "build" / "fetched"
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        result = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 0, result.stdout
        fetched.rename(JARS)
    # The tool prints text in the encoding of the terminal unless it is told.
    return [
        "java",
        "-Dstdout.encoding=UTF-8",
        "-Dfile.encoding=UTF-8",
        "-cp",
        f"{JARS}/*",
        "org.apache.kafka.tools.DumpLogSegments",
    ]


@pytest.mark.parametrize("flags", MODES, ids=lambda flags: " ".join(flags) or "plain")
@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: str(path.relative_to(GOLDEN).parent))
def test_directories_that_apache_wrote(apache: list[str], directory: Path, flags: list[str], tmp_path: Path) -> None:
    # Apache's tool opens indexes for writing and cuts them, so it gets a copy.
    copy = tmp_path / directory.name
    shutil.copytree(directory, copy)
    compare(apache, copy, flags)


def test_directories_that_our_broker_wrote(apache: list[str], own_broker: BrokerProcess) -> None:
    for codec in CODECS:
        messages = [
            {"key": one.key, "value": one.value, "headers": list(one.headers), "timestamp": one.timestamp_ms}
            for one in samples()
        ]
        for idempotent in (False, True):
            settings = {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 50}
            produce(own_broker, f"dumped-{codec}", messages, **settings)
    assert own_broker.stop() == 0
    directories = sorted(own_broker.data_directory.glob("dumped-*"))
    assert len(directories) == len(CODECS)
    for directory in directories:
        for flags in MODES:
            printed = compare(apache, directory, flags)
            assert f" compresscodec: {directory.name.split('-')[1]} " in printed or "--max-bytes" in flags


def test_the_markers_of_a_group_commit(apache: list[str], own_broker: BrokerProcess) -> None:
    """They are tied together by a header, which Apache's markers never have."""
    create_topic(own_broker, "tied", 2)
    members = talk(own_broker, lambda channel: begin(channel, "tied"))
    talk(own_broker, lambda channel: commit(channel, members))
    wait_until(lambda: ends_at(own_broker, "tied", 0, 2 * len(members)))
    assert own_broker.stop() == 0
    for flags in MODES:
        printed = compare(apache, own_broker.data_directory / "tied-0", flags)
        if flags == ["--print-data-log"]:
            assert printed.count("headerKeys: [levada-group-commit] endTxnMarker: COMMIT") == len(members)


def compare(apache: list[str], directory: Path, flags: list[str]) -> str:
    """Both tools over every file that both read; returns what they printed."""
    files = ",".join(str(path) for path in sorted(directory.iterdir()) if path.suffix in SUFFIXES)
    # Ours goes first, to see the files before Apache's may have changed them.
    ours = run([sys.executable, "-m", "levada", "dump-log", "--files", files, *flags])
    theirs = run([*apache, "--files", files, *flags])
    if theirs.returncode == 0:
        assert ours.stdout == theirs.stdout
        assert reports(ours.stderr) == reports(theirs.stderr)
        assert ours.returncode == 0
    else:
        # Apache stops at the first file that it cannot read, with a stack trace; ours says why and goes on.
        assert ours.returncode == 1
        assert ours.stdout.startswith(theirs.stdout)
        message = theirs.stderr.splitlines()[0].partition("Exception: ")[2]
        assert message
        assert message in ours.stderr
    return theirs.stdout


def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)


def reports(text: str) -> list[str]:
    """The faults by file, whose order in Apache's report is that of a hash map."""
    return sorted(text.replace("\n  ", " | ").splitlines())
