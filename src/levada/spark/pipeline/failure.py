"""The cause of a failed query in one line, out of Spark's long account of it."""

import re
from typing import Any, Final

from levada.spark.pipeline.problems import QueryFailed, one_line

TRACEBACK: Final = "Traceback (most recent call last):"
RAISED: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)
ENDINGS: Final = (
    " SQLSTATE: ",
    "\n\tat ",
    "\n=== Streaming Query ===",
    "\n\nJVM stacktrace:",
    "\n\n== ",
    "\n== SQL",
    "\n'",
    "\n+- ",
)
"""Where Spark goes on with what is of no use to the pipeline's user."""

CAUSED_BY: Final = re.compile(r"^Caused by: [\w.$]+: (.*)$", re.MULTILINE)
"""Java's chain of causes, where a Python error has all of it in its text."""

ERROR_CLASS: Final = re.compile(r"^\[[A-Z][A-Z0-9_.]*\]\s*")
WRAPPERS: Final = ("pyspark.", "py4j.")
PLAIN: Final = ("ValueError", "PipelineError", "OptionError", "RowsError", "WriteFailed", "RuntimeError", "Exception")
"""Types that say nothing which the message does not say."""


NO_SPACE: Final = "No space left on device"


def advice_for(failure: QueryFailed, checkpoint: str) -> str:
    """What to do where the cause says what happened only."""
    if NO_SPACE not in failure.cause:
        return ""
    return f": make room (the checkpoint is in {checkpoint}) and run it again, it goes on where it was"


def cause_of(error: BaseException | str) -> str:
    """One line: the innermost Python error if there is one, else the message of Spark's own."""
    text = error if isinstance(error, str) else str(error)
    java = [found for found in CAUSED_BY.findall(text) if found.strip()]
    if java and TRACEBACK not in java[-1]:
        return _message(java[-1])
    if TRACEBACK in text:
        return _raised(text.rpartition(TRACEBACK)[2])
    return _message(text)


def failure_of(query: Any) -> str:
    """The cause of a query that has ended with an error: the last of Java's chain that says anything."""
    texts = []
    error = query._jsq.exception().get()
    while error is not None:
        texts.append(str(error.getMessage() or ""))
        error = error.getCause()
    return cause_of(next((text for text in reversed(texts) if text), "no reason given"))


def _raised(after_traceback: str) -> str:
    """The line below the frames of a traceback: an error's type and text."""
    lines = after_traceback.splitlines()
    # Frames are indented; so are the marks below their lines.
    last_frame = max((index for index, line in enumerate(lines) if line.startswith("  ")), default=-1)
    first = next((index for index in range(last_frame + 1, len(lines)) if RAISED.match(lines[index])), None)
    if first is None:
        return _message(after_traceback)
    found = RAISED.match("\n".join(lines[first:]))
    assert found is not None
    name, message = found["type"].rpartition(".")[2], _message(found["message"] or "")
    if found["type"].startswith(WRAPPERS) or (name in PLAIN and message):
        return message
    return f"{name}: {message}" if message else name


def _message(text: str) -> str:
    kept = text.strip()
    for ending in ENDINGS:
        kept = kept.partition(ending)[0]
    return one_line(ERROR_CLASS.sub("", kept.strip()))
