"""Transactions, transition by transition; the files in `transactions/` are the tests."""

from pathlib import Path

import pytest

from tests.scenarios.script import check
from tests.scenarios.transactions_player import TransactionsPlayer

FILES = sorted((Path(__file__).parent / "transactions").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_trace_is_the_one_that_is_written_down(path: Path) -> None:
    check(path, TransactionsPlayer().run)
