"""Work that a Python worker does once, at its first task."""

from __future__ import annotations

import subprocess
import sys

SETTLES = """
import gc
from pyspark import TaskContext
from pyspark_kohort import worker_caches
worker_caches.settle()
print(gc.get_freeze_count())
TaskContext._getOrCreate()  # as Spark does for a task
worker_caches.settle()
print(gc.get_freeze_count())
"""


def test_modules_imported_by_the_first_task_are_frozen() -> None:
    done = subprocess.run([sys.executable, "-c", SETTLES], check=True, capture_output=True, text=True)
    before, after = map(int, done.stdout.split())
    assert before == 0, "a process that runs no task is its user's"
    assert after > 10_000
