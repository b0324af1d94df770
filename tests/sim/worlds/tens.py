"""Seeds of worlds that a test runs in tens: some every day, all of them with the long tests."""

from __future__ import annotations

from typing import Any

import pytest

_TOGETHER = 10


def in_tens(daily: int, seeds: int, reason: str) -> list[Any]:
    """Return ranges of seeds as parameters of a test: the first `daily`, then all `seeds` with the mark `long`."""
    long = pytest.mark.long(reason)
    tens = [range(first, first + _TOGETHER) for first in range(0, seeds, _TOGETHER)]
    return [range(daily), *(pytest.param(ten, marks=long) for ten in tens)]
