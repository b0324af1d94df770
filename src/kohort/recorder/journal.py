"""From what the coordinator and the fetches tell to finished records of the journal. Pure: time is an argument."""

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import TypeVar, assert_never

from kohort.coordinator.events import (
    AssignmentMade,
    ClassicEvent,
    ConsumerEvent,
    GroupEpochBumped,
    GroupEvent,
    GroupSettled,
    MemberCame,
    MemberGone,
    MemberMoved,
    MemberRefused,
    MemberRejoined,
    RebalanceStarted,
    TargetRefused,
)
from kohort.model import Millis, TopicPartition
from kohort.recorder.consumer_group import ConsumerGroupJournal
from kohort.recorder.group import GroupJournal
from kohort.recorder.record import RebalanceRecord, RefusedMember

G = TypeVar("G", GroupJournal, ConsumerGroupJournal)

WAIT_MS = 60_000
"""How long a record waits for first reads; an owner that reads later than this is not paused but busy or gone."""

FORGET_MS = 3_600_000
"""How long an empty group is remembered; who comes later starts as in a new group."""


REFUSED_AGAIN_MS = 600_000
"""A member that is refused for the same reason again is not told again so soon."""
_MOST_REFUSALS = 1_000


class Journal:
    """Follows all groups of one broker. Every call returns the records that it completed, to be written in order."""

    def __init__(self, *, wait_ms: int = WAIT_MS, forget_ms: int = FORGET_MS) -> None:
        self._wait_ms = wait_ms
        self._forget_ms = forget_ms
        self._groups: dict[str, GroupJournal | ConsumerGroupJournal] = {}
        self._watched: dict[TopicPartition, set[GroupJournal | ConsumerGroupJournal]] = {}
        """The groups that wait for a partition's read, exactly."""
        self._refusals: dict[tuple[str, RefusedMember], Millis] = {}
        """When each refusal was told last; member ids left out, since each attempt may have another."""

    @property
    def watching(self) -> bool:
        """Whether any fetch matters; False nearly always."""
        return bool(self._watched)

    @property
    def watched(self) -> Set[TopicPartition]:
        """The partitions whose fetches matter."""
        return self._watched.keys()

    @property
    def next_expiry(self) -> Millis | None:
        """When `expire` would complete a record or forget a group, at the earliest; None: never."""
        return min((due for group in self._groups.values() if (due := self._due(group)) is not None), default=None)

    def observe(self, event: GroupEvent, now: Millis) -> list[RebalanceRecord]:
        """Something happened in a group."""
        finished: list[RebalanceRecord | None]
        if isinstance(event, MemberRefused):
            finished = [self._refused(event, now)]
        elif isinstance(event, MemberGone):
            group = self._groups.get(event.group_id) or self._group(GroupJournal, event.group_id, [])
            self._unwatch(group, group.removed(event, now))
            finished = []
        elif isinstance(event, ClassicEvent):
            finished = []
            finished += self._observe_classic(self._group(GroupJournal, event.group_id, finished), event, now)
        else:
            finished = []
            finished += self._observe_consumer(self._group(ConsumerGroupJournal, event.group_id, finished), event, now)
        return [record for record in finished if record is not None]

    def _refused(self, event: MemberRefused, now: Millis) -> RebalanceRecord | None:
        """A record of its own, since no rebalance follows; None for what was told a while ago: clients try again."""
        member = event.member
        refused = RefusedMember(member.member_id, member.client_id, member.client_host, event.code, event.reason)
        key = event.group_id, replace(refused, member_id="")
        last = self._refusals.pop(key, None)
        if last is not None and now - last < REFUSED_AGAIN_MS:
            self._refusals[key] = last
            return None
        if len(self._refusals) >= _MOST_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[key] = now
        return RebalanceRecord(event.group_id, 0, None, now, refused_members=(refused,))

    def _observe_classic(self, group: GroupJournal, event: ClassicEvent, now: Millis) -> list[RebalanceRecord | None]:
        match event:
            case RebalanceStarted():
                return [group.started(event, now)]
            case MemberRejoined():
                self._unwatch(group, group.rejoined(event, now))
                return []
            case AssignmentMade():
                self._unwatch(group, group.awaited.keys())
                finished = [group.assigned(event, now), group.complete()]
                self._watch(group, group.awaited)
                return finished
            case _:
                assert_never(event)

    def _observe_consumer(
        self, group: ConsumerGroupJournal, event: ConsumerEvent, now: Millis
    ) -> list[RebalanceRecord | None]:
        match event:
            case GroupEpochBumped():
                return [group.bumped(event, now)]
            case MemberCame():
                group.came(event)
                return []
            case MemberMoved():
                self._unwatch(group, group.moved(event, now))
                self._watch(group, event.took)
                return []
            case GroupSettled():
                return [group.settled(event, now), group.complete()]
            case TargetRefused():
                group.refused(event)
                return []
            case _:
                assert_never(event)

    def _group(self, kind: type[G], group_id: str, finished: list[RebalanceRecord | None]) -> G:
        """The group of that id; one that spoke the other protocol goes on with who has what."""
        old = self._groups.get(group_id)
        if isinstance(old, kind):
            return old
        group = self._groups[group_id] = kind(group_id)
        if old is not None:
            finished.append(self._stop_waiting(old))
            group.members, group.holdings = old.members, old.holdings
        return group

    def fetched(
        self, client_id: str, client_host: str, topic: str, partition: int, now: Millis
    ) -> list[RebalanceRecord]:
        """A client's fetch of a partition arrived; one that came before the assignment and was parked must not count.

        Members are told apart by client id and host, as fetches do not say who is a member.
        """
        read = TopicPartition(topic, partition)
        waiting = self._watched.get(read)
        if waiting is None:
            return []
        finished = []
        for group in list(waiting):
            member = group.awaited[read]
            if (member.client_id, member.client_host) == (client_id, client_host):
                self._unwatch(group, (read,))
                if (record := group.read(read, now)) is not None:
                    finished.append(record)
        return finished

    def expire(self, now: Millis) -> list[RebalanceRecord]:
        """Stop waiting for reads that did not come in time, and forget groups that have been empty for long."""
        finished = []
        for group in [group for group in self._groups.values() if (due := self._due(group)) is not None and due <= now]:
            if (record := self._stop_waiting(group)) is not None:
                finished.append(record)
            if group.empty_since is not None and group.empty_since + self._forget_ms <= now:
                del self._groups[group.group_id]
        return finished

    def close(self, now: Millis) -> list[RebalanceRecord]:
        """Everything unfinished, as it stands."""
        unfinished = [self._stop_waiting(group) for group in self._groups.values()]
        self._groups.clear()
        return [record for record in unfinished if record is not None]

    def _watch(self, group: GroupJournal | ConsumerGroupJournal, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._watched.setdefault(partition, set()).add(group)

    def _unwatch(self, group: GroupJournal | ConsumerGroupJournal, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            waiting = self._watched[partition]
            waiting.remove(group)
            if not waiting:
                del self._watched[partition]

    def _stop_waiting(self, group: GroupJournal | ConsumerGroupJournal) -> RebalanceRecord | None:
        self._unwatch(group, group.awaited)
        return group.give_up()

    def _due(self, group: GroupJournal | ConsumerGroupJournal) -> Millis | None:
        if group.written is not None:
            return group.written.record.ended_at + self._wait_ms
        return None if group.empty_since is None else group.empty_since + self._forget_ms
