"""`levada metrics`: prints a broker's metrics at an interval, as Apache Kafka's JmxTool does."""

import argparse
import json
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlencode, urlsplit

from levada.cli.kit.refusals import Refused
from levada.cli.kit.system_errors import in_words
from levada.model.metrics import Value, matches, split_name
from levada.model.near_names import did_you_mean, nearest

TIMEOUT_S: Final = 10.0
DEFAULT_URL: Final = "http://localhost:9999"
"""Where JmxTool looks by default, with HTTP in place of Java's protocol."""
RMI: Final = re.compile(r"service:jmx:rmi:///jndi/rmi://(?P<address>[^/]*)/.*")
NAMES_COMPARED: Final = 1_000

ROWS: Final = {"csv": '{},"{}"', "tsv": "{}\t{}", "properties": "{}={}"}

JAVA_DATE: Final = {
    "yyyy": "%Y", "yy": "%y", "YYYY": "%G", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "EEE": "%a",
    "EEEE": "%A", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "a": "%p", "z": "%Z", "Z": "%z",
}  # fmt: skip
"""Letters of Java's SimpleDateFormat, and strftime's for the same."""

JAVA_TOKEN: Final = re.compile(r"'(?P<text>(?:[^']|'')*)'|(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<other>.)")

Beans = Mapping[str, Mapping[str, Value]]
"""Attributes by the MBean's name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", "--jmx-url", metavar="URL", default=DEFAULT_URL, type=_http_url,
        help=f"http://HOST:PORT of levada.metrics.port, or what JmxTool was given (default {DEFAULT_URL})",
    )  # fmt: skip
    parser.add_argument(
        "--object-name", metavar="NAME", action="append", default=[],
        help="an MBean, also with * and ?; may be given several times (default all)",
    )  # fmt: skip
    parser.add_argument("--attributes", metavar="A,B", type=_names, help="only these attributes (default all)")
    parser.add_argument(
        "--reporting-interval", metavar="MS", type=int, default=2_000, help="default 2000; below 0 prints once"
    )
    parser.add_argument("--one-time", nargs="?", const="true", metavar="true", help="print once")
    parser.add_argument("--report-format", choices=("original", *ROWS), default="original", help="default original")
    parser.add_argument("--date-format", metavar="FORMAT", type=_date_format, help="of the time, as in Java: HH:mm:ss")


def run(arguments: argparse.Namespace) -> int:
    _report(arguments)
    return 0


def _report(arguments: argparse.Namespace) -> None:
    url, patterns = arguments.url, arguments.object_name
    beans = fetch(url, patterns)
    for pattern in patterns:
        if not any(matches(pattern, name) for name in beans):
            raise Refused(_unknown_name(pattern, fetch(url, [])))
    values = _values(beans, arguments.attributes)
    # Rows have the columns of the first one: what appears later is not in them, as with JmxTool.
    columns = ["time", *sorted(values)]
    if arguments.report_format == "original":
        print(",".join(f'"{column}"' for column in columns), flush=True)
    is_one_time = arguments.one_time is not None or arguments.reporting_interval < 0
    while True:
        started = time.monotonic()
        row = {**values, "time": _now(arguments.date_format)}
        if all(column in row for column in columns):
            print(_row(arguments.report_format, columns, row), flush=True)
        if is_one_time:
            return
        time.sleep(max(0.0, arguments.reporting_interval / 1_000 - (time.monotonic() - started)))
        values = _values(fetch(url, patterns), arguments.attributes)


def fetch(url: str, patterns: Iterable[str]) -> Beans:
    """The MBeans that fit a pattern, or all of them."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        if parts.scheme != "http" or not parts.hostname:
            raise Refused(f"--url wants http://HOST:PORT, not {url!r}")
        connection = HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/jmx?" + urlencode([("pattern", pattern) for pattern in patterns]))
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise Refused(f"{url} answers {response.status} {response.reason}: is it a broker's metrics port?")
        beans: Beans = json.loads(body)
    except (OSError, HTTPException, ValueError) as error:
        told = in_words(error)
        raise Refused(
            f"cannot read metrics from {url}: {told}. The port is the broker's levada.metrics.port"
        ) from error
    return beans


def _values(beans: Beans, attributes: list[str] | None) -> dict[str, Value]:
    values = {
        f"{name}:{attribute}": value
        for name, shown in beans.items()
        for attribute, value in shown.items()
        if attributes is None or attribute in attributes
    }
    if beans and not values:
        known = list(dict.fromkeys(attribute for shown in beans.values() for attribute in shown))
        raise Refused(f"no MBean has an attribute {','.join(attributes or [])!r}; there are {', '.join(known)}")
    return values


def _unknown_name(pattern: str, beans: Beans) -> str:
    families: dict[str, list[str]] = {}
    for name in beans:
        families.setdefault(split_name(name)[0], []).append(name)
    # The family first: a broker of many partitions has too many names to compare all of them.
    family = nearest(split_name(pattern)[0], families)
    names = families[family][:NAMES_COMPARED] if family is not None else []
    return f"no MBean fits {pattern!r}{did_you_mean(pattern, names)}"


def _row(report_format: str, columns: list[str], row: Mapping[str, Value]) -> str:
    if report_format == "original":
        return ",".join(str(row[column]) for column in columns)
    return "\n".join(ROWS[report_format].format(column, row[column]) for column in columns)


def _now(date_format: str | None) -> str:
    if date_format is None:
        return str(time.time_ns() // 1_000_000)
    return java_date(date_format, datetime.now().astimezone())


def java_date(pattern: str, moment: datetime) -> str:
    """A moment as Java's SimpleDateFormat writes it; ValueError for letters that are not known here."""
    written = []
    for token in JAVA_TOKEN.finditer(pattern):
        letters = token["letters"]
        if letters is None:
            # Two quotes stand for one, alone and inside of others.
            written.append(token["other"] or token["text"].replace("''", "'") or "'")
        elif letters == "SSS":
            written.append(f"{moment.microsecond // 1_000:03}")
        elif letters in JAVA_DATE:
            written.append(moment.strftime(JAVA_DATE[letters]))
        else:
            raise ValueError(f"{letters!r} is not understood in a date format")
    return "".join(written)


def _date_format(text: str) -> str:
    try:
        java_date(text, datetime.now())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _http_url(text: str) -> str:
    """
    >>> _http_url("service:jmx:rmi:///jndi/rmi://:9999/jmxrmi")
    'http://localhost:9999'
    """
    found = RMI.fullmatch(text)
    if found is None:
        return text
    host, _, port = found["address"].rpartition(":")
    return f"http://{host or 'localhost'}:{port}"


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]
