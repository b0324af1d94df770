"""What the mirror of a classic group believes of requests that the coordinator has not accepted."""

from kohort.coordinator import RequestContext
from kohort.errors import ErrorCode
from kohort.gateway.groups import GroupMirror
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.gateway.classic_world import Link, Member, World


def test_a_join_in_another_members_name_that_is_rejected_changes_nothing_of_it() -> None:
    # Were its session timeout believed, the member's heartbeat would be held for longer than its session.
    world = World(1, "range")
    member = world.join()
    world.run(10_000)
    assert world.mirror is not None
    group = world.mirror.classic("g")
    assert group is not None
    stranger = Member(world, "stranger")
    stranger.member_id, stranger.session_timeout_ms = member.member_id, 900_000
    stranger.link.to_coordinator = lambda request, token, *, is_probe: None  # type: ignore[method-assign]
    stranger.join()
    world.run(100)
    assert [join.session_timeout_ms for join in group.joins.values()] == [900_000]
    assert group.members[member.member_id].session_timeout_ms == 45_000


def test_a_member_that_has_rejoined_is_told_at_once_that_the_group_rebalances() -> None:
    world = World(1, "range")
    members = [world.join() for _ in range(3)]
    world.run(10_000)
    assert world.mirror is not None
    group = world.mirror.classic("g")
    assert group is not None
    leader, late, _ = sorted(members, key=lambda member: member.member_id != group.leader_id)
    # Without its heartbeat, the group is told later: all members at once.
    late.link.commit()
    leader.join()
    world.run(30)
    assert group.notice.is_delayed
    other = Link(world, leader, world.gateways[0])
    answers: list[int] = []
    other.deliver = lambda request, response, token: answers.append(response.error_code)  # type: ignore[method-assign]
    other.send(HeartbeatRequest(group_id="g", generation_id=group.generation, member_id=leader.member_id))
    world.run(30)
    assert group.notice.is_delayed
    assert answers == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_rebalance_that_a_failover_has_undone_is_over_when_a_follower_gets_its_generation_again() -> None:
    # Otherwise the gateway would tell the member of it again, and the member would join again, without an end.
    mirror, context = GroupMirror(15_000), RequestContext("token", 5, "client", "/host", may_hold=True)
    join = JoinGroupRequest(group_id="g", member_id="m", session_timeout_ms=45_000, protocol_type="consumer")
    joined = JoinGroupResponse(generation_id=3, member_id="m", leader="other", protocol_name="range")
    beat = HeartbeatRequest(group_id="g", member_id="m", generation_id=3)
    sync = SyncGroupRequest(group_id="g", member_id="m", generation_id=3)
    for begins in (HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), None):
        mirror.sent(join, context, 0)
        mirror.answered(join, joined, context, 0)
        mirror.answered(sync, SyncGroupResponse(), context, 0)
        if begins is not None:
            told = mirror.answered(beat, begins, context, 10).effects.replies["token"]
            assert isinstance(told, HeartbeatResponse) and told.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    replies = mirror.answered(beat, HeartbeatResponse(), context, 20).effects.replies
    assert all(getattr(reply, "error_code", 0) == 0 for reply in replies.values())
