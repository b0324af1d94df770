"""A group of a kit's brokers, as a test uses it: wait until it is as expected, and see why it rebalanced."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from kohort.coordinator import GroupState
from kohort.coordinator.consumer import ConsumerGroupState
from kohort.errors import KohortError
from kohort.group_events import Cause
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.testing.group_view import GroupView, MemberView, view_group
from kohort.testing.waiting import PATIENCE_S, Kit, blocking_hint, reached, until

_CAUSES = {cause.value for cause in Cause}
_DEAD = "Dead"
"""State of a group that does not exist, as Kafka shows it."""
_STATES = [*dict.fromkeys(state.value for state in (*GroupState, *ConsumerGroupState))]


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a wait is for; None is not looked at."""

    state: str | None
    members: int | None
    assigned: int | None
    owns: Mapping[str, int | Collection[TopicPartition]] | None
    committed: Mapping[TopicPartition, int] | None
    lag: int | None

    def __post_init__(self) -> None:
        if all(wanted is None for wanted in astuple(self)):
            raise KohortError("Give at least one of state, members, assigned, owns, committed and lag.")
        if self.state is not None and self.state.lower() not in map(str.lower, _STATES):
            raise KohortError(f"There is no state {self.state!r}; the states are: {', '.join(_STATES)}.")
        for at in self.committed or ():
            _check_place(at, "committed")
        for what in (self.owns or {}).values():
            for at in () if isinstance(what, int) else what:
                _check_place(at, "owns")

    def holds(self, view: GroupView | None, lag: Mapping[TopicPartition, int]) -> bool:
        if view is None:
            is_gone = self.state is not None and self.state.lower() == _DEAD.lower()
            return (is_gone or (self.state is None and self.members == 0)) and not any(
                (self.members, self.assigned, self.owns, self.committed)
            )
        return (
            (self.state is None or view.state.lower() == self.state.lower())
            and (self.members is None or len(view.members) == self.members)
            and (self.assigned is None or view.assigned == self.assigned)
            and (self.owns is None or all(_owns(view, who, what) for who, what in self.owns.items()))
            and (self.committed is None or all(_committed(view, at) >= offset for at, offset in self.committed.items()))
            and (self.lag is None or sum(lag.values()) <= self.lag)
        )

    def __str__(self) -> str:
        parts = []
        if self.state is not None:
            parts.append(f"state {self.state}")
        if self.members is not None:
            parts.append(f"{self.members} members")
        if self.assigned is not None:
            parts.append(f"{self.assigned} assigned partitions")
        for who, what in (self.owns or {}).items():
            parts.append(f"{who} with {what if isinstance(what, int) else _listed(what)}")
        if self.committed:
            parts.append("commits " + ", ".join(f"{at} to {offset}" for at, offset in sorted(self.committed.items())))
        if self.lag is not None:
            parts.append(f"lag {self.lag}")
        return ", ".join(parts)


