"""How long the members of a mixed group come and go; KOHORT_MIXED_MINUTES says it instead."""

from __future__ import annotations

import os

import pytest

MINUTES = float(os.environ.get("KOHORT_MIXED_MINUTES", "0"))
DAILY_S, LONG_S = 8.0, 30.0
_LONG = pytest.param(LONG_S, marks=pytest.mark.long("members come and go for half a minute"))

for_some_seconds = pytest.mark.parametrize("seconds", [60 * MINUTES] if MINUTES else [DAILY_S, _LONG])
"""Runs a test with its argument `seconds`: some in `make test`, half a minute with the long tests."""
for_half_a_minute = pytest.mark.parametrize("seconds", [60 * MINUTES] if MINUTES else [_LONG])
"""The same, with the long tests alone."""
patient = pytest.mark.timeout(600 + 120 * MINUTES)
"""The first use of franz-go compiles it, and Go's library with it."""
