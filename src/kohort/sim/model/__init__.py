"""Exhaustive model: every order of events of a small world."""

from kohort.sim.model.model import explore

__all__ = ["explore"]
