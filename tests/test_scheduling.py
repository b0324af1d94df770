"""Tests that share an expensive fixture run in one process."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.scheduling import LONGEST_FIRST, PAGE, SPARK, STARTS_SPARK, next_of, scope_of

ROOT = Path(__file__).parents[1]


def test_all_that_use_spark_run_in_one_process_and_else_each_file() -> None:
    in_spark = ("tests/spark/sink/test_sink.py::test_a[x]", "tests/analytics/test_truth.py::test_b", *STARTS_SPARK)
    assert {scope_of(name) for name in in_spark} == {SPARK}
    assert scope_of("tests/log/test_disk.py::test_a[b::c]") == "tests/log/test_disk.py"
    assert scope_of("tests/spark/sink/test_writing.py::test_a") == "tests/spark/sink/test_writing.py"


def test_a_process_is_given_the_longest_that_waits_then_what_has_the_most_tests() -> None:
    waiting = {"few": {"a": False}, "many": {"b": False, "c": False}}
    assert next_of(waiting) == "many"
    assert next_of(waiting | {path: {"d": False} for path in reversed(LONGEST_FIRST)}) == LONGEST_FIRST[0]


def test_the_files_that_are_named_exist() -> None:
    named = {*LONGEST_FIRST, *STARTS_SPARK} - {SPARK, PAGE}
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_two_processes_run_the_tests_of_a_file_together() -> None:
    files = ("tests/test_last_lines.py", "tests/test_bugs.py", "tests/recorder/test_printing.py")
    command = [sys.executable, "-m", "pytest", "-n", "2", "-v", "-p", "no:cacheprovider", *files]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout
    processes = defaultdict(set)
    for line in ran.stdout.splitlines():
        if line.startswith("[gw") and "PASSED" in line:
            processes[line.partition("PASSED ")[2].partition("::")[0]].add(line[:5])
    assert [len(process) for process in processes.values()] == [1, 1, 1]
