"""The test kit: a broker for tests, with faults, control of time, and checks of what must always hold."""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.testing.broker import Broker, Cluster, FaultHandle
    from kohort.testing.clock import ControlledClock, MemberKey, change_rate, skip_time
    from kohort.testing.controlled import Undoable
    from kohort.testing.controls import Controls, Outage
    from kohort.testing.disk import DiskFaults
    from kohort.testing.events import (
        AnswerLost,
        AnswerSent,
        ConnectionClosed,
        ConnectionOpened,
        CoordinatorStarted,
        Event,
        GroupChanged,
        KitActed,
        Observer,
        RecordsAppended,
        RequestReceived,
    )
    from kohort.testing.group import Group
    from kohort.testing.group_view import CommitView, GroupView, MemberView
    from kohort.testing.invariants import Checks, Fault, Invariant, Limits, Violation
    from kohort.testing.rules import Rule, Selectors, rule_of
    from kohort.testing.sequence import SequenceAudit, SequenceNumbers
    from kohort.testing.snapshots import Snapshot
    from kohort.testing.taps import TappedBroker
    from kohort.testing.topic import Topic
    from kohort.testing.verdict import VerdictError
    from kohort.testing.waiting import WaitTimeoutError
    from kohort.testing.workspace import Workspace
else:
    __getattr__ = on_demand(
        __name__,
        {
            "broker": (
                "Broker",
                "Cluster",
                "FaultHandle",
            ),
            "clock": (
                "ControlledClock",
                "MemberKey",
                "change_rate",
                "skip_time",
            ),
            "controlled": ("Undoable",),
            "controls": (
                "Controls",
                "Outage",
            ),
            "disk": ("DiskFaults",),
            "events": (
                "AnswerLost",
                "AnswerSent",
                "ConnectionClosed",
                "ConnectionOpened",
                "CoordinatorStarted",
                "Event",
                "GroupChanged",
                "KitActed",
                "Observer",
                "RecordsAppended",
                "RequestReceived",
            ),
            "group": ("Group",),
            "group_view": (
                "CommitView",
                "GroupView",
                "MemberView",
            ),
            "invariants": (
                "Checks",
                "Fault",
                "Invariant",
                "Limits",
                "Violation",
            ),
            "rules": (
                "Rule",
                "Selectors",
                "rule_of",
            ),
            "snapshots": ("Snapshot",),
            "sequence": ("SequenceAudit", "SequenceNumbers"),
            "taps": ("TappedBroker",),
            "topic": ("Topic",),
            "verdict": ("VerdictError",),
            "waiting": ("WaitTimeoutError",),
            "workspace": ("Workspace",),
        },
    )

__all__ = [
    "AnswerLost",
    "AnswerSent",
    "Broker",
    "Checks",
    "Cluster",
    "CommitView",
    "ConnectionClosed",
    "ConnectionOpened",
    "ControlledClock",
    "Controls",
    "CoordinatorStarted",
    "DiskFaults",
    "Event",
    "Fault",
    "FaultHandle",
    "Group",
    "GroupChanged",
    "GroupView",
    "Invariant",
    "KitActed",
    "Limits",
    "MemberKey",
    "MemberView",
    "Observer",
    "Outage",
    "RecordsAppended",
    "RequestReceived",
    "Rule",
    "Selectors",
    "SequenceAudit",
    "SequenceNumbers",
    "Snapshot",
    "TappedBroker",
    "Topic",
    "Undoable",
    "VerdictError",
    "Violation",
    "WaitTimeoutError",
    "Workspace",
    "change_rate",
    "rule_of",
    "skip_time",
]
