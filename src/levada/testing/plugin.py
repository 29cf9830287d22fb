"""The fixtures, found by pytest through the entry point `levada`. Until one is used, nothing else is loaded."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from levada.testing.embedded import EmbeddedBroker
    from levada.testing.embedded_cluster import EmbeddedCluster

MARK = "levada"

MakeBroker: TypeAlias = "Callable[..., EmbeddedBroker]"
MakeCluster: TypeAlias = "Callable[..., EmbeddedCluster]"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(settings=None, /, **keywords): broker settings for the `levada_broker` of a test, by their dotted "
        "names in a mapping or as keywords with underscores.",
    )


@pytest.fixture(scope="session")
def levada_settings() -> Mapping[str, object]:
    """Settings of every broker that the fixtures start; to be overridden in a conftest.py."""
    return {}


@pytest.fixture
def levada_broker(request: pytest.FixtureRequest, levada_settings: Mapping[str, object]) -> "Iterator[EmbeddedBroker]":
    """A fresh broker for one test, with the settings of its `levada` marks."""
    from levada.testing.embedded import EmbeddedBroker
    from levada.testing.settings import dotted

    settings = dotted(levada_settings, {})
    for mark in reversed(list(request.node.iter_markers(MARK))):
        # The nearest comes last and wins.
        settings.update(dotted(mark.args[0] if mark.args else None, mark.kwargs))
    with EmbeddedBroker(settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def levada_broker_session(levada_settings: Mapping[str, object]) -> "Iterator[EmbeddedBroker]":
    """One broker for all tests of this process that ask for it: give each test topics and groups of its own."""
    from levada.testing.embedded import EmbeddedBroker

    with EmbeddedBroker(levada_settings) as broker:
        yield broker


@pytest.fixture
def make_levada_broker(levada_settings: Mapping[str, object]) -> "Iterator[MakeBroker]":
    """Starts as many brokers as a test calls it for, each with settings of its own; all stop with the test."""
    from levada.testing.embedded import EmbeddedBroker
    from levada.testing.settings import dotted

    with ExitStack() as brokers:

        def make(settings: Mapping[str, object] | None = None, /, **keywords: object) -> EmbeddedBroker:
            wanted = {**dotted(levada_settings, {}), **dotted(settings, keywords)}
            return brokers.enter_context(EmbeddedBroker(wanted))

        yield make


@pytest.fixture
def levada_cluster(levada_settings: Mapping[str, object]) -> "Iterator[MakeCluster]":
    """Starts clusters, `levada_cluster(brokers=3)`, each with settings of its own; all stop with the test."""
    from levada.testing.embedded_cluster import EmbeddedCluster
    from levada.testing.settings import dotted

    with ExitStack() as clusters:

        def make(brokers: int = 3, settings: Mapping[str, object] | None = None, **keywords: object) -> EmbeddedCluster:
            wanted = {**dotted(levada_settings, {}), **dotted(settings, keywords)}
            return clusters.enter_context(EmbeddedCluster(brokers, wanted))

        yield make
