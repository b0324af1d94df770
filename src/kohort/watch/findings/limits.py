"""Limits of the findings, each with its reason. Times are in milliseconds, unless the name says seconds.

`kohort.recorder.patterns` has those that the analysis shares: returns, flapping, bursts and thrashing.
"""

from kohort.model import Millis

WINDOW_MS: Millis = 3_600_000
"""Age up to which rebalances count: what happened earlier is history, which `kohort analyse` judges."""

HURTS_MS: Millis = 900_000
"""Time for which something that happened marks the group: a cause that persists happens again within it."""

SESSION_TIMEOUT_MS: Millis = 45_000
"""Time for which a static member may be away without a rebalance. Default of session.timeout.ms; the log of a consumer
group does not have it."""
LEAST_SAVED = 2
"""Minimum number of avoidable rebalances: one restart by hand is no reason to change a configuration."""

MAX_POLL_INTERVAL_MS: Millis = 300_000
"""Default of max.poll.interval.ms in all clients."""
POLL_INTERVAL_SLACK_MS: Millis = 60_000
"""A member whose poll is late by this much still counts as removed by that limit: clients check it with their next
heartbeat, and the rebalance that follows takes its time."""
LEAST_LATE_POLLS = 2
"""Minimum number of members that left at the limit, if nothing else shows the reason: one may be chance."""
BUSY_IDLE_RATIO = 0.05
"""poll.idle.ratio.avg below which a member nearly always processes, so that a longer batch makes its poll late."""

SLOW_REVOKE_MS: Millis = 6_000
"""Time from the start of a rebalance after which a revocation is slow. A member may learn of the rebalance only with
its next heartbeat: 3 s in classic groups and 5 s in consumer groups by default."""
STEP_MS: Millis = 1_000
"""Minimum difference between the first and the last member that stopped, for heartbeats to be out of step."""

LEAST_REBALANCES_TO_ADVISE = 2
"""Minimum number of rebalances in the hour for advice on the protocol: a group at rest gains nothing."""
LEAST_UNMOVED_SHARE = 0.5
"""Minimum share of stopped partitions that did not move."""
LEAST_NEEDLESS = 3
LEAST_NEEDLESS_SHARE = 0.2
"""Minimum number of needless moves, and their share of all moves: a balance may cost a few."""

SETTLED_MS: Millis = 60_000
"""Time after a rebalance from which an assignment is judged: a deployment changes it several times a minute."""
LEAST_IMBALANCE = 2
IMBALANCE_RATIO = 2
"""Minimum difference in partitions between two members, and their ratio. One more than another cannot be avoided."""

STUCK_MS: Millis = 360_000
"""Time without a commit, with records waiting, after which a partition stands still. A member may process one batch for
max.poll.interval.ms (5 min); then it commits or is removed."""
GROWTH_S_PER_S = 0.1
"""Minimum growth of the lag per second: the group processes at less than 90 % of the speed at which records arrive."""
GROWING_LAG_S = 60.0
"""Minimum lag that is called growing. A batch job's lag rises to its period and falls again."""
GROWTH_SPAN_MS: Millis = 600_000
"""Minimum time over which the lag must grow: longer than a deployment or a spike."""
GROWTH_WINDOW_MS: Millis = 1_200_000
"""Age up to which the lag counts for its growth."""

RESTARTED_SHARE = 0.5
"""Minimum share of the members that must be replaced in one burst, for a rolling restart."""
LEAST_RESTARTED = 2
RESTARTED_AGAIN_SHARE = 0.1
"""Maximum share of the new members that left again: in a restart, almost all of them stay."""

LATE_START = 2
"""Share of the longest time without members for which a group that is started again and again may be empty. A batch job
that is later than that was not started."""
