"""What the operating system refuses is told in words, without its numbers, and with what to do about it."""

import doctest
import errno
import os
import socket
from pathlib import Path

import pytest

from levada.cli.kit import system_errors
from levada.cli.kit.system_errors import ADVICE, in_words, reason
from levada.cli.main import main


def test_examples() -> None:
    result = doctest.testmod(system_errors)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("number", ADVICE, ids=lambda number: errno.errorcode[number])
def test_every_known_number_is_told_with_what_to_do(number: int) -> None:
    words = reason(OSError(number, os.strerror(number)))
    assert in_words(OSError(number, os.strerror(number))) == f"{words}; {ADVICE[number]}"
    named = OSError(number, os.strerror(number), "/some/file")
    assert in_words(named) == f"/some/file: {words}; {ADVICE[number]}"


def test_numbers_are_left_out_of_what_is_not_known() -> None:
    assert in_words(OSError(errno.EDOM, "Numerical argument out of domain")) == "numerical argument out of domain"
    assert in_words(OSError("Multiple exceptions: [Errno 111] Connect call failed")) == (
        "Multiple exceptions: Connect call failed"
    )
    assert in_words(TimeoutError("timed out")) == "timed out"
    assert in_words(TimeoutError()) == "TimeoutError"
    resolver = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert in_words(resolver) == "name or service not known; check the spelling of the host"


def test_an_error_with_a_text_of_its_own_keeps_it() -> None:
    class Explained(OSError):
        def __str__(self) -> str:
            return "port 9092 is in use: give another"

    assert in_words(Explained(errno.EADDRINUSE, "Address already in use")) == "port 9092 is in use: give another"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert "Errno" not in printed.err
    assert printed.out == ""
    return printed.err


def test_metrics_of_a_port_where_no_program_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["metrics", "--url", "http://localhost:1"], capsys) == (
        "levada: cannot read metrics from http://localhost:1: connection refused; no program listens there: start it,"
        " or correct the address. The port is the broker's levada.metrics.port\n"
    )


def test_metrics_of_a_host_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(["metrics", "--url", "http://no-such-host.invalid:1"], capsys)
    assert "; check the spelling of the host. The port is" in said


def test_scripts_in_a_directory_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for directory in (file, file / "scripts"):
        said = refused(["aliases", str(directory)], capsys)
        assert said.startswith(f"levada: cannot write scripts to {directory}: ")
        assert said.endswith("; choose another directory\n")


@pytest.mark.parametrize("daemon", [[], ["--daemon"]], ids=["here", "daemon"])
def test_a_log_file_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], daemon: list[str]
) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    file.write_text("")
    log = file / "levada.log"
    said = refused(["serve", "--data-dir", str(data), *daemon, "--log-file", str(log)], capsys)
    assert said == f"levada: cannot write the log {log}: a file is in the way; give another --log-file\n"
    assert not data.exists()


def test_a_daemons_directory_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its log would be there, which is not what the user has to change."""
    file = tmp_path / "file"
    file.write_text("")
    said = refused(["serve", "--data-dir", str(file / "data"), "--daemon"], capsys)
    assert said == (f"levada: {file / 'data'} is not a directory, or lies below a file; give another --data-dir\n")
