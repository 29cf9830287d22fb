"""What the operating system refuses, in words: without its numbers, and with what to do about it."""

import errno
import re
import socket
from typing import Final

_PERMISSION: Final = "have its owner allow it, or give another"
_NETWORK: Final = "check the address and the network"
_HUNG_UP: Final = "the other side has hung up: try again"

ADVICE: Final = {
    errno.ENOENT: "check the spelling of the path",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.ENOTDIR: "a part of the path is a file: give another",
    errno.EISDIR: "give the path of a file",
    errno.EEXIST: "give another path, or move that file away",
    errno.EROFS: "give a place that can be written to",
    errno.ENOSPC: "free some, or give another place",
    errno.EDQUOT: "free some, or give another place",
    errno.EIO: "the device may be failing: look at the system's log",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.EADDRINUSE: "another program listens there: stop it, or give another port",
    errno.ECONNREFUSED: "no program listens there: start it, or correct the address",
    errno.ECONNRESET: _HUNG_UP,
    errno.EPIPE: _HUNG_UP,
    errno.ETIMEDOUT: _NETWORK,
    errno.EHOSTUNREACH: _NETWORK,
    errno.ENETUNREACH: _NETWORK,
}


def in_words(error: Exception) -> str:
    """What is wrong and what to do, with the file's name if the system has told it.

    >>> in_words(FileNotFoundError(errno.ENOENT, "No such file or directory", "orders.txt"))
    'orders.txt: no such file or directory; check the spelling of the path'
    """
    if not isinstance(error, OSError) or type(error).__str__ is not OSError.__str__:
        return str(error)
    if isinstance(error, socket.gaierror):
        # A resolver's errors have numbers of their own, some of which mean other things elsewhere.
        advice = "check the spelling of the host"
    else:
        advice = ADVICE.get(error.errno or 0, "")
    named = f"{error.filename}: " if isinstance(error.filename, str) else ""
    return named + reason(error) + (f"; {advice}" if advice else "")


def reason(error: OSError) -> str:
    """What is wrong alone, for a line that says the rest.

    >>> reason(PermissionError(errno.EACCES, "Permission denied", "orders.txt"))
    'permission denied'
    """
    if error.errno == errno.EEXIST:
        return "a file is in the way"
    if error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
