"""What a session refuses before Spark is asked."""

import socket

import pytest

from levada.spark import sessions
from levada.spark.pipeline import PipelineError, PipelineOptions, check_file, run_file
from levada.spark.sessions import NoConnectServer, check_server, session


def test_a_connect_server_that_is_not_there_is_missed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in sessions.PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        with pytest.raises(NoConnectServer, match=f"no Spark Connect server at 127.0.0.1:{port}: Connection refused"):
            session(f"sc://127.0.0.1:{port}")
        monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
        check_server(f"sc://127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["sc://", "sc://:15002", "sc://host:many", "sc://host:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(NoConnectServer, match="give one as sc://host:15002"):
        check_server(address)


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CONNECT_PACKAGES", ("grpc", "grpc_not_there"))
    with pytest.raises(NoConnectServer, match=r"needs grpc_not_there: pip install 'pyspark\[connect\]'"):
        check_server("sc://localhost")


@pytest.mark.parametrize("command", [check_file, run_file])
def test_a_pipeline_over_connect_is_refused(command: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    options = PipelineOptions(tmp_path_factory.mktemp("none") / "p.yaml", master="sc://localhost")
    assert callable(command)
    with pytest.raises(PipelineError, match="name a master such as spark://host:7077, or none"):
        command(options)
