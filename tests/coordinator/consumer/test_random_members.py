"""Members of consumer groups that do right and wrong things in any order: the invariants hold after every step.

After each step the shell checks S1, S4, S10 and that something ends every session and revocation; here it is checked
that what members believe to own is theirs alone, that stale requests change nothing (S5), that acknowledged commits
stay (S7), and that groups come to rest (L1) and leave nothing behind (S15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kohort.coordinator import Effects, GroupConfig, GroupSettings
from kohort.coordinator.consumer.states import ConsumerGroupState
from kohort.coordinator.timers import OffsetExpiry
from kohort.errors import ErrorCode
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.coordinator.shell import Shell, durable

SESSION: Millis = 10_000
REBALANCE: Millis = 15_000
GROUP = "g"

Owned = frozenset[tuple[UUID, int]]

FATAL = {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
AGAIN = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}


@dataclass
class Member:
    """A client, through all its lives."""

    name: str
    instance_id: str | None = None
    topics: tuple[str, ...] = ("orders",)
    expression: str | None = None
    assignor: str | None = None
    life: int = 0
    epoch: int = 0
    owned: Owned = frozenset()
    """What it processes."""
    told: Owned = frozenset()
    """What it was last told to have."""
    heard_at: Millis = 0
    """When it was last answered well."""
    is_sure: bool = False
    """Its last heartbeat was answered, so that it need not say everything again."""
    has_news: bool = False
    """It was told something that it has not reported as done."""
    changed: bool = False
    """It asks for something else since then."""
    stopped: bool = False

    @property
    def member_id(self) -> str:
        return f"{self.name}{self.life}"

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """Its next heartbeat: what it was told to give up it has given up by then."""
        self.owned &= self.told
        full = not self.is_sure or self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if full or self.changed:
            request.subscribed_topic_names = list(self.topics)
            request.subscribed_topic_regex = self.expression or ("" if self.changed else None)
            request.server_assignor = self.assignor
        if full:
            request.rebalance_timeout_ms = REBALANCE
        if full or self.has_news:
            request.topic_partitions, self.has_news = reported(self.owned), False
        return request

    def commit(self, offset: int, names: dict[UUID, str]) -> OffsetCommitRequest:
        """How far it is, in all that it owns."""
        return OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=names[topic_id],
                    topic_id=topic_id,
                    partitions=[OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)],
                )
                for topic_id, number in sorted(self.owned)
            ],
        )

    def receive(self, response: ConsumerGroupHeartbeatResponse, now: Millis) -> None:
        """Do what a client does."""
        code = ErrorCode(response.error_code)
        if code in AGAIN:
            self.lose()
        elif code in FATAL:
            self.lose()
            self.stopped = True
        else:
            assert code == ErrorCode.NONE, code
            self.epoch, self.heard_at, self.is_sure, self.changed = response.member_epoch, now, True, False
            if response.assignment is not None:
                given = response.assignment.topic_partitions
                self.told = frozenset((topic.topic_id, partition) for topic in given for partition in topic.partitions)
                self.has_news = True
                self.owned |= self.told  # what it must give up it gives up before its next heartbeat

    def lose(self) -> None:
        """Give up everything and join again."""
        self.epoch, self.owned, self.told, self.is_sure = 0, frozenset(), frozenset(), False

    def restart(self) -> None:
        """Its process dies; another begins."""
        self.lose()
        self.life += 1
        self.stopped = False


def reported(owned: Owned) -> list[TopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(owned):
        topics.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]


@dataclass
class World:
    """One group and its members."""

    members: list[Member]
    shell: Shell = field(
        default_factory=lambda: Shell(
            config=GroupConfig(consumer_max_size=5, offsets_retention_ms=3_600_000),
            settings=GroupSettings(session_timeout_ms=SESSION, assignment_interval_ms=1_000),
        )
    )
    committed: dict[tuple[UUID, int], int] = field(default_factory=dict)
    tokens: int = 0

    def __post_init__(self) -> None:
        self.shell.set_topics({"orders": 4, "payments": 2})

    def beat(self, member: Member, *, answer_is_lost: bool = False) -> None:
        """One heartbeat of a member that has not stopped for good."""
        if member.stopped:
            return
        response = self._send(member.request(), 1)
        if answer_is_lost:
            member.is_sure = False
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        member.receive(response, self.shell.now)
        self.check()

    def commit(self, member: Member, offset: int) -> None:
        """Commit everything that it owns; what is acknowledged must stay."""
        if not member.owned:
            return
        response = self._send(member.commit(offset, dict(self.shell.names)), 10)
        assert isinstance(response, OffsetCommitResponse)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    assert self._is_member(member), "a commit of one who is no member was taken"
                    self.committed[topic.topic_id, partition.partition_index] = offset

    def leave(self, member: Member, epoch: int) -> None:
        """Leave for good, or for a while."""
        if member.epoch and (epoch == -1 or member.instance_id is not None):
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=member.member_id, member_epoch=epoch, instance_id=member.instance_id
            )
            self._send(request, 1)
            member.restart()

    def wait(self, duration: Millis) -> None:
        for _ in self.shell.wait(duration):
            self.check()

    def _send(self, request: ConsumerGroupHeartbeatRequest | OffsetCommitRequest, version: int) -> object:
        self.tokens += 1
        effects: Effects = self.shell.handle(request, self.tokens, version, "client")
        return effects.replies[self.tokens]

    def _is_member(self, member: Member) -> bool:
        group = self.shell.shard.consumer_groups.get(GROUP)
        return group is not None and member.member_id in group.members

    def check(self) -> None:
        """S1 as members see it: of those that the group still has, no two process one partition."""
        living = [member for member in self.members if self._is_member(member) and member.epoch > 0]
        owned = [place for member in living for place in member.owned]
        assert len(owned) == len(set(owned)), "two members process one partition"

    def check_commits(self) -> None:
        """S7: what was acknowledged is there, unless its topic is another by now."""
        group = self.shell.shard.consumer_groups.get(GROUP)
        if group is None:
            return
        committed = {
            (value.topic_id, place.partition): value.offset
            for place, value in durable(self.shell.shard)[GROUP][1].items()
        }
        for (topic_id, number), offset in self.committed.items():
            if topic_id in self.shell.image.by_id:
                assert committed.get((topic_id, number), offset) == offset

    def settle(self) -> None:
        """L1: when all behave, everybody owns its target after a session, a rebalance timeout and some heartbeats."""
        end = self.shell.now + SESSION + REBALANCE + 10_000
        while not self.is_settled():
            assert self.shell.now < end, "the group does not come to rest"
            for member in self.members:
                self.beat(member)
            self.wait(1_000)

    def is_settled(self) -> bool:
        group = self.shell.shard.consumer_groups.get(GROUP)
        living = [member for member in self.members if not member.stopped]
        if group is None or not living:
            return not living
        if group.state is not ConsumerGroupState.STABLE or set(group.members) != {m.member_id for m in living}:
            return False
        return all(m.epoch == group.target_epoch and m.owned == frozenset(group.target_of(m.member_id)) for m in living)

    def is_complete(self) -> bool:
        """S3: every subscribed partition has an owner."""
        group = self.shell.shard.consumer_groups[GROUP]
        wanted = {
            (topic.topic_id, number)
            for name, topic in self.shell.image.by_name.items()
            if group.is_subscribed(name)
            for number in range(topic.shape.partitions)
        }
        return {place for member in self.members for place in member.owned} == wanted


def world() -> World:
    """Six members, two of them with one instance id; more than the group may have."""
    return World(
        [
            Member("a"),
            Member("b", topics=("orders", "payments")),
            Member("c", topics=(), expression="orders.*"),
            Member("d", instance_id="i"),
            Member("e", instance_id="i", topics=("payments",)),
            Member("f", assignor="range"),
        ]
    )


who = st.integers(0, 5)
actions = st.one_of(
    st.tuples(st.just("beat"), who),
    st.tuples(st.just("beats"), st.integers(1, 3)),
    st.tuples(st.just("beats"), st.integers(1, 3)),
    st.tuples(st.just("busy"), who),
    st.tuples(st.just("lost answer"), who),
    st.tuples(st.just("lost append"), who),
    st.tuples(st.just("wait"), st.sampled_from([100, 1_000, 5_000, 9_999, 10_000, 15_000, 60_000])),
    st.tuples(st.just("commit"), who),
    st.tuples(st.just("leave"), who),
    st.tuples(st.just("pause"), who),
    st.tuples(st.just("restart"), who),
    st.tuples(st.just("resubscribe"), who),
    st.tuples(st.just("stale"), who),
    st.tuples(st.just("topics"), st.integers(0, 5)),
    st.tuples(st.just("failover"), st.just(0)),
)

TOPICS = [
    {"orders": 4, "payments": 2},
    {"orders": 6, "payments": 2},
    {"payments": 2},
    {"orders": 4, "payments": 2, "orders-eu": 3},
    {"orders": 1},
    {},
]

SUBSCRIPTIONS: list[tuple[tuple[str, ...], str | None]] = [
    (("orders",), None),
    (("payments", "orders"), None),
    ((), "orders.*"),
    (("payments",), ".*eu"),
    ((), None),
]


def act(world: World, action: str, number: int, step: int) -> None:
    """Do one thing."""
    member = world.members[number % len(world.members)]
    match action:
        case "beat":
            world.beat(member)
        case "beats":
            for _ in range(number):
                for every in world.members:
                    world.beat(every)
        case "busy" if member.epoch > 0 and not member.stopped:
            # It still processes what it was told to give up, and says nothing of it.
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=member.member_id, member_epoch=member.epoch, instance_id=member.instance_id
            )
            response = world._send(request, 1)
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            member.receive(response, world.shell.now)
            world.check()
        case "lost answer":
            world.beat(member, answer_is_lost=True)
        case "lost append" if not member.stopped:
            world.shell.log_is_broken = True
            world.shell.handle(member.request(), f"lost {step}", 1, "client")
            member.is_sure = False
            world.shell.fail_over()
        case "wait":
            world.wait(number)
        case "commit":
            world.commit(member, step)
        case "leave":
            world.leave(member, -1)
        case "pause":
            world.leave(member, -2)
        case "restart":
            member.restart()
        case "resubscribe":
            member.topics, member.expression = SUBSCRIPTIONS[step % len(SUBSCRIPTIONS)]
            member.changed = True
        case "stale" if member.epoch > 1:
            stale_requests_change_nothing(world, member)
        case "topics":
            world.shell.set_topics(TOPICS[number])
        case "failover":
            world.shell.fail_over()


def stale_requests_change_nothing(world: World, member: Member) -> None:
    """S5: an older epoch than the last but one, one of the future, or an id that is not the member's."""
    before = durable(world.shell.shard)
    group = world.shell.shard.consumer_groups.get(GROUP)
    known = None if group is None else group.members.get(member.member_id)
    epochs = [known.epoch + 1, known.epoch + 7] if known is not None else [member.epoch]
    epochs += [epoch for epoch in (1, 2) if known is not None and epoch not in (known.epoch, known.previous_epoch)]
    for epoch in epochs:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member.member_id, member_epoch=epoch, subscribed_topic_names=["payments"]
        )
        response = world._send(request, 1)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert ErrorCode(response.error_code) in AGAIN
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="stranger", member_epoch=member.epoch)
    response = world._send(request, 1)
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert ErrorCode(response.error_code) in AGAIN | {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert durable(world.shell.shard) == before


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(actions, max_size=40))
def test_the_invariants_hold_whatever_members_do(steps: Sequence[tuple[str, int]]) -> None:
    here = world()
    for step, (action, number) in enumerate(steps, 1):
        event(action)
        act(here, action, number, step)
        here.check_commits()
    here.shell.set_topics(TOPICS[0])
    here.settle()
    if any(not member.stopped for member in here.members):
        assert here.is_complete()
    leave_nothing_behind(here)


def leave_nothing_behind(world: World) -> None:
    """S15: when all have left, and offsets have expired, there is nothing."""
    for member in world.members:
        world.leave(member, -1)
    world.wait(SESSION)
    world.wait(3 * 3_600_000)
    assert not world.shell.shard.consumer_groups
    assert set(world.shell.timers) == {OffsetExpiry()}
