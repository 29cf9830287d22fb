"""What importing the package loads, and how it serves without its compiled kernel."""

import subprocess
import sys

WITHOUT_COMPILED = """
import logging, sys
sys.modules["levada.records._kernel"] = None
sys.modules["levada.records._writer"] = None

class Seen(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append((record.name, record.levelname, record.getMessage()))

logging.getLogger().addHandler(Seen())
import levada.records
import levada.records.arrow
from levada.records import COMPILED, BatchWriter, Codec, build_batch, kernel, parse_produced, pure, pure_writer, scan

assert not COMPILED
assert kernel.encode is pure.encode and scan is pure.scan and BatchWriter is pure_writer.BatchWriter
records = [(1, b"key", b"value", [("header", None)])] * 100
for codec in Codec:
    view = parse_produced(build_batch(records, codec=codec))
    assert [record.value for record in view.records()] == [b"value"] * 100
    fetched = levada.records.arrow.PartitionBatches("orders", 0, 0, [view])
    assert levada.records.arrow.decode_arrow_partitions([fetched]).num_rows == 100
[(name, level, message)] = Seen.lines
assert (name, level) == ("levada.records", "WARNING"), (name, level)
assert "kernel" in message and "slower" in message
print("served")
"""

WITH_COMPILED = """
import logging, sys
import levada.records
assert levada.records.COMPILED
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"pyarrow", "numpy", "asyncio"}, loaded
print("light")
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_twin_serves_and_warns_once_where_the_kernel_is_missing() -> None:
    done = run(WITHOUT_COMPILED)
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr


def test_importing_records_is_light_and_silent() -> None:
    done = run(WITH_COMPILED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "light\n", "")
