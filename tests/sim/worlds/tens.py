"""Seeds of worlds that a test runs in tens or fives: some every day, all of them with the long tests."""

from __future__ import annotations

from typing import Any

import pytest


def in_tens(daily: int, seeds: int, reason: str) -> list[Any]:
    """Return ranges of seeds as parameters of a test: the first `daily`, then all `seeds` with the mark `long`."""
    return _in_parts(10, daily, seeds, reason)


def in_fives(daily: int, seeds: int, reason: str) -> list[Any]:
    """Do the same for worlds that take so long that ten might reach the time-out of a test."""
    return _in_parts(5, daily, seeds, reason)


def _in_parts(size: int, daily: int, seeds: int, reason: str) -> list[Any]:
    long = pytest.mark.long(reason)
    parts = [range(first, first + size) for first in range(0, seeds, size)]
    return [range(daily), *(pytest.param(part, marks=long) for part in parts)]
