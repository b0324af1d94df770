"""Program of another client's documentation, as test data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """Program that prints its results. BOOTSTRAP, TOPIC and GROUP are defined before it starts.

    It is written after the example at `source`, with an end and with output that can be compared.
    """

    name: str
    source: str
    text: str
    partitions: int = 1
