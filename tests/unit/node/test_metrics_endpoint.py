"""The HTTP port, over real sockets."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from levada.model.config import ConfigError
from levada.model.metrics import Meter, Registry, Sample, Timer
from levada.node import metrics_endpoint
from levada.node.metrics_endpoint import MAX_CONNECTIONS, MAX_REQUEST_BYTES, MetricsEndpoint
from levada.world.real import run
from levada.world.real_net import RealNet

BYTES_IN = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
WAIT_SECONDS = 10


class Served:
    """An endpoint, and a client of it."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.is_ready = True
        self.endpoint = MetricsEndpoint(self.registry, lambda: self.is_ready)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.endpoint.port, limit=1 << 26)

    async def send(self, request: bytes) -> tuple[int, str]:
        """The status and the body that come back, or 0 where the connection just ends."""
        reader, writer = await self.connect()
        writer.write(request)
        return await self.receive(reader, writer)

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, str]:
        try:
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        except ConnectionError:
            return 0, ""
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head:
            return 0, ""
        assert f"Content-Length: {len(body)}".encode() in head
        return int(head.split()[1]), body.decode()

    async def get(self, target: str) -> tuple[int, str]:
        return await self.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served()
    await served.endpoint.start(RealNet(), "127.0.0.1", 0)
    try:
        yield served
    finally:
        served.endpoint.close()


