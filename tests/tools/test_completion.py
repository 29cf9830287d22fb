"""`penstock completion`, by the shells themselves where they are installed."""

import shutil
import subprocess

import pytest

from penstock.cli.tools import TOOLS
from tests.tools.running import run_ours


def printed(shell: str) -> str:
    ran = run_ours(["completion", shell])
    assert (ran.code, ran.err) == (0, "")
    return ran.out


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    script = (
        f"{printed('bash')}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _penstock;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_tools_flags_subcommands_and_choices() -> None:
    assert completed("penstock", "top") == ["topics"]
    assert set(completed("penstock", "")) == set(TOOLS)
    assert completed("penstock", "kafka-consumer-g") == ["kafka-consumer-groups.sh"]
    assert completed("penstock", "topics", "--creat") == ["--create"]
    assert completed("penstock", "kafka-topics.sh", "--creat") == ["--create"]
    assert completed("penstock", "transactions", "find") == ["find-hanging"]
    assert completed("penstock", "metrics", "--report-format", "t") == ["tsv"]
    assert completed("penstock", "completion", "z") == ["zsh"]
    assert completed("penstock", "nonsense", "--x") == []


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
