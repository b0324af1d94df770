"""A member in whose place the gateway leaves was gone since its connection was closed."""

import pytest

from kohort.gateway.observed.names import TopicNames
from kohort.gateway.observed.observer import GroupObserver
from kohort.group_events import Cause, GroupEvent, MemberGone
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

JOINS: dict[str, tuple[Message, Message]] = {
    "consumer": (
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["orders"]),
        ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1),
    ),
    "classic": (
        JoinGroupRequest(
            group_id="g", session_timeout_ms=45_000, member_id="m", protocol_type="consumer", protocols=[]
        ),
        JoinGroupResponse(generation_id=1, protocol_name="range", leader="m", member_id="m", members=[]),
    ),
}
LEAVES: dict[str, tuple[Message, Message]] = {
    "consumer": (
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1),
        ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=-1),
    ),
    "classic": (
        LeaveGroupRequest(group_id="g", member_id="m", members=[MemberIdentity(member_id="m")]),
        LeaveGroupResponse(members=[MemberResponse(member_id="m")]),
    ),
}


def observed(observer: GroupObserver, exchange: tuple[Message, Message], now: Millis) -> list[GroupEvent]:
    request, response = exchange
    return observer.sent(request, "c", "/c") + observer.answered(request, response, "c", "/c", now)


@pytest.mark.parametrize("protocol", JOINS)
def test_a_lost_member_is_silent_since_its_connection_was_closed(protocol: str) -> None:
    observer = GroupObserver(TopicNames())
    observed(observer, JOINS[protocol], 1_000)
    observer.connection_lost("g", "m", 3_500)
    [gone] = [event for event in observed(observer, LEAVES[protocol], 9_000) if isinstance(event, MemberGone)]
    assert (gone.cause, gone.silent_since) == (Cause.CONNECTION_LOST, 3_500)
    # One that comes back and leaves itself is not taken for a lost one.
    observed(observer, JOINS[protocol], 10_000)
    [gone] = [event for event in observed(observer, LEAVES[protocol], 11_000) if isinstance(event, MemberGone)]
    assert (gone.cause, gone.silent_since) == (Cause.MEMBER_LEFT, None)
