"""Where scenarios play: a fresh broker of ours, or Apache's, wiped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from levada import Admin
from tests.brokers import BrokerProcess
from tests.tools.scenario import Stage

WAIT_SECONDS = 30.0

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
)
"""As Apache's broker has them in `tests.interop`."""


@contextmanager
def our_stage(directory: Path) -> Iterator[Stage]:
    broker = BrokerProcess(directory / "data", *SETTINGS).start()
    try:
        yield Stage(broker.bootstrap, directory)
    finally:
        code = broker.stop()
    assert code == 0
    assert "Traceback" not in broker.log, broker.log


@contextmanager
def wiped_stage(bootstrap: str, directory: Path) -> Iterator[Stage]:
    """On a broker that others used: their topics and groups are deleted first."""
    with Admin(bootstrap) as admin:
        admin.delete_groups([group.group_id for group in admin.list_groups()]).raise_any()
        topics = [name for name, topic in admin.list_topics().items() if not topic.is_internal]
        admin.delete_topics(topics).raise_any()
        wait_until(lambda: not [name for name, topic in admin.list_topics().items() if not topic.is_internal])
    yield Stage(bootstrap, directory)


def wait_until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.02)
