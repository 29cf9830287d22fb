"""Classic groups, transition by transition; the files in `classic/` are the tests."""

from pathlib import Path

import pytest

from tests.scenarios.classic_player import ClassicPlayer
from tests.scenarios.script import check

FILES = sorted((Path(__file__).parent / "classic").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_trace_is_the_one_that_is_written_down(path: Path) -> None:
    check(path, ClassicPlayer().run)
