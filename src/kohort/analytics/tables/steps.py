"""The steps of an analysis: its views in their order."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.analytics.tables import journaled, members, owners, rebalancing, throughput
from kohort.analytics.tables.through import ArrowView


@dataclass(frozen=True, slots=True)
class Step:
    """One view: its name and its definition on earlier views."""

    name: str
    made: str | ArrowView
    """SQL, or an Arrow function applied to the rows of SQL."""

    @property
    def kept(self) -> bool:
        """Whether this is one of the tables that the job writes; the others are intermediate."""
        return not self.name.startswith("_")


def _steps(*modules: Mapping[str, str | ArrowView]) -> tuple[Step, ...]:
    return tuple(Step(name, made) for views in modules for name, made in views.items())


RUNS = throughput.RUNS
"""SQL of the view `_runs`, on which both of the following depend."""
REBALANCES = _steps(members.VIEWS, owners.VIEWS, rebalancing.VIEWS)
THROUGHPUT = _steps(throughput.VIEWS)
"""Steps that are independent of `REBALANCES`: both may run concurrently."""
JOURNALED = _steps(journaled.VIEWS)
"""Steps that replace both, from the view `journal` alone."""
