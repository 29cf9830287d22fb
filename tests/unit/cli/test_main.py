"""The command itself: finding a tool, and the one line for what goes wrong."""

import subprocess
import sys

import pytest

from levada.cli.kit.refusals import Refused, WrongUsage, changing, guarded
from levada.cli.main import main
from levada.cli.tools import SCRIPTS, TOOLS, canonical_name
from levada.client.errors import KafkaError


def ended(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_help(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended([tool, "--help"]) == 0
    assert TOOLS[tool] in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(("script", "tool"), SCRIPTS.items())
def test_kafkas_script_names_work(script: str, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert canonical_name(script) == tool
    assert ended([script, "--help"]) == 0
    assert f"levada {tool}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "levada: which tool? (see levada --help)\n"),
        (["topic"], "levada: there is no tool 'topic'; did you mean topics? (see levada --help)\n"),
        (["kafka-topic.sh"], "levada: there is no tool 'kafka-topic.sh'; did you mean topics? (see"),
        (["xyzzy"], "levada: there is no tool 'xyzzy' (see levada --help)\n"),
        (["--nonsense"], "levada: there is no flag --nonsense (see levada --help)\n"),
        (["dump-log", "--fils", "x"], "levada: there is no flag --fils; did you mean --files? (see"),
        (["dump-log"], "levada: the following arguments are required: --files (see levada dump-log --help)\n"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(line)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("tool", ["serve", "ps", "dump-log", "metrics", "pipeline", "metadata"])
def test_a_zookeeper_flag_says_what_to_use(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended([tool, "--zookeeper", "localhost:2181"]) == 2
    assert capsys.readouterr().err == (
        "levada: --zookeeper is gone: give a broker's address with --bootstrap-server HOST:PORT\n"
    )


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("localhost:1/kafka", 1, "no server of ZooKeeper answers at localhost:1"),
        ("localhost:x", 1, "localhost:x"),
        ("", 1, "zookeeper"),
    ],
)
def test_a_zookeeper_in_which_no_brokers_are_found_is_told_in_one_line(
    address: str, code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levada.cli.kit.older_zookeeper.CONNECT_SECONDS", 0.2)
    assert ended(["topics", "--list", "--zookeeper", address]) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_a_cluster_is_not_started_on_a_zookeeper_that_is_somewhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["cluster", "--brokers", "2", "--zookeeper", "localhost:2181"]) == 2
    assert "an ensemble that is there is named by --coordinator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (Refused("no\nway"), 1, "levada: no way\n"),
        (WrongUsage("not so"), 2, "levada: not so\n"),
        (KafkaError("the broker is tired"), 1, "levada: the broker is tired\n"),
        (
            OSError(28, "No space left on device"),
            1,
            "levada: no space left on device; free some, or give another place\n",
        ),
        (KeyboardInterrupt(), 130, "levada: interrupted\n"),
    ],
)
def test_what_users_run_into_is_one_line(
    raised: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        raise raised

    assert guarded(run) == code
    assert capsys.readouterr().err == line


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: 1 // 0)


def test_an_interrupted_change_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> int:
        with changing("deleting topic orders"):
            raise KeyboardInterrupt

    assert guarded(run) == 130
    assert capsys.readouterr().err == (
        "levada: interrupted while deleting topic orders: it may or may not have been done\n"
    )


def test_a_change_that_was_made_before_an_interrupt_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> int:
        with changing("topic orders was being created"):
            pass
        raise KeyboardInterrupt

    assert guarded(run) == 130
    assert capsys.readouterr().err == "levada: interrupted after this was done: topic orders was being created\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = "from levada.cli.main import main; import sys; sys.exit(main(['--help']))"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, complaint = process.communicate(timeout=30)
    assert b"Traceback" not in complaint
