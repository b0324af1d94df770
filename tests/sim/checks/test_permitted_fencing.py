"""Which ends of a membership are excused: only by what happened to that member, in that life."""

from __future__ import annotations

import pytest

from kohort.coordinator.classic.member import Member
from kohort.coordinator.config import MigrationPolicy
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ClassicProtocolState, ConsumerMember
from kohort.errors import ErrorCode, KafkaError
from kohort.model import TopicPartition
from kohort.sim import Plan, World
from kohort.sim.checks.classic_rules import asked_topics
from kohort.sim.checks.refusals import expected_refusal
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.processes.application import Application
from kohort.sim.steps import GroupRemoveMembers, MemberStart, Step
from kohort.sim.world.permitted_fencing import is_permitted
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def fenced(instance: str, started: float) -> Application:
    """A static member of group g whose first life began then, and which is fenced now."""
    application = Application(
        "member-0.0", ApplicationSettings("g", ("orders",), instance=instance), "", World(Plan(0)).ledger, 0
    )
    application.started, application.over = started, KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return application


@pytest.mark.parametrize(
    ("instance", "started", "permitted"), [("i0", 10.0, True), ("i1", 10.0, False), ("i0", 30.0, False)]
)
def test_a_removal_excuses_the_instance_that_was_removed_and_no_later_life(
    instance: str, started: float, permitted: bool
) -> None:
    world = World(
        Plan(0, members=[ApplicationSettings("g", ("orders",), instance=one) for one in ("i0", "i1")], rates=[1.0, 1.0])
    )
    world.watch.removed["g", "i0"] = 20.0
    world.ledger.damaged(["g"])
    assert is_permitted(world, fenced(instance, started), starts=1) is permitted


def test_a_removal_excuses_nothing_where_no_disk_lost_what_followed() -> None:
    world = World(Plan(0, members=[ApplicationSettings("g", ("orders",), instance="i0")], rates=[1.0]))
    world.watch.removed["g", "i0"] = 20.0
    assert not is_permitted(world, fenced("i0", 10.0), starts=1)


def barred(code: ErrorCode, protocol: str, instance: str | None) -> Application:
    """A member of group g that began at second 10 and ended with that error."""
    settings = ApplicationSettings("g", ("orders",), instance=instance, protocol=protocol)
    application = Application("member-0.0", settings, "", World(Plan(0)).ledger, 0)
    application.started, application.over = 10.0, KafkaError(code)
    return application


@pytest.mark.parametrize(
    ("code", "protocol", "instance"),
    [
        (ErrorCode.UNRELEASED_INSTANCE_ID, "consumer", "i0"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "classic", None),
    ],
)
def test_a_member_may_end_with_an_error_that_the_coordinator_gave_to_it_in_that_life(
    code: ErrorCode, protocol: str, instance: str | None
) -> None:
    settings = {"group.consumer.migration.policy": "disabled"}
    world, member = World(Plan(0, settings=settings)), barred(code, protocol, instance)
    assert not is_permitted(world, member, starts=1)
    world.watch.refused = {("g", "i1", code): 20.0, ("h", instance or "", code): 20.0}
    assert not is_permitted(world, member, starts=1)
    world.watch.refused["g", instance or "", code] = 9.0
    assert not is_permitted(world, member, starts=1)
    world.watch.refused["g", instance or "", code] = 11.0
    assert is_permitted(world, member, starts=1)
    other = "classic" if protocol == "consumer" else "consumer"
    assert not is_permitted(world, barred(code, other, instance), starts=1)


def asks(instance: str, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="new", member_epoch=epoch, instance_id=instance)


def test_an_instance_id_is_in_use_while_its_holder_is_there() -> None:
    group, policy = ConsumerGroup("g"), MigrationPolicy.BIDIRECTIONAL
    group.put(ConsumerMember("old", instance_id="i0", epoch=3))
    group.put(ConsumerMember("away", instance_id="i1", epoch=STATIC_LEAVE_EPOCH))
    group.put(ConsumerMember("other", instance_id="i2", epoch=3, classic=ClassicProtocolState(10_000, ())))
    in_use = ErrorCode.UNRELEASED_INSTANCE_ID
    assert [expected_refusal(group, asks(f"i{n}"), policy) for n in range(4)] == [in_use, None, None, None]
    assert expected_refusal(group, asks("i0", epoch=3), policy) is None
    assert expected_refusal(None, asks("i0"), policy) is None


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_classic_member_is_inconsistent_with_a_group_that_may_not_migrate_or_has_other_assignors(
    policy: MigrationPolicy,
) -> None:
    def code(*assignors: str, kind: str = "consumer", metadata: bytes | None = None) -> ErrorCode | None:
        words = encode_subscription(Subscription(topics=["t"]), 1) if metadata is None else metadata
        offered = [JoinGroupRequestProtocol(name=name, metadata=words) for name in assignors]
        return expected_refusal(group, JoinGroupRequest(group_id="g", protocol_type=kind, protocols=offered), policy)

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


def test_the_world_notes_which_instance_an_operator_removes() -> None:
    member = ApplicationSettings("g", ("orders",), instance="i0", session=30_000, heartbeat=3_000)
    steps: list[Step] = [MemberStart(0.5, 0), GroupRemoveMembers(20.0, "g")]
    settings = {"group.initial.rebalance.delay.ms": "0"}
    world = World(Plan(0, 30.0, settings=settings, topics={"orders": 1}, members=[member], rates=[1.0], steps=steps))
    assert world.run().violation is None
    assert world.watch.removed.keys() == {("g", "i0")}
    assert world.watch.removed["g", "i0"] >= 20.0


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
