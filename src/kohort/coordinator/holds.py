"""Heartbeats that are held: one with nothing to say waits until there is something to hear.

A member learns of a rebalance from the answer to a heartbeat, and sends one every few seconds. So its heartbeat is not
answered at once: it is answered the moment there is news, and else shortly before the member would send its next. The
shell says which later requests wait behind a held answer, because answers leave in the order of the requests.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from kohort.coordinator.effects import Token
from kohort.model import UUID, Millis
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.heartbeat import HeartbeatRequest

PLAIN_AFTER = 2
"""After so many holds in a row that its client did not live to see, a member is served plainly."""
_TICK: Millis = 10
"""Holds that end within one tick end together: one timer serves all members of a shard."""

Place = tuple[str, UUID, int]
"""A partition, in one group: group id, topic id, partition."""


class Behind(Enum):
    """What waits behind a held heartbeat on its connection."""

    OWN_HEARTBEAT = "the next heartbeat of the same member"
    OTHERS_HEARTBEAT = "one of another: members that share a connection would release each other all the time"
    REQUEST = "something else, such as a commit"


@dataclass(slots=True, eq=False)
class Held:
    """One heartbeat that waits."""

    token: Token
    request: ConsumerGroupHeartbeatRequest | HeartbeatRequest
    api_version: int
    since: Millis
    """When it came."""
    until: Millis
    """When it is answered at the latest."""
    waits_for: Collection[Place] = ()
    """What its member waits for others to give up."""


@dataclass(slots=True)
class Pace:
    """What is remembered of a member between its heartbeats, while there is something to remember."""

    owing: int = 0
    """It was told to give up or take something, and this is which answer it gets before its acknowledgement."""
    strikes: int = 0
    """Holds in a row that its client did not wait for."""
    told_ms: Millis = 0
    """The interval that it was told with its last answer; 0 for the group's usual one."""
    released_at: Millis = 0
    """When a commit last cut a hold short; 0 for never."""


class Holds:
    """All held heartbeats of a shard. Soft: a failover forgets them with their connections."""

    __slots__ = ("_buckets", "_by_token", "_waiting", "by_group", "ends_at", "news", "paces", "sleepers")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, Held]] = {}
        """By group id and member id, the first to come first; no group in it is empty."""
        self.news: dict[str, dict[str, None]] = {}
        """By group id the members for whom there may be news since their heartbeats were held."""
        self.paces: dict[tuple[str, str], Pace] = {}
        """By group id and member id."""
        self.sleepers: set[tuple[str, str]] = set()
        """Members of consumer groups whose clients are known to sleep while a heartbeat is held; see `ClientKind`."""
        self.ends_at: Millis | None = None
        """When the shell is to call `take_due`; None when it need not."""
        self._by_token: dict[Token, Held] = {}
        self._buckets: dict[int, list[Held]] = {}
        self._waiting: dict[Place, str] = {}
        """Who waits for a partition that another has; its target names one member alone."""

    def __len__(self) -> int:
        return len(self._by_token)

    @property
    def tokens(self) -> Collection[Token]:
        """Of the requests that wait."""
        return self._by_token.keys()

    def holds(self, group_id: str, member_id: str) -> bool:
        """Whether a heartbeat of the member waits."""
        return member_id in self.by_group.get(group_id, ())

    def of_token(self, token: Token) -> Held | None:
        """The held heartbeat of that name."""
        return self._by_token.get(token)

    def pace(self, group_id: str, member_id: str) -> Pace:
        """What is remembered of a member."""
        return self.paces.setdefault((group_id, member_id), Pace())

    def forget_pace(self, group_id: str, member_id: str) -> None:
        """If there is nothing worth remembering."""
        pace = self.paces.get((group_id, member_id))
        if pace is not None and not (pace.owing or pace.strikes or pace.told_ms or pace.released_at):
            del self.paces[group_id, member_id]

    def add(self, held: Held) -> bool:
        """Hold a heartbeat. Returns whether the shell's timer must be set to `ends_at`, which is earlier than it was.

        None of the same member may be held; see `drop`.
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

    def wait_for(self, held: Held, places: Collection[Place]) -> None:
        """What its member waits for is something else than when it came."""
        self._stop_waiting(held)
        held.waits_for = places
        for place in places:
            self._waiting[place] = held.request.member_id

    def _stop_waiting(self, held: Held) -> None:
        for place in held.waits_for:
            if self._waiting.get(place) == held.request.member_id:
                del self._waiting[place]

    def drop(self, held: Held) -> None:
        """Hold it no longer: the caller answers it, or nobody waits for it."""
        request = held.request
        of_group = self.by_group[request.group_id]
        del of_group[request.member_id]
        if not of_group:
            del self.by_group[request.group_id]
        del self._by_token[held.token]
        self._stop_waiting(held)

    def take_due(self, now: Millis) -> list[Held]:
        """Those whose time is over, dropped; `ends_at` is when to ask again."""
        due: list[Held] = []
        last = now // _TICK
        for bucket in sorted(bucket for bucket in self._buckets if bucket <= last):
            due += [held for held in self._buckets.pop(bucket) if self._by_token.get(held.token) is held]
        for held in due:
            self.drop(held)
        self.ends_at = min(self._buckets) * _TICK if self._buckets else None
        return due

    def take_all(self) -> list[Held]:
        """All of them, dropped: the shard moves away."""
        held, self._by_token = list(self._by_token.values()), {}
        self.by_group, self.news, self._buckets, self._waiting = {}, {}, {}, {}
        self.ends_at = None
        return held

    # News

    def stir(self, group_id: str) -> None:
        """There may be news for every member of the group."""
        held = self.by_group.get(group_id)
        if held:
            self.news.setdefault(group_id, {}).update(dict.fromkeys(held))

    def look_at(self, group_id: str, member_id: str) -> None:
        """There may be news for this member."""
        if self.holds(group_id, member_id):
            self.news.setdefault(group_id, {})[member_id] = None

    def freed(self, group_id: str, topic_id: UUID, partitions: Collection[int]) -> None:
        """Somebody gave up these partitions: there is news for who waits for one."""
        for partition in partitions:
            member_id = self._waiting.get((group_id, topic_id, partition))
            if member_id is not None:
                self.look_at(group_id, member_id)

    @property
    def anybody_waits(self) -> bool:
        """Whether `freed` is worth a call."""
        return bool(self._waiting)

    def next_news(self) -> Held | None:
        """One of those for whom there may be news, taken from the list; None when there is nobody left."""
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
