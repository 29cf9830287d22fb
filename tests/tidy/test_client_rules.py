"""The rules of the house for the clients."""

import ast
from pathlib import Path

import pytest

from levada.client.options.admin_keys import ADMIN_KEYS
from levada.client.options.consumer_keys import CONSUMER_KEYS
from levada.client.options.meanings import MEANINGS
from levada.client.options.producer_keys import PRODUCER_KEYS

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "src" / "levada" / "client"
PURE = [
    *sorted((CLIENT / "options").glob("*.py")),
    *(CLIENT / f"{name}.py" for name in ("errors", "error_texts", "serializers", "partitioners", "interceptors")),
]
OUTSIDE = {"asyncio", "socket", "threading", "time", "random", "os"}


def test_every_key_is_on_the_page_of_the_clients() -> None:
    documented = (ROOT / "docs" / "clients-configuration.md").read_text()
    for key in (*PRODUCER_KEYS, *CONSUMER_KEYS, *ADMIN_KEYS):
        assert f"| `{key.name}` |" in documented, key.name


def test_a_meaning_is_a_sentence() -> None:
    for meaning in MEANINGS.values():
        assert meaning.endswith("."), meaning


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_what_is_pure_in_the_clients_sees_no_outside(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not {name.partition(".")[0] for name in names} & OUTSIDE, path
