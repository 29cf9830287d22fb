"""`make demo`: a broker, a shop that makes events up, a pipeline of three hops, and a check in batch at the end.

The shop is open while the pipeline still starts, as shops are.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from examples.shop.checking import Finding
from examples.shop.events import RAW_TOPICS, Shop
from examples.shop.flows import ALERTS, CLEAN, DEAD_LETTERS, LOYALTY, PAID, PARTITIONS, REVENUE
from examples.shop.pipeline import HOPS
from examples.shop.producing import Generator
from examples.shop.watching import Watch
from levada import Admin, Consumer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition

ROOT = Path(__file__).parents[2]
TOPICS = (*RAW_TOPICS, *CLEAN.values(), PAID, LOYALTY, REVENUE, ALERTS, DEAD_LETTERS)
TRIGGER = "2s"
WARM_UP_SECONDS = 60.0
ALLOWED_SECONDS = 5.0
"""So far behind its input a query may be when it has warmed up."""
FOR_SMALL_BATCHES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Spark compiles Java for each query, again and again: that pays for millions of rows, not for some hundred."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java that lives for two minutes spends more on compiling well than it gains."""
START_SECONDS = 120.0
DRAIN_SECONDS = 300.0
STOP_SECONDS = 60.0
BEGAN = time.monotonic()


class Place(NamedTuple):
    """Of a record."""

    topic: str
    partition: int
    offset: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.25, help="how long the shop is open (default 1.25)")
    parser.add_argument("--rate", type=float, default=400.0, help="events a second, payments not counted (default 400)")
    parser.add_argument("--seed", type=int, default=1, help="another one makes other events up")
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="where the picture goes")
    arguments = parser.parse_args()
    if arguments.minutes <= 0 or arguments.rate <= 0:
        parser.error("--minutes and --rate must be more than 0")
    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JAVA)
    with tempfile.TemporaryDirectory(prefix="levada-demo-") as name, broker(Path(name)) as bootstrap:
        code = run(Path(name), bootstrap, arguments)
    say("done")
    return code


def run(directory: Path, bootstrap: str, arguments: argparse.Namespace) -> int:
    shop = Shop(arguments.seed)
    database, checkpoint = directory / "customers.db", directory / "checkpoint"
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS) for topic in TOPICS]).raise_any()
        watch = Watch(admin, TOPICS, PARTITIONS, checkpoint, BEGAN)
        say(f"the shop opens: {arguments.rate:g} events a second for {arguments.minutes * 60:g} s; Spark starts")
        generator = Generator(bootstrap, shop, seconds=arguments.minutes * 60, rate=arguments.rate)
        watch.mark("shop opens")
        generator.start()
        with pipeline(directory, checkpoint, bootstrap, database) as process:
            watch.mark("pipeline runs")
            seconds = arguments.minutes * 60 + START_SECONDS
            watch.until(lambda: generator.is_done or process.poll() is not None, seconds)
            generator.finish()
            watch.mark("shop closes")
            say(f"the shop is closed: {shop.books.sent.total()} records in {len(RAW_TOPICS)} topics; draining")
            for hop in HOPS:
                if not watch.until(partial(watch.is_drained, hop), DRAIN_SECONDS, "draining  "):
                    lags = ", ".join(f"{query} {watch.history.meter.lag(query)}" for hop in HOPS for query in hop)
                    raise SystemExit(f"the pipeline did not get through in {DRAIN_SECONDS:g} s; lags: {lags}")
            watch.sample()
    return check(bootstrap, database, shop, watch, arguments.picture)


def check(bootstrap: str, database: Path, shop: Shop, watch: Watch, picture: Path) -> int:
    from examples.shop.checking import check_all
    from examples.shop.picture import draw
    from levada.spark import origins, session

    say("computing everything again in one batch, and comparing")
    spark = session(bootstrap=bootstrap, settings=FOR_SMALL_BATCHES)
    findings = check_all(spark, database, shop.books)
    for finding in findings:
        mark = "ok  " if finding.agrees else "DIFF"
        print(f"   {mark} {finding.name:34} {finding.text if finding.agrees else ''}")
        if not finding.agrees:
            print(finding.text)
    place = last_record(bootstrap, LOYALTY)
    print(f"\n   where the last points came from ({place.topic}-{place.partition}, offset {place.offset}):")
    lines = str(origins(place.topic, place.partition, place.offset, bootstrap=bootstrap)).splitlines()
    print("\n".join(f"     {line}" for line in lines[:12]))
    spark.stop()
    draw(watch.history, picture)
    _, said = kept_up(watch)
    summarize(shop, said, picture, findings)
    # A machine that has other things to do is slow, and no less right.
    return 0 if all(finding.agrees for finding in findings) else 1


