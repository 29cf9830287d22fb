"""How much a piece of code does, counted so that it is the same on any machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(action: Callable[[], object]) -> int:
    """The instructions of Python that an action takes; what C code does by itself is not seen."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
