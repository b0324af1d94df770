"""Hops of each partition that changed its owner: which step of which process took how long.

Members and broker of the laboratory read the same clock, so their events have one axis. A hop ends at a
moment and begins at the one before it; a move lacks the moments that its protocol does not have, or that
were not observed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeVar

from kohort.lab.broker_trace import BrokerTrace, Request
from kohort.lab.events import Assigned, Event, Joining, Ready
from kohort.lab.lab_group import Trigger
from kohort.lab.processing import NOBODY, Dark, processing
from kohort.wire.messages.api_key import ApiKey

BROKER, OLD, NEW, EXPERIMENT = "broker", "old owner", "new owner", "experiment"
"""What a hop's time belongs to."""

STEPS: dict[str, str] = {
    "new member begins to join": EXPERIMENT,
    "its request to join is received": NEW,
    "request of the old owner is received": OLD,
    "old owner is answered": BROKER,
    "old owner stops": OLD,
    "callback of the old owner ends": OLD,
    "release is received": OLD,
    "new owner is notified": BROKER,
    "its JoinGroup is received": NEW,
    "its JoinGroup is answered": BROKER,
    "its request for the assignment is received": NEW,
    "decision is appended": BROKER,
    "decision is synced": BROKER,
    "assignment is answered": BROKER,
    "callback of the new owner begins": NEW,
    "callback of the new owner ends": NEW,
    "request for the position is received": NEW,
    "position is answered": BROKER,
    "fetch of other partitions is answered": BROKER,
    "fetch is received": NEW,
    "fetch is answered": BROKER,
    "first record is read": NEW,
}
"""All hops, each by the moment at which it ends, in order; and what its time belongs to."""

_NUMBERS = {step: number for number, step in enumerate(STEPS)}
_CALLBACK = ("callback of the new owner begins", "callback of the new owner ends")
"""Moments that some clients do not wait for: they ask for the position and fetch before or during the callback."""
_RECORDED = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SYNC_GROUP})
"""Requests whose answer assigns partitions."""

_E = TypeVar("_E", bound=Event)


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a move, in monotonic nanoseconds."""

    step: str
    """The moment at which it ends, a key of STEPS."""
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Move:
    """Change of a partition's owner after a trigger, hop by hop."""

    partition: int
    before: str
    after: str
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class HopSummary:
    """One hop in all moves."""

    step: str
    count: int
    """Number of moves that have it."""
    mean_ms: float
    median_ms: float
    largest_ms: float
    share: float
    """Its part of the time of all moves."""


def moves(events: Iterable[Event], triggers: Sequence[Trigger], traced: BrokerTrace | None) -> list[Move]:
    """Return all partitions that changed their owner, from their trigger to the first record that the new owner read.

    Without `traced`, only the hops between events of members are known.
    """
    ordered = sorted(events, key=lambda event: event.at)
    _, dark = processing(ordered, triggers)
    found = []
    for interval in dark:
        begun = [trigger.at for trigger in triggers if trigger.at <= interval.begin]
        if begun and NOBODY not in (interval.before, interval.after) and interval.before != interval.after:
            found.append(_Observed(ordered, traced, interval, begun[-1]).move())
    return found


def summarise_hops(found: Sequence[Move]) -> list[HopSummary]:
    """Return the hops of these moves, in order."""
    whole = sum(hop.end - hop.begin for move in found for hop in move.hops)
    summaries = []
    for step in STEPS:
        took = [hop.end - hop.begin for move in found for hop in move.hops if hop.step == step]
        if took:
            mean, middle, largest = fmean(took) / 1e6, median(took) / 1e6, max(took) / 1e6
            summaries.append(HopSummary(step, len(took), mean, middle, largest, sum(took) / max(1, whole)))
    return summaries


