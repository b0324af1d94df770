"""A Java member whose commit cuts a hold short is asked for its next heartbeat."""

import pytest

from kohort.coordinator import ClientKind
from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.coordinator.held_group import HeldGroup

REFUSED = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
SESSION = 45_000


@pytest.fixture
def group() -> HeldGroup:
    return by_java(HeldGroup().at_rest(1))


def by_java(group: HeldGroup) -> HeldGroup:
    """All its members run the Java client."""
    for member in group.shell.shard.groups["g"].members.values():
        member.client = ClientKind.JAVA
    return group


def commit_after(group: HeldGroup, milliseconds: int) -> ErrorCode:
    """Return the response that a commit causes to the held heartbeat; the next heartbeat is held again."""
    [member_id] = group.members
    group.wait(milliseconds)
    group.release(member_id)
    answer = group.answer_to(member_id)
    group.wait(100)
    group.beat(member_id)
    return answer


def test_it_is_asked_after_each_commit(group: HeldGroup) -> None:
    assert {commit_after(group, 900) for _ in range(10)} == {REFUSED}


def test_it_is_answered_without_an_error_before_its_client_considers_the_coordinator_lost(group: HeldGroup) -> None:
    # The Java client counts its session from the last heartbeat that was answered without an error.
    answers = [commit_after(group, 900) for _ in range(50)]
    assert ErrorCode.NONE in answers
    for since in range(len(answers) - SESSION // 2_000):
        assert ErrorCode.NONE in answers[since : since + SESSION // 2_000]


def test_one_that_commits_all_the_time_does_not_send_heartbeats_all_the_time(group: HeldGroup) -> None:
    assert [commit_after(group, 50) for _ in range(4)] == [REFUSED, ErrorCode.NONE, REFUSED, ErrorCode.NONE]


def test_a_member_by_librdkafka_is_asked_twice_in_a_row_since_it_repeats_a_request_no_more() -> None:
    group = HeldGroup().at_rest(1)
    for member in group.shell.shard.groups["g"].members.values():
        member.client = ClientKind.LIBRDKAFKA
    assert [commit_after(group, 900) for _ in range(6)] == [REFUSED, REFUSED, ErrorCode.NONE] * 2


@pytest.mark.parametrize("client", [ClientKind.LIBRDKAFKA, ClientKind.JAVA])
def test_a_refused_heartbeat_that_librdkafka_repeats_after_its_next_join_does_not_fence_it(client: ClientKind) -> None:
    # After ILLEGAL_GENERATION it would give up its partitions without committing.
    group = HeldGroup().at_rest(1)
    [member_id] = group.members
    member, refused = group.shell.shard.groups["g"].members[member_id], group.generation
    member.client = client
    group.wait(900)
    group.release(member_id)
    assert group.answer_to(member_id) == REFUSED
    group.join()
    group.join(member_id)
    group.share()
    member.client = client
    assert group.generation > refused

    def answer(generation: int) -> object:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        return group.shell.beat(request, f"repeated {generation}").replies[f"repeated {generation}"]

    repeats = client is ClientKind.LIBRDKAFKA
    fenced = HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    assert answer(refused) == (HeartbeatResponse() if repeats else fenced)
    assert answer(refused - 1) == fenced


def test_a_generation_restarts_the_clients_session(group: HeldGroup) -> None:
    group.wait(50)
    [member_id] = group.members
    group.release(member_id)
    group.join()
    group.join(member_id)
    group.share()
    by_java(group).beat(*group.members)
    group.release(member_id)
    assert group.answer_to(member_id) == REFUSED


def test_a_quiet_group_is_left_in_peace(group: HeldGroup) -> None:
    group.wait(0)
    for _ in range(20):
        [member_id] = group.members
        group.release(member_id)
        group.wait(3_100)
        group.beat(member_id)
    group.release(member_id)
    assert group.answer_to(member_id) == ErrorCode.NONE
