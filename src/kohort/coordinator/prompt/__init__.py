"""Held heartbeats: when the broker sends an answer, and which heartbeat interval it contains.

`PromptHeartbeats` is the interface of this room. It sees groups only as `GroupFacts`. All facts
about clients, and every time limit with its reason, are in `client_timings`.
"""

from kohort.coordinator.prompt.client_timings import USUAL_HEARTBEAT_INTERVAL
from kohort.coordinator.prompt.facts import GroupFacts, RebalanceNotice
from kohort.coordinator.prompt.held_heartbeats import ClassicHeartbeats, GroupPartition, HeldHeartbeat, WaitingRequest
from kohort.coordinator.prompt.prompt_heartbeats import PromptHeartbeats
from kohort.coordinator.prompt.restarting_members import RestartingMembers
from kohort.coordinator.prompt.returning_members import FormerMembers

__all__ = [
    "USUAL_HEARTBEAT_INTERVAL",
    "ClassicHeartbeats",
    "FormerMembers",
    "GroupFacts",
    "GroupPartition",
    "HeldHeartbeat",
    "PromptHeartbeats",
    "RebalanceNotice",
    "RestartingMembers",
    "WaitingRequest",
]
