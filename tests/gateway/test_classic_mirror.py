"""What the mirror of a classic group believes of requests that the coordinator has not accepted."""

from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest
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