def kept_up(watch: Watch) -> tuple[bool, str]:
    """Whether no query fell behind its input once it was warm, and what to say of it."""
    marks = watch.history.marks
    warm = marks["shop opens"] + WARM_UP_SECONDS
    if warm >= marks["shop closes"]:
        return True, f"kept up? It was open for less than the {WARM_UP_SECONDS:g} s that queries get to warm up"
    query, seconds = watch.most_behind(warm, marks["shop closes"])
    if seconds < ALLOWED_SECONDS:
        return True, f"kept up: after its first minute no query was more than {seconds:.1f} s behind ({query})"
    return False, (
        f"did NOT keep up: after its first minute {query} was {seconds:.1f} s of input behind, and "
        f"{ALLOWED_SECONDS:g} s are allowed: is the machine busy, or slower than two idle cores? A lower RATE may do"
    )


def summarize(shop: Shop, kept_up: str, picture: Path, findings: Sequence[Finding]) -> None:
    """What this has shown, in five lines."""
    agreed = sum(finding.agrees for finding in findings)
    sent, refused = shop.books.sent.total(), shop.books.refused.total()
    say("what this has shown")
    print(f"   nothing lost: of {sent} records each is in the results, or is one of {refused} dead letters, once")
    print(f"   right: {agreed} of {len(findings)} results of the streams are what one batch over everything computes")
    print("   exactly once: three hops, each micro-batch visible as a whole, with nothing but pip behind it")
    print(f"   {kept_up}")
    print(f"   traceable: each output leads back to its inputs, as above; throughput and lag over time: {picture}")


def last_record(bootstrap: str, topic: str) -> Place:
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        last: Place | None = None
        while any(consumer.position(each) < ends[each] for each in partitions):
            for record in consumer.poll(1.0):
                last = Place(record.topic, record.partition, record.offset)
    if last is None:
        raise SystemExit(f"nothing was written to {topic}")
    return last


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """A broker of our own in a process; its address."""
    command = [sys.executable, "-m", "levada", "serve", "--data-dir", str(directory / "data")]
    command += ["--listen", "localhost:0"]
    with started(command, directory / "broker.log") as process:
        line = first_line(process, "levada: broker", directory / "broker.log")
        say(line)
        yield line.rpartition(" ")[2]


@contextmanager
def pipeline(directory: Path, checkpoint: Path, bootstrap: str, database: Path) -> Iterator["subprocess.Popen[str]"]:
    """`levada pipeline run`; at the end of the block it is asked to stop, and must do so in order."""
    file = Path(__file__).with_name("pipeline.py")
    command = [sys.executable, "-m", "levada", "pipeline", "run", str(file), "--bootstrap-server", bootstrap]
    command += ["--checkpoint", str(checkpoint), "--trigger", TRIGGER]
    command += [word for name, value in FOR_SMALL_BATCHES.items() for word in ("--set", f"{name}={value}")]
    log = directory / "pipeline.log"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {"DATABASE": f"sqlite:///{database}", "PYTHONPATH": paths}
    with started(command, log, environment) as process:
        say(first_line(process, "levada: running", log))
        yield process
        if process.poll() is not None:
            raise SystemExit(f"the pipeline has ended by itself:\n{log.read_text()[-3000:]}")
    if process.returncode != 0:
        raise SystemExit(f"the pipeline ended with {process.returncode}:\n{log.read_text()[-3000:]}")


@contextmanager
def started(
    command: list[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process whose first line is awaited and whose other words go to a file; ended with SIGTERM."""
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **(environment or {})}
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()
            process.wait()


def first_line(process: "subprocess.Popen[str]", expected: str, log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(expected):
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return line.strip()
    raise SystemExit(f"{expected!r} was never said:\n{log.read_text()[-3000:]}")


def say(text: str) -> None:
    print(f"\n>> {time.monotonic() - BEGAN:4.0f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
