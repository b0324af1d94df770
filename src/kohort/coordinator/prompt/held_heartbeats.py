"""Held heartbeats: a heartbeat without a report waits until there is news for its member.

News is whatever changes the answer: a rebalance, a new assignment or an error. A member learns of a
rebalance from the answer to a heartbeat, and sends one every few seconds. So its heartbeat is not
answered at once, but when there is news, or else shortly before the member would send its next one. The
shell reports later requests that wait behind a held answer, because answers are sent in the order of
the requests.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush

from kohort.coordinator.effects import Token
from kohort.coordinator.prompt.client_timings import TIMER_TICK
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest

GroupPartition = tuple[str, UUID, int]
"""A partition within a group: group ID, topic ID, partition number."""


class WaitingRequest(Enum):
    """Kind of request that waits behind a held heartbeat on its connection."""

    OWN_HEARTBEAT = "the next heartbeat of the same member"
    OTHERS_HEARTBEAT = "one of another: members that share a connection would release each other all the time"
    REQUEST = "something else, such as a commit"


@dataclass(slots=True, eq=False)
class HeldHeartbeat:
    """A heartbeat whose answer is held back."""

    token: Token
    request: ConsumerGroupHeartbeatRequest | HeartbeatRequest
    api_version: int
    arrived_at: Millis
    due_at: Millis
    """Time at which it is answered at the latest."""
    waits_for: Collection[GroupPartition] = ()
    """Partitions that its member waits for other members to give up."""


@dataclass(slots=True)
class HeartbeatState:
    """State of a consumer group's member between its heartbeats; exists only while a field differs from its default."""

    unacknowledged: int = 0
    """Number of answers to the member since one that changed its partitions, until it acknowledges that one."""
    failed_holds: int = 0
    """Number of consecutive holds that its client did not wait for."""
    interval_ms: Millis = 0
    """Heartbeat interval in its last answer; 0 for the group's usual one."""
    released_at: Millis = 0
    """Time at which a commit last cut a hold short; 0 for never."""


@dataclass(slots=True)
class ClassicHeartbeats:
    """Facts that a classic group's member shows by its heartbeats; removed together with the member."""

    heard_at: Millis = 0
    """Time of its last heartbeat or the start of its generation."""
    heartbeat_at: Millis = 0
    """Time of its last heartbeat; 0 if it has sent none in its generation."""
    released_at: Millis = 0
    """Time at which its last held heartbeat was answered."""
    timer_at: Millis = 0
    """Time of the last heartbeat that its client sent by its timer; 0 if unknown."""
    interval_ms: Millis = 0
    """Heartbeat interval inferred from its heartbeats; 0 if unknown."""
    failed_holds: int = 0
    """Number of consecutive holds that its client did not wait for."""
    refused_since: Millis = 0
    """Time since which its heartbeats are answered with an error, so that it sends the next one before its timer
    expires; 0 if the last answer was no error."""
    refusals: int = 0
    """Number of consecutive heartbeats that were answered with that error."""
    refused_generation: int = -1
    """Generation of the last heartbeat that was answered with that error; -1 if none was."""

    def skip_time(self, by: Millis) -> None:
        """Move all times that are known by `by`."""
        self.heard_at += by if self.heard_at else 0
        self.heartbeat_at += by if self.heartbeat_at else 0
        self.released_at += by if self.released_at else 0
        self.timer_at += by if self.timer_at else 0
        self.refused_since += by if self.refused_since else 0


_DEFAULT = HeartbeatState()


