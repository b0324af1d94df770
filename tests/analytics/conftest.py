"""The Spark session of the source's tests serves these too."""

from pathlib import Path

import pytest

from tests.spark.conftest import spark

__all__ = ["spark"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out runs that take minutes, unless they were asked for."""
    if config.getoption("--broker") == "kohort" and "thorough" not in config.getoption("markexpr"):
        here = Path(__file__).parent
        left_out = [item for item in items if item.get_closest_marker("thorough") and here in item.path.parents]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
