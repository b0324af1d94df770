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

from kohort.coordinator.effects import Token
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest

PLAIN_AFTER = 2
"""Number of consecutive holds that a client did not wait for, after which its heartbeats are not held any more."""
_TICK: Millis = 10
"""Holds that end within the same tick end together: one timer serves all members of a shard."""

Place = tuple[str, UUID, int]
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
    since: Millis
    """Time at which it arrived."""
    until: Millis
    """Time at which it is answered at the latest."""
    waits_for: Collection[Place] = ()
    """Partitions that its member waits for other members to give up."""


@dataclass(slots=True)
class HeartbeatState:
    """State of a member between its heartbeats; exists only while a field differs from its default."""

    owing: int = 0
    """Number of answers to the member since one that changed its partitions, until it acknowledges that one."""
    strikes: int = 0
    """Number of consecutive holds that its client did not wait for."""
    told_ms: Millis = 0
    """Heartbeat interval in its last answer; 0 for the group's usual one."""
    released_at: Millis = 0
    """Time at which a commit last cut a hold short; 0 for never."""


class HeldHeartbeats:
    """All held heartbeats of a shard. Soft state: a failover loses them with their connections."""

    __slots__ = ("_buckets", "_by_token", "_waiting", "by_group", "ends_at", "news", "paces", "sleepers")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, HeldHeartbeat]] = {}
        """Held heartbeats by group ID and member ID, in order of arrival; no group's dictionary is empty."""
        self.news: dict[str, dict[str, None]] = {}
        """By group ID, the members for which there may be news since their heartbeats were held."""
        self.paces: dict[tuple[str, str], HeartbeatState] = {}
        """By group ID and member ID."""
        self.sleepers: set[tuple[str, str]] = set()
        """Members of consumer groups whose clients sleep while a heartbeat is held; see `ClientKind.sleeps`."""
        self.ends_at: Millis | None = None
        """Time at which the shell must fire `HoldsEnd`, which calls `take_due`; None if nothing is due."""
        self._by_token: dict[Token, HeldHeartbeat] = {}
        self._buckets: dict[int, list[HeldHeartbeat]] = {}
        self._waiting: dict[Place, str] = {}
        """ID of the member that waits for a partition of another; a partition is in one member's target only."""

    def __len__(self) -> int:
        return len(self._by_token)

    @property
    def tokens(self) -> Collection[Token]:
        """Tokens of the held heartbeats."""
        return self._by_token.keys()

    def holds(self, group_id: str, member_id: str) -> bool:
        """Return whether a heartbeat of the member is held."""
        return member_id in self.by_group.get(group_id, ())

    def of_token(self, token: Token) -> HeldHeartbeat | None:
        """Return the held heartbeat with that token, or None."""
        return self._by_token.get(token)

    def pace(self, group_id: str, member_id: str) -> HeartbeatState:
        """Return a member's pace, created if needed."""
        return self.paces.setdefault((group_id, member_id), HeartbeatState())

    def forget_pace(self, group_id: str, member_id: str) -> None:
        """Delete a member's pace if all its fields have their default values."""
        pace = self.paces.get((group_id, member_id))
        if pace is not None and not (pace.owing or pace.strikes or pace.told_ms or pace.released_at):
            del self.paces[group_id, member_id]

    def add(self, held: HeldHeartbeat) -> bool:
        """Hold a heartbeat. Return whether the shell's timer must be set to `ends_at`, which became earlier.

        No other heartbeat of the same member may be held; see `drop`.
        """
        request = held.request
        of_group = self.by_group.setdefault(request.group_id, {})
        assert request.member_id not in of_group
        of_group[request.member_id] = held
        self._by_token[held.token] = held
        for place in held.waits_for:
            self._waiting[place] = request.member_id
        bucket = held.until // _TICK
        self._buckets.setdefault(bucket, []).append(held)
        ends_at = bucket * _TICK
        if self.ends_at is not None and self.ends_at <= ends_at:
            return False
        self.ends_at = ends_at
        return True

    def wait_for(self, held: HeldHeartbeat, places: Collection[Place]) -> None:
        """Replace the partitions that the heartbeat's member waits for."""
        self._stop_waiting(held)
        held.waits_for = places
        for place in places:
            self._waiting[place] = held.request.member_id

    def _stop_waiting(self, held: HeldHeartbeat) -> None:
        for place in held.waits_for:
            if self._waiting.get(place) == held.request.member_id:
                del self._waiting[place]

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
        last = now // _TICK
        for bucket in sorted(bucket for bucket in self._buckets if bucket <= last):
            due += [held for held in self._buckets.pop(bucket) if self._by_token.get(held.token) is held]
        for held in due:
            self.drop(held)
        self.ends_at = min(self._buckets) * _TICK if self._buckets else None
        return due

    def take_all(self) -> list[HeldHeartbeat]:
        """Drop and return all held heartbeats, because the shard moves away."""
        held, self._by_token = list(self._by_token.values()), {}
        self.by_group, self.news, self._buckets, self._waiting = {}, {}, {}, {}
        return held

    # News

    def stir(self, group_id: str) -> None:
        """Note that there may be news for every member of the group."""
        held = self.by_group.get(group_id)
        if held:
            self.news.setdefault(group_id, {}).update(dict.fromkeys(held))

    def look_at(self, group_id: str, member_id: str) -> None:
        """Note that there may be news for this member."""
        if self.holds(group_id, member_id):
            self.news.setdefault(group_id, {})[member_id] = None

    def freed(self, group_id: str, topic_id: UUID, partitions: Collection[int]) -> None:
        """Note news for the members that wait for these partitions, which were given up."""
        for partition in partitions:
            member_id = self._waiting.get((group_id, topic_id, partition))
            if member_id is not None:
                self.look_at(group_id, member_id)

    @property
    def anybody_waits(self) -> bool:
        """Whether a member waits for a partition, so that `freed` has an effect."""
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
