"""Real members and a real coordinator in virtual time, with a network between them that takes a while and breaks.

Each member has one connection, whose requests the broker takes one after the other, as Kafka does.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from kohort.assignor import Assignor, find_assignors
from kohort.coordinator import Effects, GroupConfig, GroupSettings, Weights
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.errors import ErrorCode, KafkaError
from kohort.group_events import GroupEvent
from kohort.member import (
    Actions,
    AnyMember,
    CallbackDone,
    ClassicMember,
    CommitRequested,
    ConsumerMember,
    ConsumerMemberConfig,
    CoordinatorFound,
    CoordinatorUnavailable,
    Event,
    Leave,
    MemberConfig,
    MemberTimer,
    MetadataChanged,
    OffsetAndMetadata,
    Phase,
    PollEnded,
    PollStarted,
    RequestFailed,
    Responded,
    Send,
    Subscribe,
    TimerFired,
)
from kohort.model import Millis, TopicPartition
from kohort.wire.api import APIS
from kohort.wire.codec import Message, decode, encode
from kohort.wire.group_log import CommittedOffset
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.shell import Shell

GROUP = "g"
DELAY_MS = 5
SESSION_MS = GroupSettings().session_timeout_ms
_BY_NAME = {8: 9}  # OffsetCommit from version 10 on names topics by id


def tps(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    """Some partitions of a topic."""
    return frozenset(TopicPartition(topic, number) for number in numbers)


class World:
    """One coordinator, some topics, and members that come and go."""

    def __init__(self, partitions: Mapping[str, int], config: GroupConfig | None = None) -> None:
        self.partitions = dict(partitions)
        self.racks: dict[TopicPartition, frozenset[str]] = {}
        self.shell = Shell(config or GroupConfig(initial_rebalance_delay_ms=0))
        self.shell.settings = GroupSettings(assignment_interval_ms=0)
        self.shell.set_topics(self.partitions)
        self.hosts: list[Host] = []
        self.events: list[GroupEvent] = []
        """What the recorder is told."""
        self.coordinator_is_lost = False
        self._agenda: list[tuple[Millis, int, Callable[[], object]]] = []
        self._order = count()
        self._tokens = count(1)
        self._asked: dict[int, tuple[Host, _Request]] = {}

    @property
    def now(self) -> Millis:
        return self.shell.now

    def at(self, delay: Millis, what: Callable[[], object]) -> None:
        """Do it later."""
        heapq.heappush(self._agenda, (self.now + delay, next(self._order), what))

    def run(self, duration: Millis) -> None:
        """Let time pass."""
        end = self.now + duration
        while (due := self._next_due()) <= end:
            for effects in self.shell.wait(max(due - self.now, 0)):
                self._deliver(effects)
            while self._agenda and self._agenda[0][0] <= self.now:
                heapq.heappop(self._agenda)[2]()
                self.check_exclusive()
        self.shell.now = end

    def _next_due(self) -> Millis:
        """When the network, an application or the coordinator does something next."""
        due = [at for at, _ in self.shell.timers.values()]
        if self._agenda:
            due.append(self._agenda[0][0])
        return min(due)

    def run_until(self, condition: Callable[[], bool], within: Millis = 60_000) -> None:
        """Let time pass until it holds; an assertion when it does not in time."""
        end = self.now + within
        while not condition():
            assert self.now < end, "it did not come to pass"
            self.run(10)

    def settle(self) -> None:
        """Let time pass until every member is stable and has no callback running."""
        self.run_until(lambda: all(host.is_settled for host in self.hosts if host.wants_in))

    def host(
        self,
        name: str,
        *topics: str,
        assignors: str | Sequence[Assignor] = "cooperative-sticky",
        instance_id: str | None = None,
        callback_ms: Millis = 0,
        session_timeout_ms: Millis = 45_000,
        max_poll_interval_ms: Millis = 300_000,
        rack_id: str | None = None,
    ) -> Host:
        """A member that subscribes at once."""
        config = MemberConfig(
            group_id=GROUP,
            assignors=tuple(find_assignors(assignors.split(",") if isinstance(assignors, str) else assignors)),
            instance_id=instance_id,
            session_timeout_ms=session_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            rack_id=rack_id,
        )
        made = Host(self, name, ClassicMember(config), callback_ms)
        self.hosts.append(made)
        if topics:
            made.handle(Subscribe(frozenset(topics)))
        return made

    def consumer(
        self,
        name: str,
        *topics: str,
        expression: str | None = None,
        instance_id: str | None = None,
        callback_ms: Millis = 0,
        max_poll_interval_ms: Millis = 300_000,
        assignors: Sequence[str | Assignor] = (),
        weight: float | None = None,
    ) -> Host:
        """A member of the consumer protocol that subscribes at once; its member id is its name."""
        config = ConsumerMemberConfig(
            group_id=GROUP,
            member_id=name,
            instance_id=instance_id,
            max_poll_interval_ms=max_poll_interval_ms,
            client_assignors=tuple(find_assignors(assignors)) if assignors else (),
            weight=weight,
        )
        made = Host(self, name, ConsumerMember(config), callback_ms)
        self.hosts.append(made)
        if topics or expression:
            made.handle(Subscribe(frozenset(topics), expression))
        return made

    @property
    def consumer_group(self) -> ConsumerGroup:
        """The group, where it is one of the consumer protocol."""
        return self.shell.shard.consumer_groups[GROUP]

    @property
    def members(self) -> int:
        """How many members the coordinator counts."""
        return len(self.shell.shard.groups[GROUP].members)

    @property
    def generation(self) -> int:
        return self.shell.shard.groups[GROUP].generation

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """State of the coordinator."""
        return {
            TopicPartition(topic, partition): record.offset
            for topic, stored in self._offsets.items()
            for partition, record in stored.items()
        }

    @property
    def _offsets(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        groups = self.shell.shard.groups
        return groups[GROUP].offsets if GROUP in groups else self.consumer_group.offsets

    def check_exclusive(self) -> None:
        """Check S1 for members that were neither suspended nor disconnected."""
        seen: dict[object, str] = {}
        for host in self.hosts:
            cut_off = self.now - host.heard_at > host.session_timeout_ms
            # A member that learns in a callback that it was removed ends that callback first.
            thrown_out = host.member.generation is None
            if host.may_be_a_zombie or host.stopped or cut_off or thrown_out:
                continue
            for partition in host.processing:
                which = host.identity(partition)
                assert which not in seen, f"{partition} is processed by {seen[which]} and {host.name}"
                seen[which] = host.name

    def owners(self) -> dict[TopicPartition, str]:
        """Return the partitions that each member processes."""
        return {partition: host.name for host in self.hosts if not host.stopped for partition in host.processing}

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Set the topic's partition count; the members learn of it later."""
        self.partitions[topic] = partitions
        self._topics_changed()

    def delete_topic(self, topic: str) -> None:
        """Delete the topic; the members learn of it later."""
        del self.partitions[topic]
        self._topics_changed()

    def _topics_changed(self) -> None:
        self._deliver(self.shell.set_topics(self.partitions))
        self._tell_metadata()

    def set_weights(self, weights: Weights) -> None:
        """An operator weighs the members."""
        self.shell.settings = replace(self.shell.settings, weights=weights)
        shard = self.shell.shard
        self._deliver(self.shell.apply(shard.settings_changed(list(shard.consumer_groups), self.now)))

    def move_replicas(self, racks: Mapping[TopicPartition, frozenset[str]]) -> None:
        """Set the racks of the partitions' replicas; the members learn of it later."""
        self.racks |= racks
        self._tell_metadata()

    def _tell_metadata(self) -> None:
        for host in self.hosts:
            self.at(20, host.tell_metadata)

    def fail_over(self) -> None:
        """End the coordinator's broker; the next one loads the group from its log."""
        self._deliver(self.shell.fail_over())

    # -- the network

    def submit(self, host: Host, request: _Request) -> None:
        """A request has arrived at the broker."""
        token = next(self._tokens)
        self._asked[token] = host, request
        message = request.message
        if self.coordinator_is_lost:
            del self._asked[token]
            host.answered(request, _refusal(message, ErrorCode.NOT_COORDINATOR))
            return
        request.token = token
        self._deliver(self.shell.handle(message, token, _version(message), host.name))

    def disconnected(self, request: _Request) -> None:
        """The connection of a request that the broker has is gone."""
        if request.token in self._asked:
            del self._asked[request.token]
            if request.token in self.shell.waiting:
                self.shell.disconnect(request.token)

    def _deliver(self, effects: Effects) -> None:
        self.events += effects.events
        for token, reply in effects.replies.items():
            assert isinstance(token, int)
            asked = self._asked.pop(token, None)
            if asked is not None:
                host, request = asked
                version = _version(request.message)
                # Over the wire and back: nothing is shared by reference.
                copy = decode(type(reply), version, encode(reply, version))
                self.at(DELAY_MS, partial(host.answered, request, copy))


