"""Tests that `make test` leaves out because they take seconds: those of slow.txt."""

from __future__ import annotations

from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")


def slow_tests() -> frozenset[str]:
    """Return the names of the slow tests as pytest writes them, without their cases."""
    lines = LIST.read_text().splitlines()
    return frozenset(line.split()[1] for line in lines if not line.startswith("#"))
