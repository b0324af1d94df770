"""Build the journal's records from the coordinator's events and the members' fetches.

Pure: time is an argument.
"""

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import TypeVar, assert_never

from kohort.group_events import (
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
    OffsetsHeldUp,
    RebalanceStarted,
    TargetRefused,
)
from kohort.model import Millis, TopicPartition
from kohort.recorder.consumer_group import ConsumerGroupRecorder
from kohort.recorder.group import ClassicGroupRecorder
from kohort.recorder.held_offsets import HeldOffsets
from kohort.recorder.record import RebalanceRecord, RefusedMember

G = TypeVar("G", ClassicGroupRecorder, ConsumerGroupRecorder)

WAIT_MS = 60_000
"""Maximum time a record waits for first reads, in milliseconds. A slower owner is busy or gone, not paused."""

FORGET_MS = 3_600_000
"""Time an empty group is remembered, in milliseconds. A member that joins later finds a new group."""


REFUSED_AGAIN_MS = 600_000
"""Minimum interval between two records of the same refusal, in milliseconds."""
_MOST_REFUSALS = 1_000


class Journal:
    """Recorder for all groups of one broker.

    Each method returns the records that it completed; the caller writes them in that order.
    """

    def __init__(self, *, wait_ms: int = WAIT_MS, forget_ms: int = FORGET_MS) -> None:
        self._wait_ms = wait_ms
        self._forget_ms = forget_ms
        self._groups: dict[str, ClassicGroupRecorder | ConsumerGroupRecorder] = {}
        self._watched: dict[TopicPartition, set[ClassicGroupRecorder | ConsumerGroupRecorder]] = {}
        """Groups that await a read, by partition. A partition that no group awaits has no entry."""
        self._refusals: dict[tuple[str, RefusedMember], Millis] = {}
        """Time each refusal was last recorded. The key has no member ID, because each attempt may have a new one."""

    @property
    def watching(self) -> bool:
        """Whether any fetch is awaited; almost always False."""
        return bool(self._watched)

    @property
    def watched(self) -> Set[TopicPartition]:
        """Partitions whose fetches are awaited."""
        return self._watched.keys()

    @property
    def next_expiry(self) -> Millis | None:
        """Earliest time at which `expire` would complete a record or forget a group; None if there is none."""
        return min((due for group in self._groups.values() if (due := self._due(group)) is not None), default=None)

    @property
    def unfinished(self) -> list[RebalanceRecord]:
        """Rebalances that are over, and whose records still wait for the first reads of some partitions."""
        return [group.written.finish() for group in self._groups.values() if group.written is not None]

    def observe(self, event: GroupEvent, now: Millis) -> list[RebalanceRecord]:
        """Process an event of the coordinator."""
        finished: list[RebalanceRecord | None]
        if isinstance(event, MemberRefused):
            finished = [self._refused(event, now)]
        elif isinstance(event, OffsetsHeldUp):
            finished = [RebalanceRecord(event.group_id, 0, None, now, held_offsets=HeldOffsets.of(event))]
        elif isinstance(event, MemberGone):
            group = self._groups.get(event.group_id) or self._group(ClassicGroupRecorder, event.group_id, [])
            self._unwatch(group, group.removed(event, now))
            finished = []
        elif isinstance(event, ClassicEvent):
            finished = []
            finished += self._observe_classic(self._group(ClassicGroupRecorder, event.group_id, finished), event, now)
        else:
            finished = []
            finished += self._observe_consumer(self._group(ConsumerGroupRecorder, event.group_id, finished), event, now)
        return [record for record in finished if record is not None]

    def _refused(self, event: MemberRefused, now: Millis) -> RebalanceRecord | None:
        """Return a separate record, because no rebalance follows a refusal.

        Returns None if the same refusal was recorded recently: clients retry.
        """
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

    def _observe_classic(
        self, group: ClassicGroupRecorder, event: ClassicEvent, now: Millis
    ) -> list[RebalanceRecord | None]:
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
        self, group: ConsumerGroupRecorder, event: ConsumerEvent, now: Millis
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
        """Return the group's recorder, creating it if necessary.

        A group that changed its protocol keeps its members and their partitions.
        """
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
        """Process the arrival of a fetch. The caller must not report a fetch that began to wait before the assignment.

        A fetch request does not contain a member ID, so members are identified by client ID and
        host.
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
        """Stop waiting for overdue reads, and forget groups that have been empty for `forget_ms`."""
        finished = []
        for group in [group for group in self._groups.values() if (due := self._due(group)) is not None and due <= now]:
            if (record := self._stop_waiting(group)) is not None:
                finished.append(record)
            if group.empty_since is not None and group.empty_since + self._forget_ms <= now:
                del self._groups[group.group_id]
        return finished

    def close(self, now: Millis) -> list[RebalanceRecord]:
        """Return all unfinished records in their present state."""
        unfinished = [self._stop_waiting(group) for group in self._groups.values()]
        self._groups.clear()
        return [record for record in unfinished if record is not None]

    def _watch(self, group: ClassicGroupRecorder | ConsumerGroupRecorder, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._watched.setdefault(partition, set()).add(group)

    def _unwatch(
        self, group: ClassicGroupRecorder | ConsumerGroupRecorder, partitions: Iterable[TopicPartition]
    ) -> None:
        for partition in partitions:
            waiting = self._watched[partition]
            waiting.remove(group)
            if not waiting:
                del self._watched[partition]

    def _stop_waiting(self, group: ClassicGroupRecorder | ConsumerGroupRecorder) -> RebalanceRecord | None:
        self._unwatch(group, group.awaited)
        return group.give_up()

    def _due(self, group: ClassicGroupRecorder | ConsumerGroupRecorder) -> Millis | None:
        if group.written is not None:
            return group.written.record.ended_at + self._wait_ms
        return None if group.empty_since is None else group.empty_since + self._forget_ms
