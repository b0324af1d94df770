"""Names that nobody else uses, and what of these tests is for `make interop` alone."""

from __future__ import annotations

import itertools
import uuid

import pytest

_numbers = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests that each client goes through, some do for every day; the rest takes minutes."""
    if config.getoption("--broker") == "kohort" and "thorough" not in config.getoption("markexpr"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


@pytest.fixture
def fresh() -> str:
    """A name that no topic and no group of this run has."""
    return f"t{next(_numbers)}-{uuid.uuid4().hex[:8]}"
