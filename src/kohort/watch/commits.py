"""Commits as evidence of when a member processed a partition. Pure.

A record of a commit proves that the owner processed the partition shortly before it. Most members
commit at an interval, and once more when they give a partition up, so commits bound the time at
which an owner stopped and the time at which the next one read its first record.
"""

from dataclasses import dataclass
from typing import NamedTuple

from kohort.model import Millis
from kohort.watch.lag import EndOffsets

LONGEST_INTERVAL_MS: Millis = 15_000
"""Longest commit interval from which dark times are derived. Slower commits show when records arrive, not who reads."""

_JITTER_MS: Millis = 1_000
_LATE = 1.25
"""Multiple of the usual interval after which a commit must have been made, if there was anything to commit."""
_EARLY = 0.8
"""Fraction of the usual interval below which a commit counts as made on purpose, because the owner stopped."""


class Commit(NamedTuple):
    """Committed offset, and the time of the commit; None if it is not in the part of the log that was read."""

    offset: int
    at: Millis | None
    gap: Millis | None = None
    """Time since the same owner's commit before this one; None if there is none."""
    usual: Millis | None = None
    """Usual time between two commits before this one; None if fewer than three are known."""

    def followed_by(self, offset: int, at: Millis, *, same_owner: bool) -> "Commit":
        """Return the next commit. A rare long gap fades from the usual time within about ten commits."""
        usual = self.usual
        # The last commit of an owner that stops comes early, so its gap only counts if it is long.
        if self.gap is not None and (same_owner or self.gap >= (usual or self.gap + 1)):
            usual = self.gap if usual is None else max(self.gap, (3 * usual + self.gap) // 4)
        return Commit(offset, at, at - self.at if same_owner and self.at is not None else None, usual)

    @property
    def is_last_word(self) -> bool:
        """Whether it came before its time, as the commit of an owner that stops."""
        return self.gap is not None and self.usual is not None and self.gap < _EARLY * self.usual


@dataclass(frozen=True, slots=True)
class Stop:
    """Time at which an owner stopped to process a partition."""

    at: Millis
    """Best estimate."""
    earliest: Millis
    latest: Millis


def stopped(
    commit: Commit | None,
    usual: Millis | None,
    *,
    owned_from: Millis | None,
    told: Millis | None,
    known: Millis,
) -> Stop:
    """Return when the owner of a partition stopped.

    - `commit`: The last commit of the partition, if any.
    - `usual`: Usual time between two commits of the group, if the partition's own is unknown.
    - `owned_from`: Time at which the owner received the partition, if known. Older commits are not its own.
    - `told`: Time from which the owner could know that it must stop; None if it may have stopped
      earlier, such as a member that crashed.
    - `known`: Time at which the coordinator knew that it had stopped.
    """
    last = None if commit is None or commit.at is None else min(commit.at, known)
    if last is not None and owned_from is not None and last < owned_from:
        last = None
    if told is not None:
        # It goes on until it is told. Then most clients stop at once and commit.
        at = min(known, told if last is None else max(told, last))
        return Stop(known if last is None else at, at, known)
    if last is None:
        return Stop(known, known if owned_from is None else min(known, owned_from), known)
    assert commit is not None
    interval = usual if commit.usual is None else commit.usual
    if commit.is_last_word or interval is None:
        return Stop(last, last, known)
    # It would have committed once more, had it been running.
    return Stop((last + min(known, last + interval)) // 2, last, known)


def first_read(usual: Millis | None, *, assigned: Millis, rebalanced: Millis, committed: Millis) -> Millis:
    """Return the estimated first read of a new owner.

    Nearly every owner reads some milliseconds after its assignment, long before its first commit. So
    the time between both is no evidence of a late read, and half of it, added up over all partitions
    of many rebalances, would be the larger part of the sum.

    - `usual`: Usual time between two commits of the group.
    - `assigned`: Time at which the owner received the partition.
    - `rebalanced`: End of the group's last rebalance, if members cannot commit meanwhile, as in a
      classic group; else 0.
    - `committed`: Time of the owner's first commit.
    """
    if usual is not None and committed - _LATE * usual > max(assigned, rebalanced):
        return committed - usual // 2  # had it read before, it would have committed before
    return assigned


def proves_reading(before: Commit, usual: Millis | None, ends: EndOffsets | None, assigned: Millis) -> bool:
    """Return whether the first commit of a new owner tells, within a commit interval, when it began to read.

    It does not if no record waited for the owner: then it tells when the next record arrived.

    - `before`: The last commit of the owner before.
    - `usual`: Usual time between two commits of the group.
    - `ends`: End offsets of the partition over time, if they are sampled.
    - `assigned`: Time at which the new owner received the partition.
    """
    earliest, latest = (None, None) if ends is None else ends.arrived(before.offset)
    if latest is not None and latest <= assigned:
        return True
    if earliest is not None and earliest >= assigned + _JITTER_MS:
        return False
    # Without the ends, a partition counts if its owner committed it about as often as any of the group.
    if usual is None or usual > LONGEST_INTERVAL_MS:
        return False
    return before.usual is None or before.usual <= 2 * usual + _JITTER_MS
