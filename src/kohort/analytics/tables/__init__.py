"""Tables, as SQL over the rows of a history. Each module makes views from earlier ones, in their order.

There is no Python per row, and every window is over a group, a member or a partition of a group, so
Spark distributes it over a cluster. Commits, the large part, were aggregated when they were read.
Views with as many rows as there are runs of commits are computed by functions over Arrow columns
(`kohort.analytics.timelines`).
"""

from kohort.analytics.tables.steps import JOURNALED, REBALANCES, RUNS, THROUGHPUT, Step
from kohort.analytics.tables.through import ArrowView

__all__ = ["JOURNALED", "REBALANCES", "RUNS", "THROUGHPUT", "ArrowView", "Step"]
