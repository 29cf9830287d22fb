"""The blocking clients have all that the asyncio ones have."""

import inspect
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import levada
from levada import aio

ROOT = Path(__file__).parents[3]
INSIDE = {
    "new_front",
    "try_put",
    "put",
    "prepare",
    "bulk",
    "rows",
    "wait_for_room",
    "now_ms",
    "commit_or_abort",
    "abort_after",
    "forked",
}
"""What the blocking producer uses of the other."""


@pytest.mark.parametrize("name", levada.CLIENTS)
def test_every_public_method_is_there(name: str) -> None:
    wanted = {method for method, _ in inspect.getmembers(getattr(aio, name), callable) if not method.startswith("_")}
    assert wanted - INSIDE <= set(dir(getattr(levada, name)))


@pytest.mark.parametrize("name", levada.CLIENTS)
def test_every_public_method_says_what_it_does(name: str) -> None:
    for method, function in inspect.getmembers(getattr(levada, name), inspect.isfunction):
        assert method.startswith("_") or inspect.getdoc(function) or method in WITHOUT_WORDS, method


WITHOUT_WORDS = {"begin_transaction", "assignment", "resume", "paused"}
"""What their names say is all there is to say."""


def test_the_package_has_what_the_clients_take_and_give() -> None:
    assert sorted(aio.__all__) == sorted(levada.__all__)
    for name in levada.__all__:
        is_shared = getattr(levada, name) is getattr(aio, name)
        assert is_shared is (name not in levada.CLIENTS), name
    assert levada.TopicPartition("orders", 0) == ("orders", 0)
    assert levada.NewTopic("orders", 3).name == "orders"


def test_the_package_says_its_version() -> None:
    assert levada.__version__ == version("levada")
    with pytest.raises(AttributeError, match="no attribute 'Prducer'"):
        _ = levada.Prducer


def test_importing_the_package_loads_no_client_and_does_not_look_up_its_version() -> None:
    code = (
        "import sys, levada; "
        "print(sorted(n for n in sys.modules if n in ('asyncio', 'importlib.metadata') or n.startswith('levada.')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    assert ran.stdout.strip() == "[]"


def test_the_version_is_written_in_one_place() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert levada.__version__ == written
    quoted = re.compile(rf"[\"']{re.escape(written)}[\"']")
    assert [path for path in (ROOT / "src").rglob("*.py") if quoted.search(path.read_text())] == []
