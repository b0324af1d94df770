"""Durations of outages in plans."""

from collections.abc import Sequence
from random import Random


def about(averages: Sequence[float], rng: Random) -> float:
    """Return half to one and a half times one of these averages, in seconds."""
    return round(rng.choice(averages) * rng.uniform(0.5, 1.5), 3)