def check(test: Callable[[Served], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving() as served:
            await test(served)

    run(main())


def test_prometheus_reads_all_kinds() -> None:
    async def test(served: Served) -> None:
        meter, timer = Meter(0), Timer(0)
        served.registry.register(f"{BYTES_IN},topic=x", meter)
        served.registry.register("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", timer)
        served.registry.register_gauge("kafka.server:type=KafkaServer,name=ClusterId", lambda: 'a"b')
        served.registry.register_gauge("kafka.server:type=ReplicaManager,name=LeaderCount", lambda: 7)
        family, tags = "kafka.server:type=socket-server-metrics", {"listener": "PLAINTEXT"}
        reading = Sample(family, tags, "attributes", {"connection-count": 3})
        served.registry.add_source(lambda: [reading])
        meter.count = 100
        timer.record(12_000)
        served.registry.tick(5_000)
        status, page = await served.get("/metrics")
        assert status == 200
        samples = {
            (sample.name, tuple(sample.labels.items())): sample.value
            for metric in text_string_to_metric_families(page)
            for sample in metric.samples
        }
        topic = (("topic", "x"),)
        assert samples["kafka_server_BrokerTopicMetrics_BytesInPerSec_total", topic] == 100
        for rate in ("rate1m", "rate5m", "rate15m"):
            assert samples[f"kafka_server_BrokerTopicMetrics_BytesInPerSec_{rate}", topic] == 20
        flushes = "kafka_log_LogFlushStats_LogFlushRateAndTimeMs"
        assert samples[f"{flushes}_count", ()] == 1
        assert samples[f"{flushes}_sum", ()] == pytest.approx(12, rel=1 / 16)
        assert samples[flushes, (("quantile", "0.999"),)] == pytest.approx(12, rel=1 / 16)
        assert samples[f"{flushes}_rate1m", ()] == 0.2
        assert samples[f"{flushes}_max", ()] == pytest.approx(12, rel=1 / 16)
        assert samples["kafka_server_KafkaServer_ClusterId", (("value", 'a"b'),)] == 1
        assert samples["kafka_server_ReplicaManager_LeaderCount", ()] == 7
        assert samples["kafka_server_socket_server_metrics_connection_count", (("listener", "PLAINTEXT"),)] == 3

    check(test)


def test_a_long_family_is_written_in_slices_under_one_header() -> None:
    async def test(served: Served) -> None:
        readings = [
            Sample("kafka.log:type=Log,name=Size", {"topic": f"t{at}"}, "gauge", {"Value": at}) for at in range(250)
        ]
        served.registry.add_source(lambda: readings)
        served.registry.register(BYTES_IN, Meter(0))
        _, page = await served.get("/metrics")
        (sizes,) = [metric for metric in text_string_to_metric_families(page) if metric.name == "kafka_log_Log_Size"]
        assert [sample.value for sample in sizes.samples] == list(range(250))
        assert sizes.type == "gauge"
        assert page.count("# TYPE kafka_log_Log_Size gauge") == 1
        assert page.count("# TYPE kafka_server_BrokerTopicMetrics_BytesInPerSec_total counter") == 1

    check(test)


def test_jmx_gives_mbeans_by_pattern() -> None:
    async def test(served: Served) -> None:
        for name in (f"{BYTES_IN},topic=x", f"{BYTES_IN},topic=y", "kafka.server:type=KafkaServer,name=BrokerState"):
            served.registry.register_gauge(name, lambda: 3)
        status, body = await served.get("/jmx")
        assert status == 200
        assert len(json.loads(body)) == 3
        _, body = await served.get(f"/jmx?pattern={BYTES_IN}%2Ctopic=%2A&pattern=nothing:*")
        assert json.loads(body) == {f"{BYTES_IN},topic=x": {"Value": 3}, f"{BYTES_IN},topic=y": {"Value": 3}}

    check(test)


def test_health_and_readiness() -> None:
    async def test(served: Served) -> None:
        assert await served.get("/health") == (200, "healthy\n")
        assert (await served.get("/ready"))[0] == 200
        served.is_ready = False
        assert (await served.get("/ready"))[0] == 503
        assert (await served.get("/health"))[0] == 200

    check(test)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /h\xffalth HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"\0\0\0\x23\0\x12\0\x04", 400),
        (b"\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(request_: bytes, status: int) -> None:
    async def test(served: Served) -> None:
        assert (await served.send(request_))[0] == status
        assert (await served.get("/health"))[0] == 200

    check(test)


def test_a_request_may_come_in_pieces_but_not_without_end() -> None:
    async def test(served: Served) -> None:
        reader, writer = await served.connect()
        for byte in b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n":
            writer.write(bytes((byte,)))
            await asyncio.sleep(0)
        assert (await served.receive(reader, writer))[0] == 200
        endless = b"GET /health HTTP/1.1\r\nX: " + b"x" * MAX_REQUEST_BYTES
        assert (await served.send(endless[:MAX_REQUEST_BYTES]))[0] == 431
        # A client that sends on may see a reset before it sees the answer.
        assert (await served.send(endless * 100))[0] in (0, 431)

    check(test)


def test_a_client_that_does_not_finish_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(served: Served) -> None:
        assert await served.send(b"GET /health HTTP/1.1\r\n") == (0, "")

    monkeypatch.setattr(metrics_endpoint, "RECEIVE_SECONDS", 0.05)
    check(test)


def test_a_client_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(served: Served) -> None:
        served.registry.register_gauge("kafka.server:type=KafkaServer,name=ClusterId", lambda: "x" * 20_000_000)
        reader, writer = await served.connect()
        await served.get("/health")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /jmx HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(WAIT_SECONDS):
            while served.endpoint._connections:
                await asyncio.sleep(0.01)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(20_000_000), WAIT_SECONDS)
        writer.close()

    monkeypatch.setattr(metrics_endpoint, "SEND_SECONDS", 0.1)
    check(test)


def test_idle_connections_are_limited_and_end_with_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(served: Served) -> None:
        idle = [await served.connect() for _ in range(MAX_CONNECTIONS)]
        assert await served.get("/health") == (0, "")
        idle[0][1].close()
        while (await served.get("/health"))[0] != 200:
            await asyncio.sleep(0.01)
        served.endpoint.close()
        for reader, writer in idle[1:]:
            assert await served.receive(reader, writer) == (0, "")
        with pytest.raises(ConnectionRefusedError):
            await served.connect()

    monkeypatch.setattr(metrics_endpoint, "RECEIVE_SECONDS", 10 * WAIT_SECONDS)
    check(test)


def test_a_gauge_that_fails_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> int:
        raise RuntimeError("no such figure")

    async def test(served: Served) -> None:
        served.registry.register_gauge("kafka.server:type=KafkaServer,name=BrokerState", fail)
        assert (await served.get("/metrics"))[0] == 500
        assert (await served.get("/health"))[0] == 200

    check(test)
    assert "no such figure" in caplog.text


def test_without_the_library_the_port_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "levada.node.prometheus", raising=False)
    monkeypatch.delattr("levada.node.prometheus", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    endpoint = MetricsEndpoint(Registry(), lambda: True)
    with pytest.raises(ConfigError, match=r"levada\[metrics\]"):
        run(endpoint.start(RealNet(), "127.0.0.1", 0))


def test_a_node_does_not_load_the_library() -> None:
    code = "import sys, levada.node, levada.node.metrics_endpoint; sys.exit('prometheus_client' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(filter(None, sys.path))}, check=True)
