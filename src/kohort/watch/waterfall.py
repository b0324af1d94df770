"""Steps of each member in a rebalance, and who waited for whom. Pure: all of it follows from the record.

A member that keeps processing has no steps. In a classic group, the members that stop wait for the
last one that joins, and then for the leader's assignment. In a consumer group, and in a classic
group with a cooperative assignor, a member waits for the owners of the partitions that it receives.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kohort.group_events import MemberFacts
from kohort.model import Millis
from kohort.recorder import PartitionChange, RebalanceRecord


class StepName(Enum):
    """Kind of a step, in the order in which a member takes them; the value is what the web page prints."""

    LEAVE = "leave"
    """The member left or was removed, and its partitions became dark."""
    REVOKE = "revoke"
    """The member stopped processing partitions."""
    JOIN = "join"
    """The member joined, and in a classic group waited for the other members."""
    ASSIGN = "assign"
    """The member waited for the partitions that it received."""
    FIRST_READ = "first read"
    """The member received partitions, and had not read them yet."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. A time is None if the record does not have it, or if the step is not over."""

    name: StepName
    start: Millis | None
    end: Millis | None
    partitions: int = 0
    waits_for: str | None = None
    """Member ID of the member that ended the wait, if it was another one."""


@dataclass(frozen=True, slots=True)
class MemberSteps:
    """Steps of one member."""

    member_id: str
    client_id: str
    """Empty if the record does not have it."""
    steps: tuple[Step, ...]

    @property
    def first_time(self) -> Millis | None:
        """Earliest time of a step; None if no time is known."""
        return min((time for step in self.steps for time in (step.start, step.end) if time is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the steps for `json.dumps`."""
        return {
            "member_id": self.member_id,
            "client_id": self.client_id,
            "steps": [
                {
                    "name": step.name.value,
                    "from": step.start,
                    "to": step.end,
                    "partitions": step.partitions,
                    "waits_for": step.waits_for,
                }
                for step in self.steps
            ],
        }


def waterfall(record: RebalanceRecord) -> list[MemberSteps]:
    """Return the members that the rebalance affected, with their steps, in the order of their first steps."""
    return _Waterfall(record).members()


class _Waterfall:
    """Index of a record by member."""

    def __init__(self, record: RebalanceRecord) -> None:
        self._record = record
        self._facts = {member.member_id: member for member in record.members()}
        self._after = {member.member_id for member in record.after}
        self._came = {member.member_id for member in record.came}
        self._went = {member.member_id for member in record.went}
        self._lost = defaultdict[str, list[PartitionChange]](list)
        """Changes by the member that stopped."""
        self._taken = defaultdict[str, list[PartitionChange]](list)
        """Changes by the member that received the partition."""
        for change in record.partitions:
            if change.previous_owner is not None and self._is_of_this(change.revoked_at):
                self._lost[change.previous_owner].append(change)
            if change.owner is not None:
                self._taken[change.owner].append(change)
        self._last = self._last_to_join()

    def members(self) -> list[MemberSteps]:
        named = dict.fromkeys((*self._facts, *self._lost, *self._taken))
        members = [
            MemberSteps(member_id, self._client_id(member_id), tuple(steps))
            for member_id in named
            if (steps := self._steps(member_id))
        ]
        return sorted(members, key=_order)

    def _client_id(self, member_id: str) -> str:
        facts: MemberFacts | None = self._facts.get(member_id)
        return "" if facts is None else facts.client_id

    def _is_of_this(self, at: Millis | None) -> bool:
        """Whether a time is known and not part of an earlier rebalance, as that of an unread partition may be."""
        return at is not None and (self._record.started_at is None or at >= self._record.started_at)

    @property
    def _is_classic(self) -> bool:
        # Only a classic group has a leader.
        return self._record.leader_id is not None

    def _last_to_join(self) -> tuple[Millis, str] | None:
        """Return when a classic group's last member joined (or was removed), and its ID.

        None if it is unknown: the record has the JoinGroup of a member only if the member stopped
        partitions with it. Members that keep theirs may have been later.
        """
        record = self._record
        stayed = self._after - self._came
        if not self._is_classic or record.started_at is None or not stayed <= self._lost.keys():
            return None
        arrivals = [(_latest(changes), member_id) for member_id, changes in self._lost.items()]
        return max(((at, member_id) for at, member_id in arrivals if at is not None), default=None)

    def _steps(self, member_id: str) -> list[Step]:
        kinds = (self._stop, self._join, self._assign, self._first_reads)
        return [step for kind in kinds for step in kind(member_id)]

    def _stop(self, member_id: str) -> Iterable[Step]:
        lost = self._lost.get(member_id, [])
        if member_id in self._went:
            end = _latest(lost)
            if end is None and self._is_first_trigger(member_id):
                end = self._record.started_at
            yield Step(StepName.LEAVE, None if end is None else self._record.started_at, end, len(lost))
        elif lost:
            yield Step(StepName.REVOKE, self._record.started_at, _latest(lost), len(lost))

    def _join(self, member_id: str) -> Iterable[Step]:
        if member_id not in self._after:
            return
        arrival = _latest(self._lost.get(member_id, []))
        if arrival is None and member_id in self._came and self._is_first_trigger(member_id):
            arrival = self._record.started_at
        if not self._is_classic:
            if member_id in self._came:  # joining is one heartbeat
                yield Step(StepName.JOIN, arrival, arrival)
        elif self._last is not None:
            at, last = self._last
            yield Step(StepName.JOIN, arrival, at, waits_for=None if member_id == last else last)
        elif member_id in self._came or arrival is not None:
            yield Step(StepName.JOIN, arrival, None)

    def _assign(self, member_id: str) -> Iterable[Step]:
        record = self._record
        if not self._is_classic:
            yield from self._by_previous_owner(member_id, record.started_at)
        elif self._last is None:
            yield from self._by_previous_owner(member_id, None)
        elif member_id in self._after:
            leader = None if member_id == record.leader_id else record.leader_id
            count = sum(change.assigned_at == record.ended_at for change in self._taken.get(member_id, ()))
            yield Step(StepName.ASSIGN, self._last[0], record.ended_at, count, leader)

    def _by_previous_owner(self, member_id: str, start: Millis | None) -> list[Step]:
        """Return a step for each member that had to stop the partitions first, the earliest step first."""
        began = self._record.started_at
        by_owner = defaultdict[str | None, list[Millis]](list)
        for change in self._taken.get(member_id, ()):
            if change.assigned_at is not None and self._is_of_this(change.assigned_at):
                waited = began is not None and change.revoked_at is not None and change.revoked_at > began
                owner = change.previous_owner if waited and change.previous_owner != member_id else None
                by_owner[owner].append(change.assigned_at)
        steps = [(max(times), owner or "", len(times)) for owner, times in by_owner.items()]
        return [Step(StepName.ASSIGN, start, end, count, owner or None) for end, owner, count in sorted(steps)]

    def _first_reads(self, member_id: str) -> Iterable[Step]:
        taken = self._taken.get(member_id, ())
        times = [(change.assigned_at, change.first_read_at) for change in taken if change.assigned_at is not None]
        read = [(start, end) for start, end in times if end is not None]
        if read:
            yield Step(StepName.FIRST_READ, min(read)[0], max(end for _, end in read), len(read))
        if unread := [start for start, end in times if end is None]:
            yield Step(StepName.FIRST_READ, min(unread), None, len(unread))

    def _is_first_trigger(self, member_id: str) -> bool:
        return bool(self._record.triggers) and self._record.triggers[0].member_id == member_id


def _latest(changes: Iterable[PartitionChange]) -> Millis | None:
    return max((change.revoked_at for change in changes if change.revoked_at is not None), default=None)


def _order(member: MemberSteps) -> tuple[bool, Millis, str]:
    first = member.first_time
    return first is None, first or 0, member.member_id
