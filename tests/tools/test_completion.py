"""`levada completion`, by the shells themselves where they are installed."""

import shutil
import subprocess

import pytest

from levada.cli.tools import TOOLS
from tests.tools.running import run_ours


def printed(shell: str) -> str:
    ran = run_ours(["completion", shell])
    assert (ran.code, ran.err) == (0, "")
    return ran.out


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    script = (
        f"{printed('bash')}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _levada;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_tools_flags_subcommands_and_choices() -> None:
    assert completed("levada", "top") == ["topics"]
    assert set(completed("levada", "")) == set(TOOLS)
    assert completed("levada", "kafka-consumer-g") == ["kafka-consumer-groups.sh"]
    assert completed("levada", "topics", "--creat") == ["--create"]
    assert completed("levada", "kafka-topics.sh", "--creat") == ["--create"]
    assert completed("levada", "transactions", "find") == ["find-hanging"]
    assert completed("levada", "metrics", "--report-format", "t") == ["tsv"]
    assert completed("levada", "completion", "z") == ["zsh"]
    assert completed("levada", "nonsense", "--x") == []


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_the_shell_can_read_it(shell: str, check: str) -> None:
    text = printed(shell)
    assert all(tool in text for tool in TOOLS)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so it did not read its completion")
    done = subprocess.run([shell, check], input=text, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_one_line() -> None:
    ran = run_ours(["completion", "tcsh"])
    assert ran.code == 2
    assert "choose from" in ran.err
    assert ran.err.count("\n") == 1
