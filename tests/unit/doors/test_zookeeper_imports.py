"""A node pays for ZooKeeper only where it uses it."""

import subprocess
import sys

CODE = "import sys, levada.node.node, levada.doors.zookeeper_address; print(*sorted(sys.modules))"


def test_a_node_that_does_not_use_zookeeper_loads_nothing_of_it() -> None:
    loaded = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.split()
    assert "levada.doors.local" in loaded
    assert not [name for name in loaded if name.partition(".")[0] in ("kazoo", "pyspark") or "zookeeper_s" in name]
