"""Groups whose members use the gateway, and when the answers to their heartbeats leave. Pure."""

from kohort.gateway.groups.mirror import GroupMirror
from kohort.gateway.groups.outcome import Outcome, Probe, ProbeDue

__all__ = ["GroupMirror", "Outcome", "Probe", "ProbeDue"]
