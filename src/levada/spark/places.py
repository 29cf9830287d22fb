"""Where files are kept that Spark needs and that come with the installation."""

import os
import sys
from pathlib import Path


def writable_place() -> Path:
    """Beside the installed packages, so that it goes when they go; or in the user's cache."""
    beside = Path(sys.prefix) / "share" / "levada"
    try:
        beside.mkdir(parents=True, exist_ok=True)
        if os.access(beside, os.W_OK):
            return beside
    except OSError:
        pass
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "levada"
