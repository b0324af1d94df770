"""Assignments that members offer and compute, even invalid ones (decision 005); valid ones are in tests/member."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator import GroupConfig, GroupSettings
from kohort.coordinator.timers import GroupTimer, TargetDue
from kohort.errors import ErrorCode
from kohort.group_events import GroupSettled
from kohort.wire.messages.consumer_group_heartbeat import (
    Computed,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    MemberTarget,
    OfferedAssignor,
    TopicPartitions,
)
from tests.coordinator.shell import Shell


def group_of(*offers: OfferedAssignor) -> tuple[Shell, ConsumerGroupHeartbeatResponse]:
    """A group that one member joins with these offers, and what it is told."""
    shell = Shell(settings=GroupSettings(assignment_interval_ms=0))
    shell.set_topics({"t": 2})
    return shell, beat(
        shell,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        offered_assignors=list(offers),
    )


def beat(shell: Shell, **fields: object) -> ConsumerGroupHeartbeatResponse:
    """One heartbeat of the member m."""
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
    for name, value in fields.items():
        setattr(request, name, value)
    answer = shell.handle(request, "token", 1).replies["token"]
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


def test_offers_are_bounded_as_subscriptions_are() -> None:
    _, answer = group_of(OfferedAssignor(name="a", user_data=b"x" * (1 << 20)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "offered assignors" in (answer.error_message or "")


def test_an_offer_is_acknowledged_and_its_member_asked_at_its_next_heartbeat() -> None:
    shell, joined = group_of(OfferedAssignor(name="a", user_data=b"mine"))
    assert joined.takes_offers and joined.computation is None
    asked = beat(shell, member_epoch=joined.member_epoch).computation
    assert asked is not None
    [member], [topic] = asked.members, asked.topics
    assert (asked.assignor, member.member_id, member.user_data, topic.partitions) == ("a", "m", b"mine", 2)
    assert beat(shell, member_epoch=joined.member_epoch).computation is None  # once, unless it says everything again


def join(shell: Shell, member_id: str, *assignors: str) -> None:
    """A member joins the group and offers these, the one that it prefers first."""
    answer = say_everything(shell, member_id, 0, *assignors)
    assert answer.error_code == ErrorCode.NONE


def say_everything(shell: Shell, member_id: str, epoch: int, *assignors: str) -> ConsumerGroupHeartbeatResponse:
    return beat(
        shell,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        offered_assignors=[OfferedAssignor(name=name) for name in assignors],
    )


def test_no_other_member_is_asked_while_one_computes() -> None:
    # A member that is not sure what it was told says everything again.
    shell, _ = group_of(OfferedAssignor(name="a"))
    join(shell, "n", "a")
    epochs = {member_id: member.epoch for member_id, member in shell.shard.consumer_groups["g"].members.items()}
    assert beat(shell, member_epoch=epochs["m"]).computation is not None
    assert say_everything(shell, "n", epochs["n"], "a").computation is None
    assert say_everything(shell, "m", epochs["m"], "a").computation is not None


def test_of_the_assignors_that_all_offer_the_one_that_most_prefer_computes() -> None:
    shell, _ = group_of(*(OfferedAssignor(name=name) for name in ("own", "z", "a")))
    join(shell, "n", "z", "a")
    join(shell, "o", "a", "z", "own")
    asked = beat(shell, member_epoch=shell.shard.consumer_groups["g"].members["m"].epoch).computation
    assert asked is not None and asked.assignor == "z"


def test_a_member_is_not_asked_before_the_next_target_is_due() -> None:
    shell, joined = group_of()
    assert joined.assignment is not None
    shell.settings = GroupSettings(assignment_interval_ms=1_000)
    epoch = joined.member_epoch
    offers = [OfferedAssignor(name="a")]
    beat(shell, member_epoch=epoch, offered_assignors=offers, asks_anew="why")
    shell.now += 999
    assert beat(shell, member_epoch=epoch).computation is None
    shell.now += 1
    assert beat(shell, member_epoch=epoch).computation is not None


def test_an_unrequested_target_changes_nothing() -> None:
    shell, joined = group_of()
    epochs = shell.shard.consumer_groups["g"].epoch, joined.member_epoch
    mine = [MemberTarget(member_id="m", topic_partitions=[TopicPartitions(topic_id=shell.topic_id("t"))])]
    computed = Computed(group_epoch=epochs[0], targets=mine)
    answer = beat(shell, member_epoch=joined.member_epoch, offered_assignors=[], computed=computed)
    assert answer.refused == "the coordinator did not ask this member for a target"
    group = shell.shard.consumer_groups["g"]
    assert (group.epoch, answer.member_epoch, len(group.target_of("m"))) == (*epochs, 2)


def test_a_member_that_was_asked_for_an_older_epoch_cannot_answer_for_a_newer_one() -> None:
    # It has not seen who has come meanwhile, and what it was told of is not all that there is.
    shell, joined = group_of(OfferedAssignor(name="a"))
    assert beat(shell, member_epoch=joined.member_epoch).computation is not None
    other = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="n",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        offered_assignors=[OfferedAssignor(name="a")],
    )
    shell.handle(other, "other", 1)
    group = shell.shard.consumer_groups["g"]
    everything = TopicPartitions(topic_id=shell.topic_id("t"), partitions=[0, 1])
    computed = Computed(group_epoch=group.epoch, targets=[MemberTarget(member_id="m", topic_partitions=[everything])])
    answer = beat(shell, member_epoch=joined.member_epoch, computed=computed)
    assert answer.refused is not None and not group.target_of("m")


def test_a_member_that_is_silent_is_passed_over_after_its_rebalance_timeout() -> None:
    shell, joined = group_of(OfferedAssignor(name="a"))
    beat(shell, member_epoch=joined.member_epoch)
    for _ in range(3):
        list(shell.wait(20_000))
        answer = beat(shell, member_epoch=joined.member_epoch)
    assert answer.assignment is not None
    assert len(shell.shard.consumer_groups["g"].target_of("m")) == 2


def test_news_that_come_after_somebody_was_asked_count_too() -> None:
    shell, joined = group_of(OfferedAssignor(name="a", user_data=b"before"))
    epoch = joined.member_epoch
    early = beat(shell, member_epoch=epoch).computation
    assert early is not None
    offers = [OfferedAssignor(name="a", user_data=b"after")]
    beat(shell, member_epoch=epoch, offered_assignors=offers, asks_anew="it has changed")
    asked = beat(shell, member_epoch=epoch).computation
    assert asked is not None and asked.group_epoch == early.group_epoch + 1
    assert [member.user_data for member in asked.members] == [b"after"]
    late = Computed(group_epoch=early.group_epoch)
    assert beat(shell, member_epoch=epoch, offered_assignors=offers, computed=late).refused


def test_news_that_come_before_anybody_was_asked_need_no_epoch_of_their_own() -> None:
    shell, joined = group_of(OfferedAssignor(name="a", user_data=b"before"))
    group_epoch = shell.shard.consumer_groups["g"].epoch
    offers = [OfferedAssignor(name="a", user_data=b"after")]
    asked = beat(shell, member_epoch=joined.member_epoch, offered_assignors=offers, asks_anew="why").computation
    assert asked is not None and asked.group_epoch == group_epoch
    assert [member.user_data for member in asked.members] == [b"after"]


def offered(shell: Shell, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse | None:
    """A heartbeat that says by what its member can compute, and these fields; None where it is held."""
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
    beat.offered_assignors = [OfferedAssignor(name="range")]
    for name, value in fields.items():
        setattr(beat, name, value)
    token = f"{member_id} at {shell.now}, {epoch} {fields}"
    reply = shell.handle(beat, token, 1, may_hold=True).replies.get(token)
    assert reply is None or isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply


def one_computes_and_another_is_held() -> Shell:
    """A group whose member b was asked to compute its target, and whose member a waits."""
    shell = Shell(GroupConfig(heartbeat_hold_ms=9_000), settings=GroupSettings(assignment_interval_ms=0))
    shell.set_topics({"orders": 2})
    full = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["orders"]}
    for member_id in ("a", "b"):
        joined = offered(shell, member_id, 0, **full)
        assert joined is not None and joined.takes_offers
    group = shell.shard.consumer_groups["g"]
    asked = offered(shell, "b", group.members["b"].epoch)
    assert asked is not None and asked.computation is not None
    passed_over_at = shell.now + 60_000
    while offered(shell, "a", group.members["a"].epoch) is not None:
        shell.now += 100  # the first may come too early to be held
        assert shell.now < passed_over_at
    due_at, _ = shell.timers[TargetDue("g")]
    assert due_at == passed_over_at
    return shell


def test_while_one_member_computes_those_of_others_are_held_and_nothing_is_due() -> None:
    # If the target were due at once, its timer would fire forever at that moment; and a member that is told the short
    # interval of those that are held, and is not, asks twenty times a second.
    shell = one_computes_and_another_is_held()
    list(shell.wait(61_000))
    group = shell.shard.consumer_groups["g"]
    assert group.target_epoch == group.epoch


def test_when_all_leave_while_one_computes_nothing_is_due_any_more() -> None:
    shell = one_computes_and_another_is_held()
    for member_id in ("a", "b"):
        offered(shell, member_id, -1)
    assert not [timer for timer in shell.timers if isinstance(timer, GroupTimer)]


def test_a_member_that_offers_something_else_is_answered_and_not_held() -> None:
    shell = one_computes_and_another_is_held()
    epoch = shell.shard.consumer_groups["g"].members["a"].epoch
    offers = [OfferedAssignor(name="range", user_data=b"new")]
    assert offered(shell, "a", epoch, offered_assignors=offers) is not None
    shell.now += 100
    assert offered(shell, "a", epoch, offered_assignors=offers) is None, "that is known now"


def test_the_journal_names_the_members_assignor_that_computed_the_target() -> None:
    shell, joined = group_of(OfferedAssignor(name="mine"))
    asked = beat(shell, member_epoch=joined.member_epoch).computation
    assert asked is not None
    all_of_it = [TopicPartitions(topic_id=shell.topic_id("t"), partitions=[0, 1])]
    computed = Computed(
        group_epoch=asked.group_epoch, targets=[MemberTarget(member_id="m", topic_partitions=all_of_it)]
    )
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=joined.member_epoch)
    request.offered_assignors, request.computed = [OfferedAssignor(name="mine")], computed
    events = shell.handle(request, "computed", 1).events
    assert [event.assignor for event in events if isinstance(event, GroupSettled)] == ["mine"]


def test_a_weight_is_acknowledged_where_one_is_given() -> None:
    shell, joined = group_of()
    assert not joined.takes_weights
    assert beat(shell, member_epoch=joined.member_epoch, weight=2.0).takes_weights
    assert not beat(shell, member_epoch=joined.member_epoch).takes_weights


def test_a_weight_survives_a_failover() -> None:
    shell, joined = group_of()
    beat(shell, member_epoch=joined.member_epoch, weight=2.5)
    shell.fail_over()
    assert shell.shard.consumer_groups["g"].members["m"].weight == 2.5


@pytest.mark.parametrize("weight", [0.0, 1e-9, 1e9])
def test_a_weight_may_be_zero_or_any_usual_number(weight: float) -> None:
    shell, joined = group_of()
    assert beat(shell, member_epoch=joined.member_epoch, weight=weight).error_code == ErrorCode.NONE


@pytest.mark.parametrize("weight", [-2.0, 1e-10, 1e10, float("nan"), float("inf")])
def test_any_other_weight_is_refused(weight: float) -> None:
    shell, joined = group_of()
    answer = beat(shell, member_epoch=joined.member_epoch, weight=weight)
    assert answer.error_code == ErrorCode.INVALID_REQUEST and "a weight is 0, or between" in str(answer.error_message)


def test_a_member_that_offers_nothing_cannot_ask_for_a_new_target() -> None:
    shell, joined = group_of()
    before = shell.shard.consumer_groups["g"].epoch
    beat(shell, member_epoch=joined.member_epoch, asks_anew="why not")
    assert shell.shard.consumer_groups["g"].epoch == before


def test_an_invalid_target_is_refused_with_the_reason_and_the_last_one_stays() -> None:
    shell, joined = group_of(OfferedAssignor(name="mine"))
    asked = beat(shell, member_epoch=joined.member_epoch).computation
    assert asked is not None
    wrong = [TopicPartitions(topic_id=shell.topic_id("t"), partitions=[0, 7])]
    computed = Computed(group_epoch=asked.group_epoch, targets=[MemberTarget(member_id="m", topic_partitions=wrong)])
    answer = beat(shell, member_epoch=joined.member_epoch, computed=computed)
    assert answer.error_code == ErrorCode.NONE and answer.refused
    assert not shell.shard.consumer_groups["g"].target_of("m")


def test_the_journal_names_the_servers_assignor_once_no_member_computes() -> None:
    shell, joined = group_of(OfferedAssignor(name="mine"))
    asked = beat(shell, member_epoch=joined.member_epoch).computation
    assert asked is not None
    share = [TopicPartitions(topic_id=shell.topic_id("t"), partitions=[0, 1])]
    computed = Computed(group_epoch=asked.group_epoch, targets=[MemberTarget(member_id="m", topic_partitions=share)])
    epoch = beat(shell, member_epoch=joined.member_epoch, computed=computed).member_epoch
    beat(shell, member_epoch=epoch, offered_assignors=[])
    shell.set_topics({"t": 3})
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    events = shell.handle(request, "settles", 1).events
    assert [event.assignor for event in events if isinstance(event, GroupSettled)] == ["uniform"]


def test_the_server_computes_as_long_as_one_member_offers_nothing() -> None:
    shell, _ = group_of(OfferedAssignor(name="a"))
    join(shell, "n")
    group = shell.shard.consumer_groups["g"]
    assert group.target_epoch == group.epoch
    assert len(group.target_of("m")) == len(group.target_of("n")) == 1


def test_news_of_a_member_that_computes_an_older_epoch_need_no_epoch_of_their_own() -> None:
    shell, joined = group_of(OfferedAssignor(name="a", user_data=b"before"))
    assert beat(shell, member_epoch=joined.member_epoch).computation is not None
    join(shell, "n", "a")
    before = shell.shard.consumer_groups["g"].epoch
    offers = [OfferedAssignor(name="a", user_data=b"after")]
    epoch = shell.shard.consumer_groups["g"].members["m"].epoch
    asked = beat(shell, member_epoch=epoch, offered_assignors=offers, asks_anew="it has changed").computation
    assert asked is not None
    assert (asked.group_epoch, shell.shard.consumer_groups["g"].epoch) == (before, before)
    assert {member.member_id: member.user_data for member in asked.members} == {"m": b"after", "n": None}
