"""How long a member of a mirrored group whose connection is gone may stay away."""

from collections.abc import Callable

import pytest

from kohort.coordinator import INFERRED_GRACE, RequestContext
from kohort.gateway.groups import GroupMirror
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.gateway.driven_mirror import request, response

WHO = "/10.0.0.1", "app"
NOW = 1_000_000


def context(version: int, who: tuple[str, str] = WHO) -> RequestContext:
    host, client_id = who
    return RequestContext(object(), version, client_id, host, may_hold=True)


@pytest.fixture
def mirror() -> GroupMirror:
    return GroupMirror(hold_ms=15_000)


def consumer_member(mirror: GroupMirror, instance_id: str | None = None) -> None:
    joining = request("a", 0, [])
    joining.instance_id = instance_id
    mirror.response(joining, response("a", 1, []), context(1), NOW)


def classic_member(mirror: GroupMirror, instance_id: str | None = None) -> None:
    joining = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="a",
        group_instance_id=instance_id,
        protocol_type="any",
        protocols=[JoinGroupRequestProtocol(name="one", metadata=b"")],
    )
    asked = context(5)
    mirror.sent(joining, asked, NOW)
    mirror.answered(joining, JoinGroupResponse(generation_id=1, member_id="a", leader="b"), asked, NOW)


Join = Callable[..., None]
MEMBERS: list[Join] = [consumer_member, classic_member]


@pytest.mark.parametrize("join", MEMBERS)
def test_a_process_that_is_very_likely_gone_has_less_time(mirror: GroupMirror, join: Join) -> None:
    assert mirror.short_grace_ms("g", "a", INFERRED_GRACE, WHO) is None  # it is not known
    join(mirror)
    assert mirror.grace_ms("g", "a", INFERRED_GRACE) == 5_500
    assert mirror.short_grace_ms("g", "a", INFERRED_GRACE, WHO) == 1_500
    for stranger in (("/10.0.0.2", "app"), ("/10.0.0.1", "other")):
        assert mirror.short_grace_ms("g", "a", INFERRED_GRACE, stranger) is None


def test_a_member_of_a_consumer_group_has_until_the_heartbeat_that_it_was_told_to_send(mirror: GroupMirror) -> None:
    answer = response("a", 1, [])
    answer.heartbeat_interval_ms = 15_000
    mirror.response(request("a", 0, []), answer, context(1), NOW)
    assert mirror.grace_ms("g", "a", INFERRED_GRACE) == 15_500


@pytest.mark.parametrize("join", MEMBERS)
def test_a_static_member_and_one_with_an_operators_time_have_no_shorter_one(mirror: GroupMirror, join: Join) -> None:
    join(mirror)
    assert [mirror.short_grace_ms("g", "a", configured, WHO) for configured in (0, 1_000, 30_000)] == [None] * 3
    static = GroupMirror(hold_ms=15_000)
    join(static, "instance")
    assert static.short_grace_ms("g", "a", INFERRED_GRACE, WHO) is None


def test_of_a_member_that_joined_before_the_client_counts_that_first_spoke_for_it(mirror: GroupMirror) -> None:
    beat = HeartbeatRequest(group_id="g", member_id="a", generation_id=1)
    for who in (WHO, ("/10.0.0.1", "stranger")):
        asked = context(3, who)
        mirror.sent(beat, asked, NOW)
        mirror.answered(beat, HeartbeatResponse(), asked, NOW)
    assert mirror.short_grace_ms("g", "a", INFERRED_GRACE, WHO) == 1_500
    assert mirror.short_grace_ms("g", "a", INFERRED_GRACE, ("/10.0.0.1", "stranger")) is None
