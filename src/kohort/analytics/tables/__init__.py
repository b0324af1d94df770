"""The tables, as SQL over the rows of a history: each module makes views of those before it, in the order of `STEPS`.

Nothing here is Python per row, and every window is of a group, a member or a partition of a group, so Spark spreads it
over a cluster; what is large (commits) was summed up where it was read. Where rows are as many as runs of commits,
functions over Arrow columns make the view (`kohort.analytics.timelines`).
"""

from dataclasses import dataclass

from kohort.analytics.tables import members, owners, rebalancing, throughput
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


STEPS = tuple(
    Step(name, made) for module in (members, owners, rebalancing, throughput) for name, made in module.VIEWS.items()
)
TABLES = tuple(step.name for step in STEPS if step.kept)
