"""Processes of a world (brokers, members, and clients of records) and the state that they share.

`WorldState` has all of them. The rooms above this one change it: `faults` executes the steps of a plan
on it, and `world` runs it.
"""

from kohort.sim.processes.application import Application
from kohort.sim.processes.brokers import LEASE, SHARDS, SimulatedBroker
from kohort.sim.processes.killable_clients import KillableAdmin
from kohort.sim.processes.state import WorldState

__all__ = ["LEASE", "SHARDS", "Application", "KillableAdmin", "SimulatedBroker", "WorldState"]
