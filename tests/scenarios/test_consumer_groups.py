"""Consumer groups (KIP-848), transition by transition; the files in `consumer/` are the tests."""

from pathlib import Path

import pytest

from tests.scenarios.consumer_player import ConsumerPlayer
from tests.scenarios.script import check

FILES = sorted((Path(__file__).parent / "consumer").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_trace_is_the_one_that_is_written_down(path: Path) -> None:
    check(path, ConsumerPlayer().run)
