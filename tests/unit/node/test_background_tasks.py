"""A node does not go on without the tasks that it needs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levada.node.cleaning import LogCleaning
from levada.node.controller_loop import ControllerLoop
from levada.node.directory_watch import DirectoryWatch
from levada.node.membership import ClusterMembership
from levada.node.metadata_tail import MetadataTail
from levada.node.upkeep import Upkeep
from tests.nodes import running_node

FAULT = "a fault of our own"
PATIENCE_SECONDS = 20


@pytest.mark.parametrize(
    ("owner", "method", "name"),
    [
        (MetadataTail, "catch_up", "reading of the metadata log"),
        (ControllerLoop, "_write", "controller"),
        (ClusterMembership, "beat", "heartbeat"),
        (Upkeep, "tick", "upkeep of logs"),
        (LogCleaning, "begin_due", "choice of logs to clean"),
        (DirectoryWatch, "_report", "watch of log directories"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_node_whose_task_died_says_that_it_cannot_go_on_and_stops_cleanly(
    owner: type, method: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError(FAULT)

    async def main() -> str:
        settings = {"broker.heartbeat.interval.ms": "20", "log.cleaner.backoff.ms": "20"}
        async with running_node(tmp_path, settings) as node:
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            reasons: asyncio.Queue[str] = asyncio.Queue()
            node.node.on_fatal = reasons.put_nowait
            monkeypatch.setattr(owner, method, fail)
            creating = asyncio.ensure_future(node.create("t")) if owner is ControllerLoop else None
            reason = await reasons.get()
            if creating is not None:
                with pytest.raises(AssertionError, match="error_code=7"):
                    await creating
            return reason

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS)) == f"its {name} failed: RuntimeError('{FAULT}')"
    assert (tmp_path / ".kafka_cleanshutdown").exists()
