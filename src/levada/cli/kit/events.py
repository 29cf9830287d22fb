"""Events as lines of JSON, for programs that watch a tool."""

import json
import sys
import time
from typing import Any


def print_event(name: str, **fields: Any) -> None:
    """One line, at once: who watches must not wait for a buffer to fill."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    # One write, so that an interrupt finds either the whole line or none of it.
    sys.stdout.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n")
    sys.stdout.flush()
