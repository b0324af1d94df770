"""The Spark session of the source's tests serves these too."""

from tests.spark.conftest import spark

__all__ = ["spark"]
