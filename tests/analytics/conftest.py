"""The Spark session of the source's tests serves these too, and the command line's way to run a command."""

from tests.cli.conftest import run
from tests.spark.conftest import spark

__all__ = ["run", "spark"]
