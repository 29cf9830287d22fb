"""How Spark comes to know the data source: by itself, or by our session where its search fails."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.sourcing import batch, send, values

JOB = """
import sys
from levada.spark import session

spark = session(bootstrap=sys.argv[1])
topic = spark.read.format("levada").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
print("read", topic.load().count())
for _ in range(5):
    print("first", bytes(topic.load().limit(1).collect()[0].value)[:1])
spark.stop()
"""


def test_spark_finds_the_source_by_itself(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    send(bootstrap, topic, [b"found"])
    # What was registered with a session is not known to another.
    assert values(batch(spark.newSession(), bootstrap, subscribe=topic)) == [b"found"]


def test_a_broken_module_named_as_sparks_beside_the_job_does_no_harm(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Spark imports it when it looks for sources, and takes its failure for there being none."""
    topic = new_topic()
    send(bootstrap, topic, [b"1" * 500_000] * 40)
    (tmp_path / "pyspark_job.py").write_text("raise RuntimeError('a script, and nothing to be imported')\n")
    (tmp_path / "job.py").write_text(JOB)
    command = [sys.executable, "job.py", bootstrap, topic]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "read 40" in done.stdout
    assert done.stdout.count("first") == 5
    assert "Traceback" not in done.stderr, "Spark hangs up on a worker when it has the row that it wanted"
