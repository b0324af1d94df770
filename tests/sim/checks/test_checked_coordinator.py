"""What the observer of a coordinator notices: stale requests that change a group (S5, S6), and logs that lose their
meaning when they are compacted (S10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.coordinator import (
    GroupConfig,
    GroupShard,
    GroupState,
    InitialRebalanceDelay,
    RequestContext,
    SessionTimeout,
)
from kohort.coordinator import replay as replaying
from kohort.coordinator.classic import sync as syncing
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ClassicProtocolState, ConsumerMember
from kohort.coordinator.consumer.replay import ConsumerGroupKey, replay_consumer_group
from kohort.coordinator.groups import Groups
from kohort.errors import ErrorCode
from kohort.model import UUID, TopicPartition
from kohort.sim import Violation
from kohort.sim.checks import CheckedCoordinator, GroupProgress, Observations
from kohort.sim.checks.classic_rules import is_stale
from kohort.sim.checks.consumer_rules import is_stale_in_consumer_group
from kohort.sim.model.model import Model
from kohort.wire.codec import Message
from kohort.wire.group_log import encode_records, group_record
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.sync_group import SyncGroupRequest

# Loads


def play(model: Model, *events: tuple[str, int]) -> None:
    for event in events:
        assert model.play(event), f"{event} has no effect"


CHANGES = (("step", 0), ("step", 1), ("failover", 0))
"""A group reaches its second epoch, and another broker loads it."""


def test_a_record_that_is_only_understood_after_the_one_before_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(groups: Groups, key: ConsumerGroupKey, value: Message | None) -> None:
        """Count epochs from 2, the first of a group, instead of reading them: right until compaction removes one."""
        known = groups.consumer(key.group_id)
        before = 1 if known is None else max(known.epoch, 1)
        replay_consumer_group(groups, key, value)
        group = groups.consumer(key.group_id)
        if isinstance(key, ConsumerGroupMetadataKey) and group is not None:
            group.epoch = before + 1

    play(Model("consumer"), *CHANGES)
    monkeypatch.setattr(replaying, "replay_consumer_group", counted)
    with pytest.raises(Violation, match=r"^S10: g compacted: epoch is 2, but according to the log it is 3"):
        play(Model("consumer"), *CHANGES)


# Stale requests


def leave_of(*member_ids: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id) for member_id in member_ids])


OF_MEMBERS = ("leader", "follower", "static")


def stable_group() -> ClassicGroup:
    """A group at generation 5 with three members; one has the instance ID i0."""
    group = ClassicGroup("g")
    for member_id in OF_MEMBERS:
        instance_id = "i0" if member_id == "static" else None
        group.members[member_id] = Member(member_id, instance_id, "c", "/h", 10_000, 20_000, {"range": b""})
    group.static_ids["i0"] = "static"
    group.leader_id, group.generation, group.state = "leader", 5, GroupState.STABLE
    return group


def sync(member_id: str, generation: int, instance_id: str | None = None) -> SyncGroupRequest:
    return SyncGroupRequest(group_id="g", member_id=member_id, generation_id=generation, group_instance_id=instance_id)


def commit(member_id: str, generation: int, instance_id: str | None = None) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        group_instance_id=instance_id,
    )


@pytest.mark.parametrize("of", [sync, commit])
@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "stale"),
    [
        ("follower", 5, None, False),
        ("static", 5, "i0", False),
        ("follower", 4, None, True),
        ("follower", 6, None, True),
        ("stranger", 5, None, True),
        ("follower", 5, "i0", True),
        ("follower", 5, "i1", True),
    ],
)
def test_a_sync_or_commit_is_stale_unless_a_member_sends_it_in_the_groups_generation(
    of: Callable[[str, int, str | None], Message],
    member_id: str,
    generation: int,
    instance_id: str | None,
    stale: bool,
) -> None:
    request = of(member_id, generation, instance_id)
    assert is_stale(stable_group(), request, 5) is stale
    assert is_stale(None, request, 5)


def test_a_commit_without_a_generation_is_stale_while_a_group_has_members() -> None:
    group = stable_group()
    assert is_stale(group, commit("", -1), 5)
    group.state = GroupState.EMPTY
    assert not is_stale(group, commit("", -1), 5)
    assert not is_stale(None, commit("", -1), 5)


def test_a_leave_is_stale_when_nobody_in_it_is_known() -> None:
    group = stable_group()
    group.pending["new"] = None
    for member_ids, stale in (
        (["follower"], False),
        (["new"], False),
        (["stranger"], True),
        (["stranger", "follower"], False),
        ([""], False),  # it names an instance
    ):
        assert is_stale(group, leave_of(*member_ids), 5) is stale, member_ids
    assert not is_stale(group, LeaveGroupRequest(group_id="g", member_id="follower"), 2)
    assert is_stale(group, LeaveGroupRequest(group_id="g", member_id="stranger"), 2)
    assert is_stale(None, LeaveGroupRequest(group_id="g", member_id="follower"), 2)


@pytest.mark.parametrize(
    ("member_id", "instance_id", "stale"),
    [
        ("", None, False),
        ("", "i0", False),  # another process with that instance id
        ("follower", None, False),
        ("static", "i0", False),
        ("stranger", None, True),
        ("new", None, False),
        ("follower", "i0", True),
        ("static", "i1", True),
    ],
)
def test_a_join_is_stale_if_its_member_id_is_not_the_groups(
    member_id: str, instance_id: str | None, stale: bool
) -> None:
    group = stable_group()
    group.pending["new"] = None
    request = JoinGroupRequest(group_id="g", member_id=member_id, group_instance_id=instance_id)
    assert is_stale(group, request, 5) is stale
    assert is_stale(None, request, 5) is bool(member_id)


def migrating_group() -> ConsumerGroup:
    """A group at epoch 5 with a member of each protocol and a static one of the classic protocol."""
    group, classic = ConsumerGroup("g"), ClassicProtocolState(10_000, (("range", b""),))
    group.put(ConsumerMember("classic", epoch=5, classic=classic))
    group.put(ConsumerMember("static", instance_id="i0", epoch=5, classic=classic))
    group.put(ConsumerMember("consumer", epoch=5))
    group.pending_ids["new"] = None
    return group


@pytest.mark.parametrize(
    ("request_of_classic_member", "stale"),
    [
        (sync("classic", 5), False),
        (sync("static", 5, "i0"), False),
        (sync("classic", 4), True),
        (sync("classic", 6), True),
        (sync("consumer", 5), True),
        (sync("classic", 5, "i0"), True),
        (sync("stranger", 5), True),
        (HeartbeatRequest(group_id="g", member_id="classic", generation_id=5), False),
        (HeartbeatRequest(group_id="g", member_id="classic", generation_id=4), True),
        (HeartbeatRequest(group_id="g", member_id="consumer", generation_id=5), True),
        (JoinGroupRequest(group_id="g", member_id=""), False),
        (JoinGroupRequest(group_id="g", member_id="new"), False),
        (JoinGroupRequest(group_id="g", member_id="classic"), False),
        (JoinGroupRequest(group_id="g", member_id="stranger"), True),
        (JoinGroupRequest(group_id="g", member_id="classic", group_instance_id="i0"), True),
        (leave_of("classic"), False),
        (leave_of("consumer"), False),
        (leave_of("stranger"), True),
        (leave_of("stranger", "classic"), False),
    ],
)
def test_classic_members_of_a_consumer_group_send_its_epoch(request_of_classic_member: Message, stale: bool) -> None:
    assert is_stale_in_consumer_group(migrating_group(), request_of_classic_member) is stale


def test_other_requests_are_never_called_stale() -> None:
    assert not is_stale(None, HeartbeatRequest(group_id="g", member_id="stranger"), 4)


@pytest.mark.parametrize(("number", "what"), [(0, "wrote records"), (1, "was accepted")])
def test_a_sync_of_an_old_generation_that_is_taken_is_noticed(
    number: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("classic")
    play(model, *[("step", 0), ("step", 1)] * 2)
    while model.members[number].waits:  # for others that may join
        play(model, ("timer", 0))
    request = model.members[number].next_request()
    assert isinstance(request, SyncGroupRequest) and bool(request.assignments) == (number == 0)
    request.generation_id -= 1
    monkeypatch.setattr(syncing, "_refusal", lambda group, request, context: ErrorCode.NONE)
    with pytest.raises(Violation, match=f"^S5: .* {what}"):
        model._send(number, request, durable=True)


# Damaged logs


@pytest.mark.parametrize("damaged", [True, False])
def test_only_a_damaged_log_may_have_a_static_member_beside_the_one_that_replaced_it(damaged: bool) -> None:
    progress = GroupProgress()
    observations = Observations(progress, 1, lambda text: None)
    if damaged:
        progress.damaged("g", 1, 0.0)
    machine = GroupShard(GroupConfig(), str)
    coordinator = CheckedCoordinator(observations, machine, 0, lambda: True)
    records = [
        group_record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1)),
        *(
            group_record(
                ConsumerGroupMemberMetadataKey(group_id="g", member_id=member_id),
                ConsumerGroupMemberMetadataValue(instance_id="i0", rebalance_timeout_ms=20_000),
            )
            for member_id in ("old", "new")
        ),
    ]
    observations.pairs_written(0, encode_records(records))
    machine.replay_all(records)
    if not damaged:
        with pytest.raises(Violation, match=r"^S12: old and new of g both have instance id i0"):
            coordinator.loaded(1_000)
        return
    coordinator.replay_all(coordinator.loaded(1_000).records)
    machine.consumer_groups["g"].static_ids["i0"] = "old"
    with pytest.raises(Violation, match=r"^S12: g finds"):
        coordinator.replay_all(coordinator.expire_member("g", "old", 1_000).records)


# Skipped time


@pytest.mark.parametrize("held", [True, False])
def test_only_a_member_whose_heartbeat_is_held_may_be_spared_without_a_connection(held: bool) -> None:
    observations = Observations(GroupProgress(), 1, lambda text: None)
    machine = GroupShard(GroupConfig(initial_rebalance_delay_ms=0, heartbeat_hold_ms=3_000), str)
    coordinator = CheckedCoordinator(observations, machine, 0, lambda: True)
    context = RequestContext(object(), 3, "c", "/h")
    coordinator.replay_all(coordinator.handle(cooperative_join("", ()), context, 1_000).records)
    coordinator.replay_all(coordinator.fire(InitialRebalanceDelay("g"), 1_000).records)
    [member_id] = machine.groups["g"].members
    syncs = sync(member_id, 1), RequestContext(object(), 3, "c", "/h")
    coordinator.replay_all(coordinator.handle(*syncs, 1_000).records)
    coordinator.heartbeat(HeartbeatRequest(group_id="g", member_id=member_id, generation_id=1), 2_000, object())
    [heartbeat] = machine.held
    if not held:
        coordinator.disconnected(heartbeat.token, 2_000)
    coordinator.skip_time(9_000, set(), set(), 2_000)
    member = machine.groups["g"].members[member_id]
    if held:
        coordinator.fire(SessionTimeout("g", member_id), 11_000)
        assert coordinator.timers[SessionTimeout("g", member_id)] == 21_000
        return
    member.session_deadline += 9_000
    with pytest.raises(Violation, match=r"^L3: the session of c- in g ends at 21000, after its deadline 13000"):
        coordinator.fire(SessionTimeout("g", member_id), 11_000)


# Records that may be processed again

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
IDS = {"orders": UUID(int=1), "clicks": UUID(int=2)}


def cooperative_join(member_id: str, owned: tuple[TopicPartition, ...]) -> JoinGroupRequest:
    metadata = encode_subscription(Subscription(topics=tuple(IDS), owned_partitions=owned), 3)
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=metadata)],
    )


@pytest.mark.parametrize(("newcomers", "repeatable"), [(1, False), (2, True)])
def test_what_a_member_keeps_may_be_repeated_if_it_joins_again_after_as_many_as_the_group_may_have(
    newcomers: int, repeatable: bool
) -> None:
    progress = GroupProgress()
    observations = Observations(progress, 1, lambda text: None)
    observations.names = lambda: {topic_id: name for name, topic_id in IDS.items()}
    ids = iter(["old", "new", "newer"])
    machine = GroupShard(GroupConfig(max_size=2), lambda: next(ids))
    coordinator = CheckedCoordinator(observations, machine, 0, lambda: True)

    def join(member_id: str, *owned: TopicPartition) -> JoinGroupResponse | None:
        context = RequestContext(object(), 9, "c", "/h")
        effects = coordinator.handle(cooperative_join(member_id, owned), context, 1_000)
        coordinator.replay_all(effects.records)
        reply = effects.replies.get(context.token)
        assert reply is None or isinstance(reply, JoinGroupResponse)
        return reply

    def enter() -> str:
        answer = join("")
        assert answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        join(answer.member_id)
        return answer.member_id

    member_id = enter()
    coordinator.replay_all(coordinator.fire(InitialRebalanceDelay("g"), 1_000).records)
    for _ in range(newcomers):
        enter()
    answer = join(member_id, ORDERS)
    assert answer is not None
    assert (answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED) is repeatable
    assert progress.repeatable == ({("g", IDS["orders"], ORDERS)} if repeatable else set())
