"""Groups whose members use the gateway, and when the answers to their heartbeats leave. Pure."""

from kohort.gateway.groups.mirror import GroupMirror
from kohort.gateway.groups.outcome import LeaveRequest, Outcome, Probe, ProbeDue

__all__ = ["GroupMirror", "LeaveRequest", "Outcome", "Probe", "ProbeDue"]
