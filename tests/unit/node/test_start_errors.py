"""Every reason why a node does not start is one line: what is wrong where, and what to change."""

import errno
import os
import socket

import pytest

from levada.node.start_errors import DIRECTORY, LISTEN, cannot_listen, cannot_use

KEY = "listeners (--listen)"

LISTEN_LINES = {
    errno.EADDRINUSE: (
        "localhost:80 is in use: another program listens there; stop it, or give another port in listeners (--listen)"
    ),
    errno.EADDRNOTAVAIL: (
        "localhost is no address of this machine; give one of its own in listeners (--listen), or 0.0.0.0 for all"
    ),
    errno.EACCES: (
        "no permission to listen on localhost:80: ports below 1024 are for root; give another port in"
        " listeners (--listen)"
    ),
}
DIRECTORY_LINES = {
    errno.EACCES: "no permission to write to /data; give another --data-dir, or have its owner allow it",
    errno.EPERM: "no permission to write to /data; give another --data-dir, or have its owner allow it",
    errno.EROFS: "/data is on a read-only file system; give another --data-dir",
    errno.EEXIST: "/data is not a directory; give another --data-dir, or move that file away",
    errno.ENOTDIR: "/data is not a directory, or lies below a file; give another --data-dir",
    errno.ENOSPC: "no space left for /data; free some, or give another --data-dir",
}


def test_every_row_has_its_line_here() -> None:
    assert LISTEN_LINES.keys() == LISTEN.keys()
    assert DIRECTORY_LINES.keys() == DIRECTORY.keys()


@pytest.mark.parametrize("number", LISTEN_LINES, ids=lambda number: errno.errorcode[number])
def test_an_address_that_cannot_be_listened_on(number: int) -> None:
    error = cannot_listen(OSError(number, os.strerror(number)), "localhost", 80, KEY)
    assert str(error) == LISTEN_LINES[number]
    assert error.errno == number


@pytest.mark.parametrize("number", DIRECTORY_LINES, ids=lambda number: errno.errorcode[number])
def test_a_directory_that_cannot_be_used(number: int) -> None:
    error = cannot_use(OSError(number, os.strerror(number), "/data"), "/data")
    assert str(error) == DIRECTORY_LINES[number]
    assert error.errno == number


def test_a_host_that_has_no_address() -> None:
    # Its number is another error's in the table of the system.
    resolver = socket.gaierror(errno.EADDRINUSE, "Name or service not known")
    assert str(cannot_listen(resolver, "lokalhost", 9092, KEY)) == (
        "there is no host 'lokalhost', or its name cannot be looked up; check the spelling in listeners (--listen)"
    )


def test_all_addresses_have_a_name_in_the_line() -> None:
    taken = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    assert str(cannot_listen(taken, "", 9092, KEY)).startswith("0.0.0.0:9092 is in use: ")


def test_what_is_in_no_row_is_told_as_the_system_says_it() -> None:
    unknown = OSError(errno.EIO, os.strerror(errno.EIO))
    assert str(cannot_listen(unknown, "localhost", 80, KEY)) == (
        f"cannot listen on localhost:80: {os.strerror(errno.EIO)}; see {KEY}"
    )
    assert str(cannot_use(unknown, "/data")) == (f"cannot use /data: {os.strerror(errno.EIO)}; give another --data-dir")
    assert str(cannot_use(OSError("no number"), "/data")) == "cannot use /data: no number; give another --data-dir"
