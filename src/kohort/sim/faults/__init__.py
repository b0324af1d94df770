"""Faults, and clients that send requests that must be rejected.

`execute` carries out one step of a plan.
"""

from kohort.sim.faults.steps import execute

__all__ = ["execute"]
