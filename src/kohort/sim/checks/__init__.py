"""Checks of the invariants while events happen.

`Watch` observes all coordinators, each through a `CheckedCoordinator`. `Ledger` has what was processed
and committed, `Records` what was written and read, and `Answers` the responses. `HoldChecks` and
`unbalanced` are called when there is something to check; `in_words` and `coverage_lines` make text.
"""

from kohort.sim.checks.answers import Answers
from kohort.sim.checks.balance import unbalanced
from kohort.sim.checks.checked_coordinator import CheckedCoordinator
from kohort.sim.checks.coverage import coverage_lines
from kohort.sim.checks.event_text import in_words
from kohort.sim.checks.held_heartbeats import HoldChecks
from kohort.sim.checks.ledger import Ledger
from kohort.sim.checks.records import Reading, Records
from kohort.sim.checks.shadow import pairs_of
from kohort.sim.checks.watch import Watch

__all__ = [
    "Answers",
    "CheckedCoordinator",
    "HoldChecks",
    "Ledger",
    "Reading",
    "Records",
    "Watch",
    "coverage_lines",
    "in_words",
    "pairs_of",
    "unbalanced",
]
