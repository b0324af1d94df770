"""What the mirror of a classic group believes of requests that the coordinator has not accepted."""

from tests.gateway.classic_world import Member, World


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