@dataclass(eq=False)
class _Request:
    number: int
    message: Message
    connection: int
    token: int = 0


@dataclass(eq=False)
class Host:
    """A member with its application: `callback_ms` is how long each of its callbacks takes."""

    world: World
    name: str
    member: AnyMember
    callback_ms: Millis
    told: list[str] = field(default_factory=list)
    """What the application was told, in order."""
    processing: set[TopicPartition] = field(default_factory=set)
    settled: dict[int, Mapping[TopicPartition, ErrorCode]] = field(default_factory=dict)
    errors: list[KafkaError] = field(default_factory=list)
    stopped: bool = False
    may_be_a_zombie: bool = False
    wants_in: bool = True
    lookups: int = 0
    sent: list[type[Message]] = field(default_factory=list)
    heartbeats: list[ConsumerGroupHeartbeatRequest] = field(default_factory=list)
    """Those of a consumer group, as the coordinator reads them."""
    warnings: list[str] = field(default_factory=list)
    is_blind: bool = False
    """No metadata reaches it."""
    asked: list[int] = field(default_factory=list)
    """Commits that must be settled in the end."""
    on_revoked: Callable[[frozenset[TopicPartition]], object] | None = None
    callback_runs: bool = False

    def __post_init__(self) -> None:
        self.heard_at = self.world.now
        self._connection = 1
        self._queue: deque[_Request] = deque()
        self._timers: dict[MemberTimer, int] = {}
        self._timer_ids = count(1)
        self._watched: frozenset[str] = frozenset()
        self._commits = count(1)

    @property
    def is_settled(self) -> bool:
        return self.member.phase is Phase.STABLE and not self.callback_runs and self.processing == self.member.owned

    @property
    def session_timeout_ms(self) -> Millis:
        """Time after which the coordinator removes a silent member."""
        config = self.member.config
        return config.session_timeout_ms if isinstance(config, MemberConfig) else SESSION_MS

    def identity(self, partition: TopicPartition) -> object:
        """The partition of a recreated topic is not the partition of the earlier topic."""
        if isinstance(self.member, ConsumerMember):
            topic_id = self.member.ids.get(partition.topic)
        else:
            known = self.world.shell.image.by_name.get(partition.topic)
            topic_id = None if known is None else known.topic_id
        return topic_id or partition.topic, partition.partition

    def handle(self, event: Event) -> None:
        """Give the member an event and do what it says."""
        if self.stopped:
            return
        self._apply(self.member.handle(event, self.world.now))

    def commit(self, offsets: Mapping[TopicPartition, int], within: Millis = 60_000) -> int:
        """Ask for a commit; `settled` gets its outcome under the number returned."""
        number = next(self._commits)
        positions = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        self.handle(CommitRequested(number, positions, self.world.now + within))
        return number

    def leave(self) -> None:
        self.wants_in = False
        self.handle(Leave())

    def poll(self) -> None:
        """Let the application poll and then process records at once."""
        self.handle(PollStarted())
        self.handle(PollEnded())

    def crash(self) -> None:
        """The process is gone, and its connection with it."""
        self.stopped = True
        self.wants_in = False
        self._cut()

    def reset_connection(self) -> None:
        """Requests and responses in flight are lost."""
        for request in self._cut():
            self.world.at(DELAY_MS, partial(self.handle, RequestFailed(request.number)))

    def _cut(self) -> list[_Request]:
        lost = list(self._queue)
        self._queue.clear()
        self._connection += 1
        for request in lost:
            self.world.disconnected(request)
        return lost

    def tell_metadata(self) -> None:
        if self.is_blind:
            return
        known = {topic: n for topic, n in self.world.partitions.items() if topic in self._watched}
        names = {topic.topic_id: name for name, topic in self.world.shell.image.by_name.items()}
        self.handle(MetadataChanged(known, self._watched, dict(self.world.racks), names))

    def answered(self, request: _Request, response: Message) -> None:
        if request.connection != self._connection or self.stopped:
            return
        assert self._queue and self._queue[0] is request, "answers come in the order of the requests"
        self._queue.popleft()
        if getattr(response, "error_code", None) != ErrorCode.NOT_COORDINATOR:
            self.heard_at = self.world.now
        self._submit_next()
        self.handle(Responded(request.number, response))

    def _apply(self, actions: Actions) -> None:
        world = self.world
        for timer, at in actions.timers.items():
            self._arm(timer, at)
        if actions.find_coordinator:
            self.lookups += 1
            world.at(2 * DELAY_MS, self._found)
        for send in actions.send:
            self._send(send)
        if actions.metadata is not None:
            self._watched = actions.metadata
            world.at(2 * DELAY_MS, self.tell_metadata)
        for done in actions.settled:
            self.settled[done.commit] = done.errors
        if actions.warning is not None:
            self.warnings.append(actions.warning)
        if actions.error is not None:
            self.errors.append(actions.error)
            self.wants_in = False
        if actions.assign is not None:
            self.told.append(f"assigned {_numbers(actions.assign)}")
            self.processing |= actions.assign
            self._begin_callback(lambda: None)
        if actions.lost is not None:
            self.told.append(f"{'deleted' if actions.deleted else 'lost'} {_numbers(actions.lost)}")
            self.processing -= actions.lost
            self._begin_callback(lambda: None)
        if actions.revoke is not None:
            revoked = actions.revoke
            self.told.append(f"revoked {_numbers(revoked)}")
            if self.on_revoked is not None:
                world.at(0, partial(self.on_revoked, revoked))
            self._begin_callback(lambda: self.processing.difference_update(revoked))

    def _begin_callback(self, end: Callable[[], None]) -> None:
        assert not self.callback_runs, "one callback at a time"
        self.callback_runs = True

        def done() -> None:
            self.callback_runs = False
            end()
            self.handle(CallbackDone())

        self.world.at(max(self.callback_ms, 1), done)

    def _found(self) -> None:
        if self.world.coordinator_is_lost:
            self.handle(CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self.handle(CoordinatorFound())

    def _arm(self, timer: MemberTimer, at: Millis | None) -> None:
        self._timers.pop(timer, None)
        if at is None:
            return
        number = self._timers[timer] = next(self._timer_ids)
        assert at >= self.world.now, "a timer in the past would fire forever"

        def fire() -> None:
            if self._timers.get(timer) == number:
                del self._timers[timer]
                self.handle(TimerFired(timer))

        self.world.at(at - self.world.now, fire)

    def _send(self, send: Send) -> None:
        self.sent.append(type(send.message))
        version = _version(send.message)
        copy = decode(type(send.message), version, encode(send.message, version))
        if isinstance(copy, ConsumerGroupHeartbeatRequest):
            self.heartbeats.append(copy)
        request = _Request(send.request, copy, self._connection)
        self._queue.append(request)
        if len(self._queue) == 1:
            self._submit_next()

    def _submit_next(self) -> None:
        if not self._queue:
            return
        request = self._queue[0]

        def arrive() -> None:
            if request.connection == self._connection and not self.stopped:
                self.world.submit(self, request)

        self.world.at(DELAY_MS, arrive)


def _version(message: Message) -> int:
    return _BY_NAME.get(message.KEY, APIS[message.KEY].max_version)


def _refusal(message: Message, code: ErrorCode) -> Message:
    response = APIS[message.KEY].response()
    if hasattr(response, "error_code"):
        response.error_code = code
    return response


def _numbers(partitions: frozenset[TopicPartition]) -> str:
    return ",".join(str(partition.partition) for partition in sorted(partitions)) or "-"
