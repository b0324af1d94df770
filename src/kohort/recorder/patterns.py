"""Patterns in the rebalances of a group, with one definition for the analysis and for the watcher. Pure.

`kohort analyse` applies them to a cluster's whole history with SQL (`analytics/tables/`), and
`kohort watch` to the records of the last hour.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kohort.group_events import Cause, MemberFacts
from kohort.model import Millis
from kohort.recorder.record import PartitionChange, RebalanceRecord

RETURN_MS: Millis = 10 * 60_000
"""Maximum time between leaving and coming back for which a member counts as returned."""
EPISODE_MS: Millis = 60 * 60_000
"""Maximum time between two returns of one episode."""
LEAST_RETURNS = 3
"""Minimum number of returns in an episode for which a member counts as flapping. A deployment brings it back once."""
BURST_MS: Millis = 5 * 60_000
"""Maximum time between two rebalances of one burst."""
LEAST_REBALANCES = 5
"""Minimum number of rebalances in a burst for which a group counts as thrashing."""
REBALANCES_PER_RESTART = 2
"""Number of rebalances that the restart of one member causes: one as it leaves, and one as it comes back."""

MemberName = tuple[str, str]
"""Instance ID or client ID, and host: what stays the same if a member comes back under a new member ID."""


def name_of(member: MemberFacts) -> MemberName:
    """Return the name by which a member is recognised although its ID changes."""
    return (member.client_id if member.instance_id is None else member.instance_id, member.client_host)


def is_eager(protocol: str | None) -> bool:
    """Return whether all members of a classic group stop in each rebalance under this assignor."""
    return protocol is not None and "cooperative" not in protocol and protocol != "stream"


@dataclass(frozen=True, slots=True)
class Coming:
    """Member that came or went."""

    member: MemberFacts
    at: Millis
    came: bool
    generation: int
    cause: str | None
    """Cause of its removal, if it went and the cause is known."""


def comings(records: Iterable[RebalanceRecord]) -> Iterator[Coming]:
    """Yield who came and who went in each rebalance, oldest first; those who went come first.

    The first record of a history that begins within a group's life does not know the members before
    it, so nobody counts as having come in it.
    """
    for record in records:
        causes = {gone.member_id: gone.cause for gone in record.gone}
        began = record.ended_at if record.started_at is None else record.started_at
        for member in record.went:
            yield Coming(member, began, False, record.generation, causes.get(member.member_id))
        if record.before or record.was_empty:
            for member in record.came:
                yield Coming(member, record.ended_at, True, record.generation, None)


@dataclass(frozen=True, slots=True)
class Return:
    """Member that went and came back."""

    went: Coming
    came: Coming

    @property
    def away_ms(self) -> Millis:
        """Time for which the member was away."""
        return self.came.at - self.went.at


def returns(records: Iterable[RebalanceRecord], within_ms: Millis = RETURN_MS) -> list[Return]:
    """Return the members that came back within this time, in the order in which they came.

    Several members may have one name; then the first that went counts as the first that came back.
    """
    gone: defaultdict[MemberName, list[Coming]] = defaultdict(list)
    found = []
    for coming in comings(records):
        waiting = gone[name_of(coming.member)]
        if not coming.came:
            waiting.append(coming)
            continue
        while waiting and coming.at - waiting[0].at > within_ms:
            waiting.pop(0)
        if waiting:
            found.append(Return(waiting.pop(0), coming))
    return found


@dataclass(frozen=True, slots=True)
class Flapping:
    """Episode of a member that goes and comes back repeatedly."""

    name: MemberName
    returns: tuple[Return, ...]

    @property
    def mean_away_ms(self) -> Millis:
        """Mean time for which the member was away."""
        return sum(each.away_ms for each in self.returns) // len(self.returns)


def flapping(found: Iterable[Return]) -> list[Flapping]:
    """Return the episodes in which one member came back at least `LEAST_RETURNS` times."""
    episodes: list[list[Return]] = []
    latest: dict[MemberName, list[Return]] = {}
    for each in found:
        episode = latest.get(name_of(each.came.member))
        if episode is None or each.came.at - episode[-1].came.at > EPISODE_MS:
            episode = latest[name_of(each.came.member)] = []
            episodes.append(episode)
        episode.append(each)
    return [Flapping(name_of(e[0].came.member), tuple(e)) for e in episodes if len(e) >= LEAST_RETURNS]


@dataclass(frozen=True, slots=True)
class Burst:
    """Rebalances in close succession."""

    records: tuple[RebalanceRecord, ...]

    @property
    def thrashes(self) -> bool:
        """Whether the group hardly works: these are more rebalances than a restart of every member causes."""
        members = max(record.members_after for record in self.records)
        return len(self.records) >= LEAST_REBALANCES and len(self.records) > REBALANCES_PER_RESTART * members + 1


def bursts(records: Iterable[RebalanceRecord], gap_ms: Millis = BURST_MS) -> list[Burst]:
    """Return the bursts, oldest first. Follow-ups of cooperative rebalances are a part of the first one."""
    found: list[list[RebalanceRecord]] = []
    for record in records:
        if not record.is_rebalance or is_follow_up(record):
            continue
        if not found or record.ended_at - found[-1][-1].ended_at > gap_ms:
            found.append([])
        found[-1].append(record)
    return [Burst(tuple(each)) for each in found]


def is_follow_up(record: RebalanceRecord) -> bool:
    """Return whether an earlier cooperative rebalance made this one necessary, as far as the record tells.

    Without a recorder in the broker, it is a rebalance without a cause in which nobody came or went,
    under a cooperative assignor.
    """
    if record.follow_up_of is not None:
        return True
    quiet = not record.triggers and not record.came and not record.went
    return quiet and record.protocol is not None and "cooperative" in record.protocol


def needless_moves(record: RebalanceRecord, newcomers: Sequence[str] = ()) -> tuple[PartitionChange, ...]:
    """Return the moves between two members that were both in the group before and after.

    If all members have the same subscription, a sticky assignor makes no such move. Members that came
    one generation ago (`newcomers`) may be the reason of a follow-up, so moves to them do not count.
    """
    if record.cause == Cause.FIRST_MEMBER.value:
        return ()
    stayed = {member.member_id for member in record.before} & {member.member_id for member in record.after}
    return tuple(
        change
        for change in record.moved
        if change.previous_owner in stayed and change.owner in stayed and change.owner not in newcomers
    )
