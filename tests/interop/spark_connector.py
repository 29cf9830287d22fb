"""Spark's own Kafka connector, from Maven Central."""

import shutil
import subprocess
from pathlib import Path

DIRECTORY = Path(__file__).parent / "spark"


def jars() -> list[Path]:
    """Those of the connector, fetched if they are not here; empty without Maven or without its repository."""
    built = DIRECTORY / "build" / "jars"
    if not built.is_dir():
        if shutil.which("mvn") is None:
            return []
        fetched = DIRECTORY / "build" / "fetched"
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        done = subprocess.run(command, cwd=DIRECTORY, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            print(f"Maven could not fetch Spark's Kafka connector:\n{done.stdout[-2000:]}")
            return []
        # Moved when it is complete: what an interrupted run has left behind is not taken for all of it.
        fetched.rename(built)
    return sorted(built.glob("*.jar"))
