"""What Spark's collections after each task look through in a worker that is kept."""

import subprocess
import sys


def frozen_after(uses: int) -> int:
    """In a process of its own: a collector that passes over objects does so until its process ends."""
    script = f"import gc; from levada.spark.worker_memory import keep_loaded; [keep_loaded() for _ in range({uses})]"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; print(gc.get_freeze_count())"], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_what_the_first_task_has_loaded_is_passed_over_from_the_second_on() -> None:
    assert frozen_after(1) == 0
    assert frozen_after(2) > 1_000
    assert abs(frozen_after(5) - frozen_after(2)) < 100, "what later tasks leave behind is collected"
