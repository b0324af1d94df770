"""One Spark session per test process; `tests/conftest.py` makes it known to all tests as one fixture.

Imported by two conftests it would be two, and the end of one would end the JVM of the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, no page, everything it writes below a temporary directory."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17, and there is no java on the PATH")
    from pyspark_kohort import session

    home = tmp_path_factory.mktemp("spark")
    made = session(
        "local[2]",
        "kohort tests",
        {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "1g",
            # Small jobs, each run once: the second compiler and planning anew cost more than they bring.
            # With one compiler the JVM reserves 48 MB for code, which the queries of all these tests together exceed.
            "spark.driver.extraJavaOptions": (
                "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
            ),
            "spark.sql.adaptive.enabled": "false",
            # Each query runs over few rows, once: to compile it costs more than to interpret it.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(home),
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    for query in made.streams.active:
        query.stop()
    made.stop()
    _end_the_jvm()


def _end_the_jvm() -> None:
    """Close the connections to it: a stopped session keeps them, and Python would end with a warning for each."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    gateway.close(keep_callback_server=True)  # what py4j's own thread gave back meanwhile
    SparkContext._gateway = SparkContext._jvm = None
