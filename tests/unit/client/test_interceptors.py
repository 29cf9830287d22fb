"""The chain of interceptors."""

import logging
from typing import Any

import pytest

from levada.client.errors import ConfigurationError
from levada.client.interceptors import Interceptors

SEEN: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


class Noting:
    def __init__(self, name: str = "made") -> None:
        self.name = name

    def configure(self, options: object) -> None:
        SEEN.append((self.name, "configure", options))

    def on_send(self, record: str) -> str:
        return record + self.name

    def on_acknowledgement(self, metadata: object, error: BaseException | None) -> None:
        SEEN.append((self.name, metadata, error))

    def on_consume(self, records: list[str]) -> list[str]:
        return [*records, self.name]

    def on_commit(self, offsets: object) -> None:
        SEEN.append((self.name, offsets))

    def close(self) -> None:
        SEEN.append((self.name, "close"))


class Failing:
    """Every call of it fails."""

    def __getattr__(self, name: str) -> Any:
        def fail(*arguments: object) -> None:
            raise RuntimeError(f"no {name}")

        return fail


class Silent:
    """Has none of the methods."""


def test_interceptors_are_called_in_the_order_given() -> None:
    chain = Interceptors([Noting("a"), Noting("b")], "options")
    assert chain.on_send("record-") == "record-ab"
    assert chain.on_consume([]) == ["a", "b"]
    chain.on_acknowledgement("metadata", None)
    chain.on_commit({"orders": 1})
    chain.close()
    calls = [("configure", "options"), ("metadata", None), ({"orders": 1},), ("close",)]
    assert [(name, *call) for call in calls for name in "ab"] == SEEN


def test_a_failure_is_logged_by_name_and_the_next_gets_the_last_good_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "levada.client"):
        chain = Interceptors([Noting("a"), Failing(), Noting("b")])
        assert chain.on_send("record-") == "record-ab"
        assert chain.on_consume([]) == ["a", "b"]
        chain.on_acknowledgement(None, OSError("gone"))
        chain.on_commit({})
        chain.close()
    assert [record.name for record in caplog.records] == ["levada.client"] * 6
    calls = ["configure", "on_send", "on_consume", "on_acknowledgement", "on_commit", "close"]
    assert [record.getMessage() for record in caplog.records] == [
        f"an interceptor failed: name=Failing call={call} error=RuntimeError('no {call}')" for call in calls
    ]
    assert ("b", "close") in SEEN


def test_one_that_returns_nothing_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful:
        def on_send(self, record: str) -> None: ...

    assert Interceptors([Forgetful(), Noting("b")]).on_send("record-") == "record-b"
    assert "name=Forgetful call=on_send" in caplog.text


def test_methods_may_be_missing(caplog: pytest.LogCaptureFixture) -> None:
    chain = Interceptors([Silent(), object()])
    assert chain.on_send("record") == "record"
    assert chain.on_consume(["record"]) == ["record"]
    chain.on_acknowledgement(None, None)
    chain.on_commit({})
    chain.close()
    assert not caplog.records


def test_a_class_is_made_an_object_once() -> None:
    chain = Interceptors([Noting])
    assert chain.on_send("") == "made"
    assert SEEN == [("made", "configure", None)]


def test_a_class_that_cannot_be_made_is_refused() -> None:
    class Wanting:
        def __init__(self, something: object) -> None: ...

    with pytest.raises(ConfigurationError, match=r"interceptor\.classes: Wanting could not be made"):
        Interceptors([Wanting])


def test_a_chain_of_none_is_false() -> None:
    assert not Interceptors(())
    assert Interceptors([Silent()])


def test_control_c_is_not_held_up() -> None:
    class Interrupted:
        def on_send(self, record: str) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Interceptors([Interrupted()]).on_send("record")
