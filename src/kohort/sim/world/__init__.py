"""One world from its plan to its outcome, and the checks after the end of the faults."""

from kohort.sim.world.outcome import Outcome
from kohort.sim.world.world import World

__all__ = ["Outcome", "World"]
