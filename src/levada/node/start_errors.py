"""What keeps a node from starting, in words that say what to do about it."""

import errno
from typing import Final

NO_SUCH_HOST: Final = "there is no host {host!r}, or its name cannot be looked up; check the spelling in {key}"

LISTEN: Final = {
    errno.EADDRINUSE: "{address} is in use: another program listens there; stop it, or give another port in {key}",
    errno.EADDRNOTAVAIL: "{host} is no address of this machine; give one of its own in {key}, or 0.0.0.0 for all",
    errno.EACCES: "no permission to listen on {address}: ports below 1024 are for root; give another port in {key}",
}
DIRECTORY: Final = {
    errno.EACCES: "no permission to write to {path}; give another --data-dir, or have its owner allow it",
    errno.EPERM: "no permission to write to {path}; give another --data-dir, or have its owner allow it",
    errno.EROFS: "{path} is on a read-only file system; give another --data-dir",
    errno.EEXIST: "{path} is not a directory; give another --data-dir, or move that file away",
    errno.ENOTDIR: "{path} is not a directory, or lies below a file; give another --data-dir",
    errno.ENOSPC: "no space left for {path}; free some, or give another --data-dir",
}


class CannotStart(OSError):
    """Its text is all there is to read."""

    def __init__(self, error: OSError, text: str) -> None:
        super().__init__(error.errno, text)
        self._text = text

    def __str__(self) -> str:
        return self._text


def cannot_listen(error: OSError, host: str, port: int, key: str) -> CannotStart:
    address = f"{host or '0.0.0.0'}:{port}"
    # A resolver's errors have numbers of their own, some of which mean other things elsewhere.
    is_resolver = type(error).__name__ == "gaierror"
    text = (
        NO_SUCH_HOST if is_resolver else LISTEN.get(error.errno or 0, "cannot listen on {address}: {reason}; see {key}")
    )
    reason = error.strerror or str(error)
    return CannotStart(error, text.format(host=host, address=address, key=key, reason=reason))


def cannot_use(error: OSError, path: str) -> CannotStart:
    text = DIRECTORY.get(error.errno or 0, "cannot use {path}: {reason}; give another --data-dir")
    return CannotStart(error, text.format(path=path, reason=error.strerror or str(error)))