class HeldHeartbeats:
    """All held heartbeats of a shard. Soft state: a failover loses them with their connections."""

    __slots__ = (
        "_buckets",
        "_by_token",
        "_ticks",
        "_waiting",
        "by_group",
        "ends_at",
        "news",
        "sleeping",
        "states",
        "timing_out",
    )

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, HeldHeartbeat]] = {}
        """Held heartbeats by group ID and member ID, in order of arrival; no group's dictionary is empty."""
        self.news: dict[str, dict[str, None]] = {}
        """By group ID, the members for which there may be news since their heartbeats were held."""
        self.states: dict[tuple[str, str], HeartbeatState] = {}
        """States of members of consumer groups, by group ID and member ID."""
        self.sleeping: set[tuple[str, str]] = set()
        """Members of consumer groups whose clients sleep while a heartbeat is held."""
        self.timing_out: set[tuple[str, str]] = set()
        """Members of consumer groups whose clients consider an answer lost when the interval ends."""
        self.ends_at: Millis | None = None
        """Time at which the shell must fire `HeldHeartbeatsDue`, which calls `take_due`; None if nothing is due."""
        self._by_token: dict[Token, HeldHeartbeat] = {}
        self._buckets: dict[int, list[HeldHeartbeat]] = {}
        """Held heartbeats by the tick at which their holds end."""
        self._ticks: list[int] = []
        """Heap of these ticks. A shard with many members has hundreds. One whose bucket is gone may remain."""
        self._waiting: dict[GroupPartition, str] = {}
        """ID of the member that waits for a partition of another; a partition is in one member's target only."""

    def __len__(self) -> int:
        return len(self._by_token)

    @property
    def all(self) -> Collection[HeldHeartbeat]:
        """All held heartbeats."""
        return self._by_token.values()

    def of_member(self, group_id: str, member_id: str) -> HeldHeartbeat | None:
        """Return the member's held heartbeat, or None."""
        of_group = self.by_group.get(group_id)
        return None if of_group is None else of_group.get(member_id)

    def of_token(self, token: Token) -> HeldHeartbeat | None:
        """Return the held heartbeat with that token, or None."""
        return self._by_token.get(token)

    def state(self, group_id: str, member_id: str) -> HeartbeatState:
        """Return a member's state, created if needed."""
        return self.states.setdefault((group_id, member_id), HeartbeatState())

    def drop_state_if_default(self, group_id: str, member_id: str) -> None:
        """Delete a member's state if all its fields have their default values."""
        state = self.states.get((group_id, member_id))
        if state is not None and state == _DEFAULT:
            del self.states[group_id, member_id]

    def forget_member(self, group_id: str, member_id: str) -> None:
        """Delete what is known of a member that was removed from a consumer group."""
        self.states.pop((group_id, member_id), None)
        self.sleeping.discard((group_id, member_id))
        self.timing_out.discard((group_id, member_id))

    def add(self, held: HeldHeartbeat) -> bool:
        """Hold a heartbeat. Return whether the shell's timer must be set to `ends_at`, which became earlier.

        No other heartbeat of the same member may be held; see `drop`.
        """
        request = held.request
        of_group = self.by_group.setdefault(request.group_id, {})
        assert request.member_id not in of_group
        of_group[request.member_id] = held
        self._by_token[held.token] = held
        for partition in held.waits_for:
            self._waiting[partition] = request.member_id
        ends_at = self._add_to_bucket(held)
        if self.ends_at is not None and self.ends_at <= ends_at:
            return False
        self.ends_at = ends_at
        return True

    def _add_to_bucket(self, held: HeldHeartbeat) -> Millis:
        tick = held.due_at // TIMER_TICK
        bucket = self._buckets.get(tick)
        if bucket is None:
            self._buckets[tick] = [held]
            heappush(self._ticks, tick)
        else:
            bucket.append(held)
        return tick * TIMER_TICK

    def _first_tick(self) -> Millis | None:
        while self._ticks and self._ticks[0] not in self._buckets:
            heappop(self._ticks)
        return self._ticks[0] * TIMER_TICK if self._ticks else None

    def wait_for(self, held: HeldHeartbeat, partitions: Collection[GroupPartition]) -> None:
        """Replace the partitions that the heartbeat's member waits for."""
        self._stop_waiting(held)
        held.waits_for = partitions
        for partition in partitions:
            self._waiting[partition] = held.request.member_id

    def _stop_waiting(self, held: HeldHeartbeat) -> None:
        for partition in held.waits_for:
            if self._waiting.get(partition) == held.request.member_id:
                del self._waiting[partition]

    def drop(self, held: HeldHeartbeat) -> None:
        """Stop holding a heartbeat; the caller answers it, unless its connection is closed."""
        request = held.request
        of_group = self.by_group[request.group_id]
        del of_group[request.member_id]
        if not of_group:
            del self.by_group[request.group_id]
        del self._by_token[held.token]
        self._stop_waiting(held)

    def take_due(self, now: Millis) -> list[HeldHeartbeat]:
        """Drop and return the heartbeats whose hold is over; `ends_at` is the time of the next call."""
        due: list[HeldHeartbeat] = []
        last = now // TIMER_TICK
        while self._ticks and self._ticks[0] <= last:
            bucket = self._buckets.pop(heappop(self._ticks), ())
            due += [held for held in bucket if self._by_token.get(held.token) is held]
        for held in due:
            self.drop(held)
        self.ends_at = self._first_tick()
        return due

    def take_all(self) -> list[HeldHeartbeat]:
        """Drop and return all held heartbeats, because the shard moves away."""
        held, self._by_token = list(self._by_token.values()), {}
        self.by_group, self.news, self._buckets, self._waiting = {}, {}, {}, {}
        self._ticks = []
        return held

    # Skipped time

    def skip_time_of_member(self, group_id: str, member_id: str, by: Millis) -> None:
        """Move what is known of a member's heartbeats by `by`, and the end of its hold."""
        state = self.states.get((group_id, member_id))
        if state is not None and state.released_at:
            state.released_at += by
        held = self.of_member(group_id, member_id)
        if held is None:
            return
        bucket = self._buckets[held.due_at // TIMER_TICK]
        bucket.remove(held)
        if not bucket:
            del self._buckets[held.due_at // TIMER_TICK]
        held.arrived_at += by
        held.due_at += by
        self._add_to_bucket(held)
        self.ends_at = self._first_tick()

    # News

    def news_for_group(self, group_id: str) -> None:
        """Note that there may be news for every member of the group."""
        held = self.by_group.get(group_id)
        if held:
            self.news.setdefault(group_id, {}).update(dict.fromkeys(held))

    def news_for_member(self, group_id: str, member_id: str) -> None:
        """Note that there may be news for this member."""
        if self.of_member(group_id, member_id) is not None:
            self.news.setdefault(group_id, {})[member_id] = None

    def partitions_freed(self, group_id: str, topic_id: UUID, partitions: Collection[int]) -> None:
        """Note news for the members that wait for these partitions, which were given up."""
        for partition in partitions:
            member_id = self._waiting.get((group_id, topic_id, partition))
            if member_id is not None:
                self.news_for_member(group_id, member_id)

    @property
    def waits_for_partitions(self) -> bool:
        """Whether a member waits for a partition, so that `partitions_freed` has an effect."""
        return bool(self._waiting)

    def next_news(self) -> HeldHeartbeat | None:
        """Remove and return a held heartbeat for which there may be news; None if none is left."""
        while self.news:
            group_id = next(iter(self.news))
            members = self.news[group_id]
            member_id = next(iter(members))
            del members[member_id]
            if not members:
                del self.news[group_id]
            held = self.by_group.get(group_id, {}).get(member_id)
            if held is not None:
                return held
        return None