class _Observed:
    """Search for the moments of one move."""

    def __init__(self, ordered: Sequence[Event], traced: BrokerTrace | None, dark: Dark, trigger: int) -> None:
        self._dark = dark
        self._trigger = trigger
        window = [event for event in ordered if trigger <= event.at <= dark.end]
        self._old = [event for event in window if event.member == dark.before]
        self._new = [event for event in window if event.member == dark.after]
        requests, self._syncs = (traced.requests, traced.syncs) if traced is not None else ((), ())
        window_of_broker = [request for request in requests if trigger <= request.answered <= dark.end]
        self._of_old = [request for request in window_of_broker if request.client == dark.before]
        self._of_new = [request for request in window_of_broker if request.client == dark.after]

    def move(self) -> Move:
        """Return the move. A moment that is not between its neighbours belongs to something else, and is left out."""
        times = self._times()
        moments = [
            *self._ordered(times, [step for step in STEPS if step not in _CALLBACK]),
            *self._ordered(times, _CALLBACK),
        ]
        hops: list[Hop] = []
        at = self._trigger
        for time, step in sorted(moments, key=lambda moment: (moment[0], _NUMBERS[moment[1]])):
            hops.append(Hop(step, at, time))
            at = time
        return Move(self._dark.partition, self._dark.before, self._dark.after, tuple(hops))

    def _ordered(self, times: Mapping[str, int | None], steps: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Return the moments of these steps, without those that are earlier than the one before them."""
        at = self._trigger
        for step in steps:
            time = times.get(step)
            if time is not None and at <= time <= self._dark.end:
                yield time, step
                at = time

    def _times(self) -> dict[str, int | None]:
        partition, stopped = self._dark.partition, self._dark.begin
        joining = _first(self._new, Joining, lambda event: True)
        joined = _request(self._of_new, lambda each: joining is not None and _joins(each) and each.received >= joining)
        told = [each for each in self._of_old if each.answered <= stopped and _has_news(each)]
        last = max(told, key=lambda each: each.answered, default=None)
        released = _request(self._of_old, lambda each: each.received >= stopped and _releases(each, partition))
        free = stopped if released is None else released.received
        assigned = _first(self._new, Assigned, lambda event: partition in event.partitions and event.at >= stopped)
        given = _request(
            self._of_new,
            lambda each: each.api in _RECORDED and partition in (each.told or ()) and each.answered >= stopped,
        )
        times = {
            "new member begins to join": joining,
            "its request to join is received": None if joined is None else joined.received,
            "request of the old owner is received": None if last is None else last.received,
            "old owner is answered": None if last is None else last.answered,
            "old owner stops": stopped,
            "callback of the old owner ends": _first(self._old, Ready, lambda event: event.at >= stopped),
            "release is received": None if released is None else released.received,
            "callback of the new owner begins": assigned,
            "callback of the new owner ends": _first(
                self._new, Ready, lambda event: assigned is not None and event.at >= assigned
            ),
            "first record is read": self._dark.end,
        }
        return times | self._until_given(given, free) | self._until_fetched(given)

    def _until_given(self, given: Request | None, free: int) -> dict[str, int | None]:
        """Return the moments from the partition's release until the answer that assigns it."""
        if given is None:
            return {}
        between = [each for each in self._of_new if free <= each.answered <= given.answered]
        notified = [each.answered for each in between if each.api == ApiKey.HEARTBEAT and each.code]
        joins = [each for each in between if each.api == ApiKey.JOIN_GROUP]
        asked = given.received if given.received >= free else None
        begin = max(free, given.received)
        syncs = [sync for sync in self._syncs if begin <= sync[0] and sync[1] <= given.answered]
        return {
            "new owner is notified": max(notified, default=None),
            "its JoinGroup is received": max((each.received for each in joins), default=None),
            "its JoinGroup is answered": max((each.answered for each in joins), default=None),
            "its request for the assignment is received": asked,
            "decision is appended": syncs[-1][0] if syncs else None,
            "decision is synced": syncs[-1][1] if syncs else None,
            "assignment is answered": given.answered,
        }

    def _until_fetched(self, given: Request | None) -> dict[str, int | None]:
        """Return the moments from the answer that assigns the partition until its first records are sent."""
        partition = self._dark.partition
        since = self._dark.begin if given is None else given.answered
        later = [each for each in self._of_new if each.answered >= since]
        fetches = [each for each in later if each.api == ApiKey.FETCH]
        asked = _request(fetches, lambda each: each.received >= since and partition in (each.asked or ()))
        found = _request(
            fetches,
            lambda each: asked is not None and each.answered >= asked.received and partition in (each.told or ()),
        )
        position = _request(
            later,
            lambda each: each.api == ApiKey.OFFSET_FETCH and partition in (each.asked or ()) and each.received >= since,
        )
        others = [
            each.answered
            for each in fetches
            if asked is not None and each.received < asked.received and each.answered <= asked.received
        ]
        return {
            "request for the position is received": None if position is None else position.received,
            "position is answered": None if position is None else position.answered,
            "fetch of other partitions is answered": max(others, default=None),
            "fetch is received": None if asked is None else asked.received,
            "fetch is answered": None if found is None else found.answered,
        }


def _first(events: Iterable[Event], kind: type[_E], fits: Callable[[_E], bool]) -> int | None:
    return next((event.at for event in events if isinstance(event, kind) and fits(event)), None)


def _request(requests: Iterable[Request], fits: Callable[[Request], bool]) -> Request | None:
    return next((request for request in requests if fits(request)), None)


def _joins(request: Request) -> bool:
    heartbeat = request.api == ApiKey.CONSUMER_GROUP_HEARTBEAT and request.epoch == 0
    return heartbeat or request.api == ApiKey.JOIN_GROUP


def _has_news(request: Request) -> bool:
    """Return whether the answer makes a member change its partitions."""
    if request.api == ApiKey.HEARTBEAT:
        return bool(request.code)
    return request.api in _RECORDED and request.told is not None


def _releases(request: Request, partition: int) -> bool:
    """Return whether the request tells the coordinator that its member has stopped reading the partition."""
    if request.api == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        leaves = request.epoch is not None and request.epoch < 0
        return leaves or (request.asked is not None and partition not in request.asked)
    return request.api in (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP)