class Group(str):
    """The id of a group, with methods for tests: pass it wherever a client takes a group id."""

    _kit: Kit
    _seen: int
    """Rebalances that `wait_rebalance` has passed."""

    def __new__(cls, group_id: str, kit: Kit) -> Group:
        group = super().__new__(cls, group_id)
        group._kit = kit
        group._seen = 0
        return group

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)  # in another process it is an id

    # What is

    def view(self) -> GroupView | None:
        """Return the group as its coordinator has it now; None if it does not exist."""
        return self._kit._run(self._view)

    @property
    def members(self) -> list[MemberView]:
        """The members, sorted by member ID."""
        view = self.view()
        return [] if view is None else list(view.members)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets."""
        view = self.view()
        return {} if view is None else _offsets(view)

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """The records of each partition that the group has not committed yet.

        It includes the partitions that members own and those with committed offsets. Without a committed offset, all
        records of a partition count.
        """
        return self._kit._run(lambda: self._lag(self._view()))

    @property
    def rebalances(self) -> list[RebalanceRecord]:
        """The group's rebalances that are over, with their causes, the earliest first.

        The last one may still lack the first reads of some partitions.
        """
        return self._rebalances()

    # What shall be

    def wait(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        assigned: int | None = None,
        owns: Mapping[str, int | Collection[TopicPartition]] | None = None,
        committed: Mapping[TopicPartition, int] | None = None,
        lag: int | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> GroupView:
        """Wait until all of this holds at once, and return the group. Raise WaitTimeoutError with what was seen.

        `state` is one of Kafka's, in any case; `assigned` counts the partitions of all members. `owns` maps client,
        member or instance IDs to what they own: a number of partitions, or the partitions. `committed` are the least
        offsets; `lag` is the largest sum over all partitions.
        """
        expected = _Expected(state, members, assigned, owns, committed, lag)
        return self._kit._await(self._reach(expected, timeout_s, blocking_hint()))

    async def wait_async(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        assigned: int | None = None,
        owns: Mapping[str, int | Collection[TopicPartition]] | None = None,
        committed: Mapping[TopicPartition, int] | None = None,
        lag: int | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> GroupView:
        """As `wait`, for a test whose clients run on its own event loop."""
        expected = _Expected(state, members, assigned, owns, committed, lag)
        return await self._kit._awaited(self._reach(expected, timeout_s, ""))

    def wait_rebalance(self, cause: Cause | str | None = None, *, timeout_s: float = PATIENCE_S) -> RebalanceRecord:
        """Wait for the next rebalance that is over, with that cause if one is given. Raise WaitTimeoutError.

        Each rebalance is returned once: the next call begins behind the one that this call returned.
        """
        return self._kit._await(self._reach_rebalance(_cause(cause), timeout_s, blocking_hint()))

    async def wait_rebalance_async(
        self, cause: Cause | str | None = None, *, timeout_s: float = PATIENCE_S
    ) -> RebalanceRecord:
        """As `wait_rebalance`, for a test whose clients run on its own event loop."""
        return await self._kit._awaited(self._reach_rebalance(_cause(cause), timeout_s, ""))

    # On the event loop of the brokers

    async def _reach(self, expected: _Expected, timeout_s: float, hint: str) -> GroupView:
        def look() -> GroupView | None:
            view = self._view()
            if not expected.holds(view, {} if expected.lag is None else self._lag(view)):
                return None
            return view or GroupView(str(self), _DEAD, 0, (), {})

        def told() -> str:
            seen = _told(self._view(), self._lag(self._view()))
            return f"Group {self} did not reach {expected} in {timeout_s:g} s: {seen}.{hint}"

        return await reached(until(self._kit.nodes, look, timeout_s), told)

    async def _reach_rebalance(self, cause: str | None, timeout_s: float, hint: str) -> RebalanceRecord:
        def look() -> RebalanceRecord | None:
            for index, record in enumerate(self._rebalances()):
                causes = {trigger.cause for trigger in record.triggers}
                if index >= self._seen and (cause is None or cause in causes):
                    self._seen = index + 1
                    return record
            return None

        def told() -> str:
            new = self._rebalances()[self._seen :]
            causes = ", ".join(record.cause or "unknown cause" for record in new) or "none"
            wanted = "No rebalance" if cause is None else f"No rebalance with the cause {cause!r}"
            return f"{wanted} of group {self} ended in {timeout_s:g} s; seen: {causes}.{hint}"

        return await reached(until(self._kit.nodes, look, timeout_s), told)

    def _view(self) -> GroupView | None:
        return view_group(self._kit.nodes, str(self))

    def _lag(self, view: GroupView | None) -> dict[TopicPartition, int]:
        if view is None:
            return {}
        offsets = _offsets(view)
        owned = {
            TopicPartition(topic, number)
            for member in view.members
            for topic, numbers in member.assignment.items()
            for number in numbers
        }
        lag: dict[TopicPartition, int] = {}
        for at in sorted(owned | offsets.keys()):
            for node in self._kit.nodes:
                log = node.partition(*at)
                if log is not None:
                    lag[at] = max(0, log.stable_offset - max(offsets.get(at, 0), log.start_offset))
        return lag

    def _rebalances(self) -> list[RebalanceRecord]:
        return [record for record in self._kit.rebalances if record.group_id == self]


def _cause(cause: Cause | str | None) -> str | None:
    if cause is None or isinstance(cause, Cause):
        return None if cause is None else cause.value
    if cause not in _CAUSES:
        raise KohortError(f"There is no cause {cause!r}; the causes are: {', '.join(sorted(_CAUSES))}.")
    return cause


def _check_place(at: object, what: str) -> None:
    if not (isinstance(at, tuple) and len(at) == 2 and isinstance(at[0], str) and isinstance(at[1], int)):
        raise KohortError(f"`{what}` takes partitions such as TopicPartition('orders', 0), not {at!r}.")


def _owns(view: GroupView, who: str, what: int | Collection[TopicPartition]) -> bool:
    owned = {
        TopicPartition(topic, number)
        for member in view.members
        if who in (member.client_id, member.member_id, member.instance_id)
        for topic, numbers in member.assignment.items()
        for number in numbers
    }
    return len(owned) == what if isinstance(what, int) else owned == set(what)


def _offsets(view: GroupView) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, number): commit.offset
        for topic, commits in view.commits.items()
        for number, commit in commits.items()
    }


def _committed(view: GroupView, at: TopicPartition) -> int:
    return _offsets(view).get(TopicPartition(*at), -1)


def _told(view: GroupView | None, lag: Mapping[TopicPartition, int]) -> str:
    if view is None:
        return "it does not exist"
    members = [
        f"{member.client_id or member.member_id} has "
        + (_listed(TopicPartition(topic, number) for topic, numbers in member.assignment.items() for number in numbers))
        for member in view.members
    ]
    commits = ", ".join(f"{at} to {offset}" for at, offset in sorted(_offsets(view).items()))
    return "; ".join(
        [f"it is {view.state} with {len(view.members)} members", *members]
        + ([f"committed {commits}"] if commits else [])
        + ([f"lag {sum(lag.values())}"] if lag else [])
    )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(str(TopicPartition(*at)) for at in sorted(partitions)) or "nothing"
