"""The least shell around a `GroupShard`: a log in memory, virtual time, timers that fire in order.

After every step it checks what must always hold, also between two of a test's own assertions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from kohort.assignor.server import TopicShape
from kohort.coordinator import (
    ClientKind,
    Effects,
    GroupConfig,
    GroupSettings,
    GroupShard,
    GroupState,
    HeldHeartbeat,
    MetadataImage,
    RequestContext,
    Timer,
    Topic,
    Viewer,
)
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.timers import (
    ExpressionRefresh,
    HeldHeartbeatsDue,
    HeldSyncsDue,
    InitialRebalanceDelay,
    MemberRebalanceTimeout,
    NewPartitionsCheck,
    NotificationDue,
    OffsetExpiry,
    PendingMemberTimeout,
    RebalanceTimeout,
    SessionTimeout,
    SyncTimeout,
    TargetDue,
)
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message, decode, encode
from kohort.wire.group_log import GroupRecord, group_record
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key, encode_value
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.coordinator import consumer_checks

TOPIC_IDS = 10
"""In this version of OffsetCommit and OffsetFetch topics have ids, which a broker translates to names and back."""

Durable = dict[str, tuple[object, dict[TopicPartition, OffsetCommitValue]]]


@dataclass
class Shell:
    """One shard and everything that it needs."""

    config: GroupConfig = field(default_factory=GroupConfig)
    now: Millis = 1_000_000
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    timers: dict[Timer, tuple[Millis, int]] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)
    """The topics that there are."""
    settings: GroupSettings = field(default_factory=GroupSettings)
    """Of every consumer group."""
    may_describe: Callable[[Viewer, str], bool] | None = None
    """Whether a client, User: and its client id, may describe a topic; None: all may describe all."""
    is_down: bool = False
    """The shard hears nothing of topics that change, until it has failed over."""
    log_is_broken: bool = False
    """The log takes nothing, and so nobody is answered, until the shard has failed over."""

    def __post_init__(self) -> None:
        self._ids = count(1)
        self._order = count()
        self.generations: dict[str, int] = {}
        self.epochs = consumer_checks.Epochs()
        self._versions: dict[Hashable, int] = {}
        self._names: dict[UUID, str] = {}
        self.waiting: set[Hashable] = set()
        """Tokens that were not answered yet."""
        self.shard = self._new_shard()
        self.apply(self.shard.loaded(self.now))

    def _new_shard(self) -> GroupShard:
        shard = GroupShard(
            self.config,
            lambda: str(next(self._ids)),
            settings=lambda group_id: self.settings,
            may_describe=self.may_describe,
        )
        shard.metadata_changed(self.image, self.now)
        return shard

    # Requests and time

    def handle(
        self,
        request: Message,
        token: Hashable,
        version: int,
        client_id: str = "",
        *,
        client: ClientKind = ClientKind.OTHER,
        may_hold: bool = False,
    ) -> Effects:
        """Send one request; its answer is among the replies unless it has to wait."""
        self.expect(token, version)
        if version < TOPIC_IDS:
            request = decode(type(request), version, encode(request, version))
        viewer = None if self.may_describe is None else (f"User:{client_id}", client_id)
        context = RequestContext(token, version, client_id, f"/{client_id}", may_hold, client, viewer)
        return self.apply(self.shard.handle(request, context, self.now))

    def expect(self, token: Hashable, version: int) -> None:
        """Somebody waits for that answer."""
        assert token not in self.waiting
        self.waiting.add(token)
        self._versions[token] = version

    def beat(self, request: HeartbeatRequest, token: Hashable) -> Effects:
        """Send a heartbeat that may be held: then its answer follows later."""
        self.expect(token, 0)
        answer = self.shard.heartbeat(request, self.now, token)
        if isinstance(answer, HeldHeartbeat):
            return Effects()
        return self.apply(Effects(replies={token: HeartbeatResponse(error_code=answer)}))

    def disconnect(self, token: Hashable) -> Effects:
        """The connection of a waiting request breaks."""
        self.waiting.discard(token)
        return self.apply(self.shard.disconnected(token, self.now))

    def wait(self, duration: Millis) -> Iterator[Effects]:
        """Let time pass and timers fire; `now` is each one's time while its effects are looked at."""
        end = self.now + duration
        while self.timers:
            timer = min(self.timers, key=lambda pending: self.timers[pending])
            at, _ = self.timers[timer]
            if at > end:
                break
            self.now = max(self.now, at)
            del self.timers[timer]
            yield self.apply(self.shard.fire(timer, self.now))
        self.now = end

    def skip(
        self, duration: Millis, connected: Iterable[tuple[str, str]] = (), dead: Iterable[tuple[str, str]] = ()
    ) -> list[Effects]:
        """Let the clock jump, and whoever lives shall not notice."""
        for timer in self.shard.skip_time(duration, set(connected), set(dead), self.now) & self.timers.keys():
            at, order = self.timers[timer]
            self.timers[timer] = at + duration, order
        self.now += duration
        return list(self.wait(0))

    @property
    def names(self) -> Mapping[UUID, str]:
        """The names of all topics that there ever were, by id."""
        return self._names

    def topic_id(self, name: str) -> UUID:
        """The id of the topic that has that name now."""
        return self.image.by_name[name].topic_id

    def set_topics(self, topics: Mapping[str, int]) -> Effects:
        """Set the topics and their partition counts; a topic that did not exist gets a new id."""
        made = []
        for name, partitions in topics.items():
            old = self.image.by_name.get(name)
            topic_id = UUID(int=len(self._names) + 1) if old is None else old.topic_id
            self._names[topic_id] = name
            made.append(Topic(name, topic_id, TopicShape(partitions, name=name)))
        return self.change_topics(made)

    def change_topics(self, topics: Iterable[Topic]) -> Effects:
        """These are the topics from now on."""
        self.image = MetadataImage(topics, self.image.version + 1)
        if self.is_down:
            return Effects()
        return self.apply(self.shard.metadata_changed(self.image, self.now))

    def fail_over(self) -> Effects:
        """Give the shard up and load it elsewhere; returns what those who wait were told."""
        if self.log_is_broken:
            self.waiting &= self.shard.parked  # the shell tells the others itself
            self.log_is_broken = False
        told = self.apply(self.shard.resign())
        assert not self.waiting and not self.timers
        self.generations.clear()
        self.shard = self.loaded()
        self.apply(self.shard.loaded(self.now))
        return told

    def loaded(self, *, compacted: bool = False) -> GroupShard:
        """Another shard that has replayed the log."""
        shard = self._new_shard()
        log = dict(self.log).items() if compacted else self.log
        for key, value in log:
            shard.replay(decoded(key, value))
        return shard

    def apply(self, effects: Effects) -> Effects:
        """Do what the coordinator asks, in the order that it asks for, and check what must always hold."""
        for record in effects.records:
            value = None if record.value is None else encode_value(record.value)
            if not self.log_is_broken:
                self.log.append((encode_key(record.key), value))
            self.shard.replay(record)
        for timer, at in effects.timers.items():
            if at is None:
                self.timers.pop(timer, None)
            else:
                self.timers[timer] = (at, next(self._order))
        if self.log_is_broken:
            return Effects()
        for token, response in effects.replies.items():
            assert token in self.waiting, f"{token} is answered though it does not wait"
            self.waiting.remove(token)
            version = self._versions[token]
            if version < TOPIC_IDS:
                effects.replies[token] = decode(type(response), version, encode(response, version))
        self.check(changed=bool(effects.records))
        return effects

    # Invariants

    def check(self, *, changed: bool) -> None:
        """S1, S4 and L4 of every group; S10 after a change of what is durable."""
        groups = self.shard.groups
        self.generations = {
            group_id: generation for group_id, generation in self.generations.items() if group_id in groups
        }
        for group in groups.values():
            self._check_group(group)
        waiting = [p for g in groups.values() for p in (*g.rebalance.joining.values(), *g.rebalance.syncing.values())]
        assert self.shard.parked == {parked.token for parked in waiting if parked.token is not None}
        for timer in self.timers:
            assert self._is_of_use(timer), f"{timer} has nothing left to end"
        self.epochs.forget_all_but(self.shard.consumer_groups)
        for consumer_group in self.shard.consumer_groups.values():
            self.epochs.check(consumer_group, self.timers)
        if changed:
            live = durable(self.shard)
            assert durable(self.loaded()) == live, "replaying the log gives another state"
            assert durable(self.loaded(compacted=True)) == live, "replaying the compacted log gives another state"

    def _check_group(self, group: ClassicGroup) -> None:
        assert group.generation >= self.generations.get(group.group_id, 0), "a generation fell"
        self.generations[group.group_id] = group.generation
        assert (group.state is GroupState.EMPTY) == (not group.members) or group.state is GroupState.PREPARING_REBALANCE
        # Nobody leads a group that was a consumer group, before its members have joined again.
        leaderless = not group.members or group.state is GroupState.PREPARING_REBALANCE
        assert group.leader_id in group.members or (leaderless and group.leader_id is None)
        assert set(group.rebalance.joining) <= set(group.members)
        assert set(group.rebalance.syncing) <= set(group.members)
        assert group.static_ids == {
            m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None
        }
        assert not set(group.pending) & set(group.members)
        if group.state in (GroupState.STABLE, GroupState.EMPTY) and group.stored is not None:
            assert group.generation == group.stored.generation
            assert [m.member_id for m in group.stored.members] == list(group.members)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert group.protocol is not None
            assert all(group.protocol in member.protocols for member in group.members.values())
        if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
            assert self._ends(group), f"nothing will end {group.state.value}"
        for member in group.members.values():
            assert self._is_watched(group, member.member_id), f"nothing will end the session of {member.member_id}"

    def _is_of_use(self, timer: Timer) -> bool:
        if isinstance(timer, OffsetExpiry | HeldHeartbeatsDue):
            return True  # a member that gets an answer before the end of a hold leaves the timer to the others
        group = self.shard.groups.get(timer.group_id)
        if group is None:
            return consumer_checks.is_of_use(timer, self.shard.consumer_groups.get(timer.group_id))
        match timer:
            case SessionTimeout():
                return timer.member_id in group.members
            case PendingMemberTimeout():
                return timer.member_id in group.pending
            case InitialRebalanceDelay():
                return group.state is GroupState.PREPARING_REBALANCE and group.rebalance.initial
            case RebalanceTimeout():
                return group.state is GroupState.PREPARING_REBALANCE and not group.rebalance.initial
            case SyncTimeout():
                return group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
            case NotificationDue():
                return group.state is GroupState.PREPARING_REBALANCE  # a heartbeat that ends it sets no timers
            case HeldSyncsDue():
                return group.rebalance.revoking_members is not None
            case NewPartitionsCheck():
                return True
            case MemberRebalanceTimeout() | ExpressionRefresh() | TargetDue():
                return False
            case _:
                assert_never(timer)

    def _ends(self, group: ClassicGroup) -> bool:
        if group.state is GroupState.COMPLETING_REBALANCE:
            return SyncTimeout(group.group_id) in self.timers
        return InitialRebalanceDelay(group.group_id) in self.timers or RebalanceTimeout(group.group_id) in self.timers

    def _is_watched(self, group: ClassicGroup, member_id: str) -> bool:
        """Either a timer looks at the session, or an answer is owed that starts it anew."""
        owed = member_id in group.rebalance.joining or member_id in group.rebalance.syncing
        return owed or SessionTimeout(group.group_id, member_id) in self.timers


def durable(shard: GroupShard) -> Durable:
    """Return the state of a shard that survives a failover."""
    consumer_groups = {group.group_id: consumer_checks.durable(group) for group in shard.consumer_groups.values()}
    return consumer_groups | {
        group_id: (
            group.stored,
            consumer_checks.committed(group),
        )
        for group_id, group in shard.groups.items()
        if group.stored is not None or group.offsets
    }


def decoded(key_bytes: bytes, value_bytes: bytes | None) -> GroupRecord:
    key = decode_key(key_bytes)
    assert key is not None
    return group_record(key, None if value_bytes is None else decode_value(key, value_bytes))
