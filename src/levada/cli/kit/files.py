"""Files that flags name: properties and JSON, with a line for what is wrong with them."""

import json
from pathlib import Path
from typing import Any

from levada.cli.kit.refusals import Refused
from levada.model.config import ConfigError
from levada.model.properties import parse_properties


def read_text(path: str | Path, flag: str) -> str:
    """Refused when it cannot be read; the flag that named it is in the line."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Refused(f"cannot read {flag} {path}: {reason}") from None


def read_properties(path: str | Path, flag: str) -> dict[str, str]:
    try:
        return parse_properties(read_text(path, flag))
    except ConfigError as error:
        raise Refused(f"cannot read {flag} {path}: {error}") from None


def read_json(path: str | Path, flag: str) -> Any:
    text = read_text(path, flag)
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refused(f"{flag} {path} is not JSON: {error}") from None
