"""The blocking clients have all that the asyncio ones have."""

import inspect
from importlib.metadata import version

import pytest

import levada
from levada import aio

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
