"""Permitted ends of a membership: only events of that member, in that run, permit one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.coordinator import GroupState
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.config import GroupConfig, MigrationPolicy
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ClassicProtocolState, ConsumerMember
from kohort.errors import ErrorCode, KafkaError
from kohort.model import TopicPartition
from kohort.sim import Plan, World
from kohort.sim.checks.classic_rules import asked_topics
from kohort.sim.checks.refusals import expected_refusals
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.processes.application import Application
from kohort.sim.world.permitted_fencing import is_permitted
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def fenced(instance: str, started: float) -> Application:
    """A static member of group g whose first life began then, and which is fenced now."""
    application = Application(
        "member-0.0", ApplicationSettings("g", ("orders",), instance=instance), "", World(Plan(0)).progress, 0
    )
    application.started, application.over = started, KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return application


def world_with(*instances: str) -> World:
    """A world with a member of group g for each of these instance ids."""
    members = [ApplicationSettings("g", ("orders",), instance=instance) for instance in instances]
    return World(Plan(0, members=members, rates=[1.0] * len(members)))


EXCUSES: dict[str, Callable[[World], object]] = {
    "another client joined": lambda world: world.observations.joined.update({("g", "i0"): {"stranger": 20.0}}),
    "its own late join": lambda world: world.answers.replaced_joins.update({"member-0": 20.0}),
    "the disk lost its join": lambda world: world.progress.damaged("g", 3, 20.0),
    "a broker without the log": lambda world: world.observations.outdated.update({("g", "i0"): 20.0}),
}


@pytest.mark.parametrize("excuse", EXCUSES)
def test_a_static_member_is_fenced_only_for_what_happened_to_it_in_that_run(excuse: str) -> None:
    world = world_with("i0", "i0", "i1")
    assert not is_permitted(world, fenced("i0", 10.0))
    EXCUSES[excuse](world)
    assert is_permitted(world, fenced("i0", 10.0))
    assert not is_permitted(world, fenced("i0", 30.0))
    concerns_the_group = excuse in ("the disk lost its join", "its own late join")
    assert is_permitted(world, fenced("i1", 10.0)) is concerns_the_group


def test_its_own_join_does_not_excuse_that_a_member_is_fenced() -> None:
    world = world_with("i0")
    world.observations.joined["g", "i0"] = {"member-0.0": 20.0}
    assert not is_permitted(world, fenced("i0", 10.0))


def barred(code: ErrorCode, protocol: str, instance: str | None) -> Application:
    """A member of group g that began at second 10 and ended with that error."""
    settings = ApplicationSettings("g", ("orders",), instance=instance, protocol=protocol)
    application = Application("member-0.0", settings, "", World(Plan(0)).progress, 0)
    application.started, application.over = 10.0, KafkaError(code)
    return application


@pytest.mark.parametrize(
    ("code", "protocol", "instance"),
    [
        (ErrorCode.UNRELEASED_INSTANCE_ID, "consumer", "i0"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "classic", None),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "classic", None),
        (ErrorCode.GROUP_ID_NOT_FOUND, "consumer", None),
    ],
)
def test_a_member_may_end_with_an_error_that_the_coordinator_gave_to_it_in_that_life(
    code: ErrorCode, protocol: str, instance: str | None
) -> None:
    settings = {"group.consumer.migration.policy": "disabled"}
    world, member = World(Plan(0, settings=settings)), barred(code, protocol, instance)
    assert not is_permitted(world, member)
    world.observations.refused = {("member-0.1", code), ("member-1.0", code), (member.name, ErrorCode.INVALID_REQUEST)}
    assert not is_permitted(world, member)
    world.observations.refused.add((member.name, code))
    assert is_permitted(world, member)
    other = "classic" if protocol == "consumer" else "consumer"
    assert is_permitted(world, barred(code, other, instance)) is (code is ErrorCode.GROUP_MAX_SIZE_REACHED)


def asks(instance: str, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="new", member_epoch=epoch, instance_id=instance)


def test_an_instance_id_is_in_use_while_its_holder_is_there() -> None:
    group, config = ConsumerGroup("g"), GroupConfig()
    group.put(ConsumerMember("old", instance_id="i0", epoch=3))
    group.put(ConsumerMember("away", instance_id="i1", epoch=STATIC_LEAVE_EPOCH))
    group.put(ConsumerMember("other", instance_id="i2", epoch=3, classic=ClassicProtocolState(10_000, ())))
    in_use = {ErrorCode.UNRELEASED_INSTANCE_ID}
    assert [expected_refusals(group, asks(f"i{n}"), config) for n in range(4)] == [in_use, set(), set(), set()]
    assert not expected_refusals(group, asks("i0", epoch=3), config)
    assert not expected_refusals(None, asks("i0"), config)


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_classic_member_is_inconsistent_with_a_group_that_may_not_migrate_or_has_other_assignors(
    policy: MigrationPolicy,
) -> None:
    config = GroupConfig(consumer_migration_policy=policy)

    def code(*assignors: str, kind: str = "consumer", metadata: bytes | None = None) -> ErrorCode | None:
        words = encode_subscription(Subscription(topics=["t"]), 1) if metadata is None else metadata
        offered = [JoinGroupRequestProtocol(name=name, metadata=words) for name in assignors]
        request = JoinGroupRequest(group_id="g", protocol_type=kind, protocols=offered)
        return next(iter(expected_refusals(group, request, config)), None)

    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group: ConsumerGroup | None = None
    assert [code("range"), code(), code("range", metadata=b"?")] == [None, refused, refused]
    group = ConsumerGroup("g")
    assert code("range") is None
    group.put(ConsumerMember("m", epoch=3))
    shut = refused if policy is MigrationPolicy.DISABLED else None
    assert [code("range"), code("range", kind="connect")] == [shut, refused]
    group.put(ConsumerMember("n", epoch=3, classic=ClassicProtocolState(10_000, (("range", b""), ("sticky", b"")))))
    assert [code("range"), code("other", "sticky"), code("other")] == [shut, shut, refused]


def test_a_group_is_full_when_it_has_all_members_that_it_may_have() -> None:
    config, full = GroupConfig(max_size=1, consumer_max_size=1), {ErrorCode.GROUP_MAX_SIZE_REACHED}
    classic, consumer = ClassicGroup("g"), ConsumerGroup("g")

    def joins(member_id: str, instance_id: str | None = None) -> JoinGroupRequest:
        words = encode_subscription(Subscription(topics=["t"]), 1)
        return JoinGroupRequest(
            group_id="g",
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=words)],
        )

    for group in (classic, consumer, None):
        assert not expected_refusals(group, joins(""), config)
        assert not expected_refusals(group, asks("i0"), config)
    classic.add(Member("m", "i0", "c", "h", 10_000, 10_000, {"range": b""}), "consumer")
    classic.static_ids["i0"], classic.state = "m", GroupState.STABLE
    consumer.put(ConsumerMember("m", instance_id="i0", epoch=3))
    for group in (classic, consumer):
        assert expected_refusals(group, joins(""), config) == full
        assert not expected_refusals(group, joins("m"), config)
        assert not expected_refusals(group, joins("", "i0"), config)
        assert full <= expected_refusals(group, asks("i1"), config)
    classic.state = GroupState.PREPARING_REBALANCE
    assert not expected_refusals(classic, joins(""), config)


def test_a_group_is_not_found_if_it_is_not_and_does_not_become_a_consumer_group() -> None:
    missing = {ErrorCode.GROUP_ID_NOT_FOUND}
    group = ClassicGroup("g")
    assert expected_refusals(None, asks("i0", epoch=3), GroupConfig()) == missing
    assert expected_refusals(group, asks("i0", epoch=3), GroupConfig()) == missing
    assert not expected_refusals(group, asks("i0"), GroupConfig())
    group.add(Member("m", None, "c", "h", 10_000, 10_000, {"range": b""}), "consumer")
    group.state = GroupState.STABLE
    assert not expected_refusals(group, asks("i0"), GroupConfig())
    only_down = GroupConfig(consumer_migration_policy=MigrationPolicy.DOWNGRADE)
    assert expected_refusals(group, asks("i0"), only_down) == missing


def test_a_static_member_returns_with_another_subscription_only_if_it_asks_for_other_topics() -> None:
    def says(*subscriptions: bytes) -> Member:
        protocols = {f"assignor-{number}": said for number, said in enumerate(subscriptions)}
        return Member("m", "i0", "c", "h", 30_000, 30_000, protocols)

    def topics(names: list[str], owned: list[TopicPartition]) -> bytes:
        return encode_subscription(Subscription(topics=names, owned_partitions=owned), 1)

    before = asked_topics(says(topics(["t", "u"], [TopicPartition("t", 0)])))
    assert asked_topics(says(topics(["u", "t"], []))) == before
    assert asked_topics(says(topics(["t"], []))) != before
    assert asked_topics(says(b"?")) is None
