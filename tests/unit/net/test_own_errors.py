"""Errors of our own close one connection, and are told with all that helps to find them."""

import asyncio
import logging

import pytest

from levada.net.connection import ServerConnection
from levada.net.reply import CloseConnection, Reply
from tests.unit.net.serving import Server, framed


async def _fail_later(error: Exception) -> Reply:
    await asyncio.sleep(0)
    raise error


async def _closed_by(error: Exception, *, at_once: bool) -> bool:
    def dispatch(frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        if at_once:
            raise error
        return asyncio.ensure_future(_fail_later(error))

    async with Server(dispatch) as server:
        reader, writer = await server.connect()
        writer.write(framed(b"question"))
        is_closed = await reader.read() == b""
        writer.close()
        return is_closed


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_an_error_of_our_own_is_told_with_its_trace(at_once: bool, caplog: pytest.LogCaptureFixture) -> None:
    assert asyncio.run(_closed_by(RuntimeError("stumbled"), at_once=at_once))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "after an error of our own" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "stumbled"


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_fault_of_the_client_is_told_in_a_line(at_once: bool, caplog: pytest.LogCaptureFixture) -> None:
    assert asyncio.run(_closed_by(CloseConnection("it lied"), at_once=at_once))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert "it lied" in record.getMessage()
