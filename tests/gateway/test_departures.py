"""A member in whose place the gateway leaves was gone since its connection was closed."""

import pytest

from kohort.errors import ErrorCode
from kohort.gateway.observed.names import TopicNames
from kohort.gateway.observed.observer import GroupObserver
from kohort.group_events import Cause, GroupEvent, MemberGone, MemberRejoined, RebalanceStarted
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
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


def join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=45_000, member_id=member_id, protocol_type="consumer", protocols=[]
    )


def refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
)
def test_a_client_that_the_coordinator_refuses_changes_nothing(code: ErrorCode) -> None:
    # Anybody who reaches the gateway can send a JoinGroup with an invented member ID.
    observer = GroupObserver(TopicNames())
    for group_has_members in (False, True):
        for number in range(3):
            assert not observed(observer, (join(f"invented-{number}"), refused(code)), 1_000)
        if not group_has_members:
            assert not observer._classic
            observed(observer, JOINS["classic"], 2_000)
    # The leader joins again, and the coordinator names the members: nobody is missing.
    again = JoinGroupResponse(
        generation_id=2, leader="m", member_id="m", members=[JoinGroupResponseMember(member_id="m")]
    )
    events = observed(observer, (join("m"), again), 3_000)
    assert not [event for event in events if isinstance(event, MemberGone)]


def test_a_client_that_joins_with_the_id_that_it_got_counts_before_it_is_answered() -> None:
    observer = GroupObserver(TopicNames())
    observed(observer, JOINS["classic"], 1_000)
    assert not observed(observer, (join(""), refused(ErrorCode.MEMBER_ID_REQUIRED, "n")), 2_000)
    [event] = observer.sent(join("n"), "c", "/c")
    assert isinstance(event, MemberRejoined)
    assert event.member.member_id == "n"
    assert not observer._offered


def test_a_member_that_was_there_before_the_gateway_counts_when_it_is_answered() -> None:
    observer = GroupObserver(TopicNames())
    assert not observer.sent(join("m"), "c", "/c")
    answer = JoinGroupResponse(generation_id=7, leader="other", member_id="m", members=[])
    events = observer.answered(join("m"), answer, "c", "/c", 1_000)
    assert [type(event) for event in events] == [RebalanceStarted, MemberRejoined]


def test_ids_that_are_never_used_are_bounded() -> None:
    observer = GroupObserver(TopicNames())
    for number in range(10_010):
        observed(observer, (join(""), refused(ErrorCode.MEMBER_ID_REQUIRED, f"n{number}")), 1_000)
    assert (len(observer._offered), ("g", "n9") in observer._offered) == (10_000, False)
    assert observer.sent(join("n10"), "c", "/c")
