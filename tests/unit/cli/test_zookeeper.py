"""`levada zookeeper`: what its flags mean, and what it refuses."""

import argparse
import socket
from pathlib import Path

import pytest

from levada.cli import zookeeper
from levada.cli.kit.refusals import Refused, WrongUsage
from levada.cli.zookeeper import configuration, parse_ensemble, server_of

ENSEMBLE = "1=h1:2888:3888,2=h2:2888:3888,3=[::1]:2889:3889"


def given(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    zookeeper.add_arguments(parser)
    return parser.parse_args(flags)


def settings(*flags: str) -> dict[str, str]:
    lines = configuration(server_of(given(*flags))).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_server_that_is_alone_listens_on_this_machine() -> None:
    alone = settings("--data-dir", "/data", "--port", "2182")
    assert (alone["dataDir"], alone["clientPort"], alone["clientPortAddress"]) == ("/data", "2182", "localhost")
    assert not any(key.startswith("server.") for key in alone)
    assert int(alone["minSessionTimeout"]) <= 2_000 <= int(alone["maxSessionTimeout"])


def test_a_server_of_an_ensemble_knows_the_others_and_is_reached_by_all() -> None:
    one = settings("--data-dir", "/data", "--server-id", "2", "--ensemble", ENSEMBLE)
    assert [one[f"server.{number}"] for number in (1, 2, 3)] == ["h1:2888:3888", "h2:2888:3888", "[::1]:2889:3889"]
    assert "clientPortAddress" not in one


@pytest.mark.parametrize(
    "text",
    ["", "h1:2888:3888", "1=h1:2888", "1=h1", "x=h1:1:2", "1=h1:0:3888", "1=h1:2888:65536", "0=h1:1:2", "256=h1:1:2",
     "1=h1:1:2,1=h2:1:2", "1=h1:1:2,", "1=::1:1:2"],
)  # fmt: skip
def test_what_is_no_ensemble_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match="--ensemble wants"):
        parse_ensemble(text)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--server-id", "1"), "go together"),
        (("--ensemble", ENSEMBLE), "go together"),
        (("--server-id", "4", "--ensemble", ENSEMBLE), "does not name --server-id 4"),
        (("--port", "0"), "--port 0 is no port"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags: tuple[str, ...], why: str) -> None:
    with pytest.raises(WrongUsage, match=why):
        server_of(given("--data-dir", "/data", *flags))


def test_a_directory_of_another_server_is_refused(tmp_path: Path) -> None:
    (tmp_path / "myid").write_text("2\n")
    with pytest.raises(Refused, match=r"belongs to server 2; start it with that id or use another --data-dir"):
        zookeeper.run(given("--data-dir", str(tmp_path), "--server-id", "1", "--ensemble", ENSEMBLE))


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=f"cannot listen on localhost:{port}: "):
            zookeeper.run(given("--data-dir", str(tmp_path), "--port", str(port)))
