"""The prompt room in front of another coordinator than `GroupShard`: it needs nothing but `GroupFacts`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort.coordinator import ClientKind, Effects, GroupSettings, HeldHeartbeat, RequestContext, WaitingRequest
from kohort.coordinator.prompt import (
    ClassicHeartbeats,
    FormerMembers,
    PromptHeartbeats,
    RebalanceNotice,
    RestartingMembers,
)
from kohort.coordinator.prompt.consumer_heartbeats import only_epoch_is_new
from kohort.coordinator.prompt.rebalance_notification import _all_may_join_at
from kohort.coordinator.timers import NotificationDue
from kohort.errors import ErrorCode
from kohort.model import UUID, Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

TOPIC = UUID(int=1)


@dataclass
class KnownMember:
    """A member of a classic group, as far as its requests and their answers show."""

    member_id: str
    client: ClientKind = ClientKind.OTHER
    session_timeout_ms: Millis = 45_000
    joined_at: Millis = 0
    is_new: bool = False
    heartbeats: ClassicHeartbeats = field(default_factory=ClassicHeartbeats)


@dataclass
class KnownGroup:
    """A classic group whose coordinator is elsewhere."""

    group_id: str
    members: dict[str, KnownMember]
    is_eager: bool = True
    awaits_joins: bool = False
    rejoined: set[str] = field(default_factory=set)
    rebalance_timeout_ms: Millis = 60_000
    generation_at: Millis | None = None
    notice: RebalanceNotice = field(default_factory=RebalanceNotice)
    restarts: RestartingMembers = field(default_factory=RestartingMembers)
    former_members: FormerMembers = field(default_factory=FormerMembers)

    @property
    def is_cooperative(self) -> bool:
        return not self.is_eager

    @property
    def all_process(self) -> bool:
        return not self.awaits_joins


@dataclass
class KnownConsumer:
    """A member of a consumer group, as its last answer shows it."""

    member_id: str
    epoch: int = 1
    must_revoke: bool = False
    waits_for_others: bool = False


@dataclass
class KnownConsumerGroup:
    """A consumer group whose coordinator is elsewhere."""

    group_id: str
    members: dict[str, KnownConsumer]
    target_at: Millis = 0
    awaits_target: bool = False
    moving: set[str] = field(default_factory=set)
    waiting: dict[str, list[tuple[str, UUID, int]]] = field(default_factory=dict)

    def waits_for(self, member_id: str) -> list[tuple[str, UUID, int]]:
        return self.waiting.get(member_id, [])

    def would_move(self, member_id: str) -> bool:
        return member_id in self.moving


@dataclass
class Elsewhere:
    """Another coordinator: its answers are what it was last asked to give."""

    classic_group: KnownGroup | None = None
    consumer_group: KnownConsumerGroup | None = None
    code: ErrorCode = ErrorCode.NONE
    response: ConsumerGroupHeartbeatResponse = field(default_factory=ConsumerGroupHeartbeatResponse)

    def settings(self, group_id: str, /) -> GroupSettings:
        return GroupSettings()

    def classic(self, group_id: str) -> KnownGroup | None:
        return self.classic_group

    def consumer(self, group_id: str) -> KnownConsumerGroup | None:
        return self.consumer_group

    def next_target_at(self, group_id: str) -> Millis:
        return 0

    def classic_answer(self, request: HeartbeatRequest, now: Millis) -> ErrorCode:
        return self.code

    def consumer_answer(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
    ) -> ConsumerGroupHeartbeatResponse:
        return self.response


def beat(prompt: PromptHeartbeats, member_id: str, now: Millis) -> ErrorCode | HeldHeartbeat:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    return prompt.answer_or_hold_classic(request, ErrorCode.NONE, now, member_id)


def test_eager_members_of_another_coordinator_learn_of_a_rebalance_together() -> None:
    group = KnownGroup("g", {name: KnownMember(name) for name in "ab"})
    elsewhere = Elsewhere(group)
    prompt = PromptHeartbeats(elsewhere, 9_000)
    assert isinstance(beat(prompt, "a", 1_000), HeldHeartbeat)
    group.awaits_joins, elsewhere.code = True, ErrorCode.REBALANCE_IN_PROGRESS
    out = Effects()
    prompt.rebalance_began(group, 1_100, out)
    assert NotificationDue("g") in out.timers, "the heartbeat of b is awaited"
    assert not prompt.has_news
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="b")
    held = prompt.answer_or_hold_classic(request, ErrorCode.REBALANCE_IN_PROGRESS, 1_200, "b")
    assert isinstance(held, HeldHeartbeat)
    prompt.answer_news(1_200, out)
    assert out.replies == {name: HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS) for name in "ab"}


def test_a_member_of_another_coordinator_is_notified_when_its_partition_is_free() -> None:
    elsewhere = Elsewhere(consumer_group=KnownConsumerGroup("g", {"a": KnownConsumer("a", waits_for_others=True)}))
    assert elsewhere.consumer_group is not None
    elsewhere.consumer_group.waiting["a"] = [("g", TOPIC, 0)]
    prompt, out = PromptHeartbeats(elsewhere, 9_000), Effects()
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    answer = ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=1, heartbeat_interval_ms=5_000)
    context = RequestContext("a", 1, may_hold=True)
    prompt.answer_or_hold(request, context, answer, 1_000, out, repeats_offers=False)
    assert not out.replies and prompt.is_held("g", "a")
    prompt.partitions_freed("g", TOPIC, [1])
    assert not prompt.has_news, "it waits for another partition"
    prompt.partitions_freed("g", TOPIC, [0])
    elsewhere.response = ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=1, assignment=Assignment())
    prompt.answer_news(1_100, out)
    assert out.replies == {"a": elsewhere.response}
    assert not prompt.is_held("g", "a")


def test_a_member_that_owes_an_acknowledgement_to_another_coordinator_is_answered_at_once() -> None:
    member = KnownConsumer("a", must_revoke=True)
    prompt, out = PromptHeartbeats(Elsewhere(consumer_group=KnownConsumerGroup("g", {"a": member})), 9_000), Effects()
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    answer = ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=1, heartbeat_interval_ms=5_000)
    prompt.answer_or_hold(request, RequestContext("a", 1, may_hold=True), answer, 1_000, out, repeats_offers=False)
    assert out.replies == {"a": answer}
    assert answer.heartbeat_interval_ms == 100, "so that it can acknowledge soon"


def test_a_request_behind_a_heartbeat_of_another_coordinator_releases_it() -> None:
    prompt, out = PromptHeartbeats(Elsewhere(KnownGroup("g", {"a": KnownMember("a")})), 9_000), Effects()
    held = beat(prompt, "a", 1_000)
    assert isinstance(held, HeldHeartbeat)
    prompt.release(held.token, WaitingRequest.REQUEST, 1_500, out)
    assert out.replies == {"a": HeartbeatResponse()}


def epoch_only(member: KnownConsumer, **group: Any) -> bool:
    return only_epoch_is_new(KnownConsumerGroup("g", {"a": member}, **group), member)


def test_a_new_epoch_waits_only_while_other_members_move() -> None:
    assert epoch_only(KnownConsumer("a"), moving={"b"})
    assert not epoch_only(KnownConsumer("a"))
    assert not epoch_only(KnownConsumer("a"), moving={"a", "b"})
    assert not epoch_only(KnownConsumer("a", must_revoke=True), moving={"b"})
    # Another target is due, and the heartbeat computes it.
    assert not epoch_only(KnownConsumer("a"), moving={"b"}, awaits_target=True)


def test_members_that_have_joined_again_need_no_pause_before_another_join() -> None:
    members = {
        name: KnownMember(name, client=ClientKind.LIBRDKAFKA, joined_at=joined_at)
        for name, joined_at in (("a", 2_000), ("b", 1_000))
    }
    group = KnownGroup("g", members, awaits_joins=True)
    assert _all_may_join_at(group) == 3_000
    group.rejoined = {"a"}
    assert _all_may_join_at(group) == 2_000


@pytest.mark.parametrize("awaits_joins", [True, False])
def test_a_notification_that_is_due_after_its_rebalance_notifies_nobody(*, awaits_joins: bool) -> None:
    group = KnownGroup("g", {"a": KnownMember("a")}, awaits_joins=awaits_joins)
    group.notice.is_delayed, group.notice.due_at = True, 500
    room = PromptHeartbeats(Elsewhere(group), hold_ms=9_000)
    room.notification_due(group, 1_000, Effects())
    assert group.notice.is_delayed is not awaits_joins
