"""`levada metrics` against a real endpoint."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from levada.cli.main import main
from levada.cli.metrics import java_date
from levada.model.metrics import Meter, Registry
from levada.node.metrics_endpoint import MetricsEndpoint
from levada.world.real_net import RealNet

BYTES_IN = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
STATE = "kafka.server:type=KafkaServer,name=BrokerState"


class Broker:
    """An endpoint on a loop of its own, as another process would have it."""

    def __init__(self) -> None:
        self.meter = Meter(0)
        self._registry = Registry()
        self._registry.register(BYTES_IN, self.meter)
        self._registry.register(f"{BYTES_IN},topic=orders", Meter(0))
        self._registry.register_gauge(STATE, lambda: 3)
        self._endpoint = MetricsEndpoint(self._registry, lambda: True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        start = self._endpoint.start(RealNet(), "127.0.0.1", 0)
        asyncio.run_coroutine_threadsafe(start, self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._endpoint.port}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._endpoint.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


def test_a_row_of_numbers_under_a_header(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.meter.count = 12
    before_ms = time.time() * 1_000
    wanted = ["--object-name", BYTES_IN, "--object-name", STATE, "--attributes", "Count,Value,OneMinuteRate"]
    assert main(["metrics", "--url", broker.url, *wanted, "--one-time"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header == f'"time","{BYTES_IN}:Count","{BYTES_IN}:OneMinuteRate","{STATE}:Value"'
    now_ms, *values = row.split(",")
    assert values == ["12", "0.0", "3"]
    assert before_ms - 1 <= int(now_ms) <= time.time() * 1_000


def test_patterns_and_no_name_at_all(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    once = ["--attributes", "Count", "--one-time", "true"]
    assert main(["metrics", "--url", broker.url, "--object-name", f"{BYTES_IN},*", *once]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f'"time","{BYTES_IN},topic=orders:Count","{BYTES_IN}:Count"'
    assert main(["metrics", "--url", broker.url.removeprefix("http://"), "--reporting-interval", "-1"]) == 0
    assert len(capsys.readouterr().out.splitlines()[0].split('","')) == 1 + 5 + 5 + 1


@pytest.mark.parametrize(
    ("report_format", "line"),
    [("csv", f'{STATE}:Value,"3"'), ("tsv", f"{STATE}:Value\t3"), ("properties", f"{STATE}:Value=3")],
)
def test_other_formats_have_a_line_for_each_value(
    broker: Broker, capsys: pytest.CaptureFixture[str], report_format: str, line: str
) -> None:
    arguments = ["--object-name", STATE, "--one-time", "--report-format", report_format, "--date-format", "'T'"]
    assert main(["metrics", "--url", broker.url, *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == [line.replace(f"{STATE}:Value", "time").replace("3", "T"), line]


def test_rows_go_on_at_the_interval(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        broker.meter.count += 1
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("levada.cli.metrics.time.sleep", sleep)
    wanted = ["--object-name", BYTES_IN, "--attributes", "Count", "--reporting-interval", "700"]
    assert main(["metrics", "--url", broker.url, *wanted]) == 130
    assert [row.split(",")[1] for row in capsys.readouterr().out.splitlines()[1:]] == ["0", "1", "2"]
    assert all(0 <= seconds <= 0.7 for seconds in slept)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--object-name", f"{BYTES_IN}x"], f"no MBean fits '{BYTES_IN}x'; did you mean {BYTES_IN}?"),
        (["--object-name", f"{BYTES_IN},topic=order"], f"did you mean {BYTES_IN},topic=orders?"),
        (["--object-name", STATE, "--attributes", "Valu"], "no MBean has an attribute 'Valu'; there are Value"),
    ],
)
def test_an_unknown_name_is_one_line(
    broker: Broker, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["metrics", "--url", broker.url, "--one-time", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("levada: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_what_cannot_be_reached_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        for wrong in (url, "https://localhost:1", "http://", "http://localhost:port"):
            assert main(["metrics", "--url", wrong, "--one-time"]) == 1
            said = capsys.readouterr().err
            assert said.startswith("levada: ")
            assert wrong in said
            assert said.count("\n") == 1


def test_dates_are_written_as_java_does() -> None:
    moment = datetime(2026, 3, 7, 15, 4, 5, 67_890, tzinfo=UTC)
    assert java_date("yyyy-MM-dd'T'HH:mm:ss.SSSZ", moment) == "2026-03-07T15:04:05.067+0000"
    assert java_date("hh 'o''clock' a", moment) == "03 o'clock PM"
    assert java_date("''yy''", moment) == "'26'"
    with pytest.raises(ValueError, match="'Q'"):
        java_date("Q", moment)
    with pytest.raises(SystemExit) as refused:
        main(["metrics", "--url", "x", "--date-format", "Q"])
    assert refused.value.code == 2
