"""Numbers from which on a repetition or a delay is a violation."""

from dataclasses import dataclass

from kohort.model import Millis


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the checks; times are in milliseconds of the broker's clock."""

    repeats: int = 10
    """Number of refused requests of one kind after which a member counts as one that ignores the refusal."""
    commit_repeats: int = 30
    """The same for commits, which a client may have prepared before it learns that it is fenced."""
    slow_repeats: int = 3
    """Number of refused requests that suffice if they go on for longer than `patience_ms`."""
    patience_ms: Millis = 10_000
    in_flight_ms: Millis = 1_000
    """Time for which requests that a client prepared before it learned of a change still arrive."""
    storm_rebalances: int = 10
    """Number of rebalances in a row that one client causes on one connection, within `storm_ms`."""
    storm_ms: Millis = 60_000
    unassigned_ms: Millis | None = None
    """Time for which a partition may stay unassigned; None: the longest timeout of the members, and 10 s."""
    discovery_ms: Millis = 300_000
    """Additional time for a partition that was never assigned: members learn of it by metadata.max.age.ms."""
    unassigned_checks: bool = True
    """Whether to check for unassigned partitions at all."""
