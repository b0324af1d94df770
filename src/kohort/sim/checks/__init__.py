"""Checks of the invariants while events happen.

`Observations` observes all coordinators, each through a `CheckedCoordinator`. `GroupProgress` has
what was processed and committed, `Records` what was written and read, and `Answers` the responses.
`HoldChecks` and `unbalanced` are called when there is something to check; `in_words` and
`coverage_lines` make text.
"""

from kohort.sim.checks.access_checks import REFUSALS, AccessChecks, LostRight
from kohort.sim.checks.answers import Answers
from kohort.sim.checks.balance import unbalanced
from kohort.sim.checks.checked_coordinator import CheckedCoordinator
from kohort.sim.checks.coverage import coverage_lines
from kohort.sim.checks.durable_groups import pairs_of
from kohort.sim.checks.event_text import in_words
from kohort.sim.checks.group_progress import GroupProgress
from kohort.sim.checks.held_heartbeats import HoldChecks
from kohort.sim.checks.observations import Observations
from kohort.sim.checks.records import Reading, Records
from kohort.sim.checks.transactions import CommittedReading, TransactionChecks, value_in
from kohort.sim.checks.wire_checks import WireChecks

__all__ = [
    "REFUSALS",
    "AccessChecks",
    "Answers",
    "CheckedCoordinator",
    "CommittedReading",
    "GroupProgress",
    "HoldChecks",
    "LostRight",
    "Observations",
    "Reading",
    "Records",
    "TransactionChecks",
    "WireChecks",
    "coverage_lines",
    "in_words",
    "pairs_of",
    "unbalanced",
    "value_in",
]
