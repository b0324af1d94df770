"""The tables, as SQL over the rows of a history: each module makes views of those before it, in their order.

Nothing here is Python per row, and every window is of a group, a member or a partition of a group, so Spark spreads it
over a cluster; what is large (commits) was summed up where it was read. Where rows are as many as runs of commits,
functions over Arrow columns make the view (`kohort.analytics.timelines`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.analytics.tables import journaled, members, owners, rebalancing, throughput
from kohort.analytics.tables.through import Through


@dataclass(frozen=True, slots=True)
class Step:
    """One view: its name, and how it is made of those before it."""

    name: str
    made: str | Through
    """SQL, or what an Arrow function makes of some SQL."""

    @property
    def kept(self) -> bool:
        """Whether it is one of the tables that the job writes; the others only lead there."""
        return not self.name.startswith("_")


def _steps(*modules: Mapping[str, str | Through]) -> tuple[Step, ...]:
    return tuple(Step(name, made) for views in modules for name, made in views.items())


RUNS = throughput.RUNS
"""The view `_runs`, with which both of the others begin."""
REBALANCES = _steps(members.VIEWS, owners.VIEWS, rebalancing.VIEWS)
THROUGHPUT = _steps(throughput.VIEWS)
"""Needs nothing of `REBALANCES`, nor they of it: they may be made side by side."""
JOURNALED = _steps(journaled.VIEWS)
"""Instead of both, from the view `journal` alone."""
