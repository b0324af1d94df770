"""The last lines of a test run."""

from __future__ import annotations

import pytest

from tests.last_lines import skips

NO_JAVA = "needs Java 17"


def _skipped(name: str, reason: str) -> pytest.TestReport:
    where = ("tests/conftest.py", 1, f"Skipped: {reason}")
    return pytest.TestReport(name, (name, 1, name), {}, "skipped", where, "setup")


def test_skips_are_counted_and_named_by_reason() -> None:
    reports = [
        _skipped("tests/spark/test_spark.py::test_a_query", NO_JAVA),
        _skipped("tests/interop/test_java.py::test_a_client[java-1]", NO_JAVA),
        _skipped("tests/interop/test_java.py::test_a_client[java-2]", NO_JAVA),
        _skipped("tests/log/test_disk.py::test_together", "syncfs means nothing here"),
    ]
    assert skips(reports) == [
        "3 skipped: needs Java 17",
        "    tests/interop/test_java.py::test_a_client (2)",
        "    tests/spark/test_spark.py::test_a_query",
        "1 skipped: syncfs means nothing here",
        "    tests/log/test_disk.py::test_together",
    ]
    assert skips([]) == []
