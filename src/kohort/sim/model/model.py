"""Exhaustive exploration of a small world: every order of events up to a depth; equal states count once.

There are three members, one topic with three partitions, and two brokers, one of which is the
coordinator. Each event is atomic: a member sends its next request and all available responses are
delivered, the earliest timer fires, or another broker takes over, before or after an append is
durable. The model certainly reaches, within its bounds, states that the seeds of `World` reach by
chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kohort.assignor.server import TopicShape
from kohort.coordinator import Effects, GroupConfig, GroupShard, MetadataImage, RequestContext, Topic
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.sim.checks import CheckedCoordinator, GroupProgress, Observations
from kohort.sim.model.members import GROUP, PARTITIONS, TOPIC, ClassicModel, ConsumerModel
from kohort.wire.codec import Message
from kohort.wire.group_log import decode_key, decode_value, encode_records, group_record

MEMBERS = 3
TOPIC_ID = UUID(int=7)
_START: Millis = 1_000_000
_ID = re.compile(r"id-\d+")

Event = tuple[str, int]
"""Kind of event, and the number of the member concerned."""

EVENTS: tuple[Event, ...] = (
    *(("step", number) for number in range(MEMBERS)),
    *(("lost", number) for number in range(MEMBERS)),
    *(("commit", number) for number in range(MEMBERS)),
    *(("leave", number) for number in range(MEMBERS)),
    ("timer", 0),
    ("failover", 0),
)


class _UncheckedProgress(GroupProgress):
    """Progress without checks of commits, because the model's members process nothing."""

    def durable(self, group: str, topic_id: UUID, partition: TopicPartition, value: OffsetAndMetadata | None) -> None:
        """Ignore a durable commit."""


class Model:
    """One path of events. Raises Violation if an invariant is violated."""

    def __init__(self, protocol: str) -> None:
        self.now = _START
        self.members: list[ClassicModel | ConsumerModel] = [
            ClassicModel(f"c{number}") if protocol == "classic" else ConsumerModel(f"c{number}")
            for number in range(MEMBERS)
        ]
        self._progress = _UncheckedProgress()
        self._observations = Observations(self._progress, 1, lambda text: None)
        self._observations.names = lambda: {TOPIC_ID: TOPIC}
        self._observations.most = lambda topic: PARTITIONS if topic == TOPIC else 0
        self._log: list[tuple[bytes, bytes | None]] = []
        self._ids = 0
        self._asked: dict[tuple[int, int], Message] = {}
        self._tokens = 0
        self._coordinator = self._load()

    def _load(self) -> CheckedCoordinator:
        self._observations.live.clear()
        machine = GroupShard(GroupConfig(), self._fresh_id)
        coordinator = CheckedCoordinator(self._observations, machine, 0, lambda: True)
        for key_bytes, value_bytes in self._log:
            key = decode_key(key_bytes)
            assert key is not None
            machine.replay(group_record(key, None if value_bytes is None else decode_value(key, value_bytes)))
        self._coordinator = coordinator
        self._apply(coordinator.metadata_changed(_TOPICS, self.now))
        self._apply(coordinator.loaded(self.now))
        return coordinator

    def _fresh_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    # Events

    def play(self, event: Event) -> bool:
        """Execute the event; return False if it has no effect."""
        what, number = event
        member = self.members[number]
        request: Message | None
        match what:
            case "timer":
                return self._fire()
            case "failover":
                self._fail_over()
                return True
            case "commit":
                request = member.commit()
            case "leave":
                request = member.leave()
            case _:
                request = member.next_request()
        if request is None or member.waits:
            return False
        self._send(number, request, durable=what != "lost")
        if what == "lost":
            self._fail_over()
        return True

    def _send(self, number: int, request: Message, *, durable: bool) -> None:
        self._tokens += 1
        token = number, self._tokens
        member = self.members[number]
        self._asked[token] = request
        member.waits = True
        version = member.version(request)
        context = RequestContext(token, version, f"c{number}", f"/c{number}")
        self._apply(self._coordinator.handle(request, context, self.now), durable=durable)

    def _fire(self) -> bool:
        timers = self._coordinator.timers
        due = [(at, repr(timer), timer) for timer, at in timers.items() if type(timer).__name__ != "OffsetExpiry"]
        if not due:
            return False
        at, _, timer = min(due, key=lambda entry: entry[:2])
        self.now = max(self.now, at)
        self._apply(self._coordinator.fire(timer, self.now))
        return True

    def _fail_over(self) -> None:
        for number, _ in list(self._asked):
            self.members[number].disconnected()
        self._asked.clear()
        self._coordinator = self._load()

    def _apply(self, effects: Effects, *, durable: bool = True) -> None:
        if effects.records:
            self._coordinator.replay_all(effects.records)
            if not durable:
                return  # the log has no record, so no response is sent
            pairs = encode_records(effects.records)
            self._log += pairs
            self._observations.pairs_written(0, pairs)
        for token, response in effects.replies.items():
            if isinstance(token, tuple) and token in self._asked:
                del self._asked[token]
                self.members[token[0]].answered(response)

    # States

    def state(self) -> int:
        """Return a number that is equal for states with equal possible futures, independent of generated ids."""
        machine = self._coordinator.machine
        group = machine.groups.get(GROUP) or machine.consumer_groups.get(GROUP)
        timers = sorted((repr(timer), at - self.now) for timer, at in self._coordinator.timers.items())
        text = "|".join((*map(repr, self.members), _described(group), repr(timers)))
        names: dict[str, str] = {}
        return hash(_ID.sub(lambda found: names.setdefault(found[0], f"#{len(names)}"), text))


_TOPICS = MetadataImage([Topic(TOPIC, TOPIC_ID, TopicShape(PARTITIONS))])


def _described(group: object) -> str:
    return repr([(name, getattr(group, name)) for name in _TELLING if hasattr(group, name)])


_TELLING = (
    "state",
    "generation",
    "protocol",
    "leader_id",
    "members",
    "pending",
    "epoch",
    "target_epoch",
    "targets",
)
"""Attributes of a group of either type that determine its possible events."""


@dataclass(slots=True)
class Explored:
    """Statistics of an exploration."""

    states: int = 0
    """Number of distinct states."""
    events: int = 0
    """Number of events played at the ends of paths."""


def explore(protocol: str, depth: int) -> Iterator[Explored]:
    """Explore every order of events up to that depth, breadth first; yield after each level. Raises Violation.

    Each path is played from its beginning, which is cheaper than copying a world. Only the first of
    several equal states is followed.
    """
    seen = {Model(protocol).state()}
    level: list[tuple[Event, ...]] = [()]
    explored = Explored(states=1)
    for _ in range(depth):
        following = []
        for path in level:
            for event in EVENTS:
                model = Model(protocol)
                for earlier in path:
                    model.play(earlier)
                if not model.play(event):
                    continue
                explored.events += 1
                state = model.state()
                if state not in seen:
                    seen.add(state)
                    following.append((*path, event))
        level = following
        explored.states = len(seen)
        yield explored
