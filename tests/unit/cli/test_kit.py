"""What tools share: files, connections, the terminal."""

import argparse
import doctest
import io
from pathlib import Path

import pytest

from levada.cli import tools
from levada.cli.doctor import machine
from levada.cli.kit import terminal, topic_filter
from levada.cli.kit.connecting import add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.files import read_json, read_properties
from levada.cli.kit.refusals import Refused
from levada.cli.kit.terminal import ProgressBar, paint
from levada.cli.kit.topic_filter import TopicFilter


@pytest.mark.parametrize("module", [terminal, topic_filter, tools, machine])
def test_examples(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted
    assert not result.failed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("lag", "red", io.StringIO()) == "lag"
    assert paint("lag", "red", Terminal()) == "\x1b[31mlag\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("lag", "red", Terminal()) == "lag"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint("lag", "red", Terminal()) == "lag"


def test_progress_is_for_terminals_only_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN", 0.0)
    silent, shown = io.StringIO(), Terminal()
    for stream in (silent, shown):
        bar = ProgressBar("sending", 4, stream)
        bar.advance()
        bar.to(3)
        bar.close()
    assert silent.getvalue() == ""
    assert "25% 1/4" in shown.getvalue()
    assert "75% 3/4" in shown.getvalue()
    assert shown.getvalue().endswith("\r")


def test_a_filter_is_an_expression_or_a_list() -> None:
    assert [name for name in ("a", "b", "ab", "c") if TopicFilter(" 'a, b' ").allows(name)] == ["a", "b"]
    assert TopicFilter(".*").allows("__consumer_offsets")
    assert not TopicFilter(".*").allows("__consumer_offsets", exclude_internal=True)
    with pytest.raises(Refused, match="invalid regex"):
        TopicFilter("*")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"cannot read --path .*: No such file"):
        read_json(tmp_path / "none.json", "--path")
    broken = tmp_path / "broken.json"
    broken.write_text('{"version": 1,\n?}')
    with pytest.raises(Refused, match=r"--path .*broken\.json is not JSON: .*line 2 column 1"):
        read_json(broken, "--path")
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="not UTF-8"):
        read_properties(broken, "--path")


def test_settings_come_from_the_file_and_flags_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=file\nacks=1\nbootstrap.servers=elsewhere:1\nlinger.mss=1\n")
    parser = argparse.ArgumentParser()
    add_connection(parser)
    arguments = parser.parse_args(["--command-config", str(path), "--command-property", "client.id=flag"])
    given = given_settings(arguments)
    assert settings_for("admin", given) == {"client.id": "flag"}
    assert "no client has a setting 'linger.mss'" in capsys.readouterr().err
    assert settings_for("producer", given) == {"client.id": "flag", "acks": "1"}
    assert arguments.bootstrap_server == "localhost:9092"


def test_a_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(Refused, match=r"localhost:1 refused the connection: .*; 127\.0\.0\.1:2 refused"):
        check_reachable("localhost:1,127.0.0.1:2")
