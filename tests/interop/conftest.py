"""Unique names."""

from __future__ import annotations

import itertools
import uuid

import pytest

_numbers = itertools.count()


@pytest.fixture
def fresh() -> str:
    """A name that no topic and no group of this run has."""
    return f"t{next(_numbers)}-{uuid.uuid4().hex[:8]}"
