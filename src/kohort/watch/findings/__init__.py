"""What to do about a group: the findings of `kohort analyse`, applied to now. Pure.

`findings` returns them, the ones that matter most first, and `hurts` the titles of those that mark a
group as one that hurts. docs/watch-findings.md explains each.
"""

from kohort.watch.findings.clients import MemberTelemetry
from kohort.watch.findings.facts import LagSeries
from kohort.watch.findings.finding import KINDS, Finding, Kind, Severity, counted, duration, shown
from kohort.watch.findings.rules import findings, hurting, hurts
from kohort.watch.findings.trail import LagTrails, lag_seconds

__all__ = [
    "KINDS",
    "Finding",
    "Kind",
    "LagSeries",
    "LagTrails",
    "MemberTelemetry",
    "Severity",
    "counted",
    "duration",
    "findings",
    "hurting",
    "hurts",
    "lag_seconds",
    "shown",
]
