"""A group that everybody had left begins without the initial delay when the same members are back."""

from collections.abc import Sequence

import pytest

from kohort.coordinator import GroupConfig, GroupState
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.shell import Shell

DELAY = 3_000
HOLDS = GroupConfig(heartbeat_hold_ms=9_000)


@pytest.fixture
def shell() -> Shell:
    return Shell(HOLDS)


def join(shell: Shell, client_id: str) -> str:
    """A member's join; the name of its request."""
    token = f"{client_id} joins at {shell.now} as {len(shell.waiting)}"
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(["orders"])))],
    )
    answers.update(shell.handle(request, token, 3, client_id).replies)
    return token


answers: dict[object, object] = {}


@pytest.fixture(autouse=True)
def _forget() -> None:
    answers.clear()


def wait(shell: Shell, milliseconds: int) -> None:
    for effects in shell.wait(milliseconds):
        answers.update(effects.replies)


def begin(shell: Shell, client_ids: Sequence[str]) -> None:
    """They join, wait as long as it takes, and share."""
    tokens = [join(shell, client_id) for client_id in client_ids]
    wait(shell, 2 * DELAY)
    for token in tokens:
        joined = answers[token]
        assert isinstance(joined, JoinGroupResponse)
        request = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        shell.handle(request, f"sync of {token}", 3)
    assert state(shell) is GroupState.STABLE


def leave(shell: Shell) -> None:
    """All of them."""
    gone = [MemberIdentity(member_id=member_id) for member_id in shell.shard.members("g")]
    shell.handle(LeaveGroupRequest(group_id="g", members=gone), f"leave at {shell.now}", 5)
    assert state(shell) is GroupState.EMPTY


def state(shell: Shell) -> GroupState:
    return shell.shard.groups["g"].state


def test_it_begins_when_the_last_of_them_is_back(shell: Shell) -> None:
    begin(shell, ["a", "b", "b"])
    shell.now += 3_600_000
    leave(shell)
    for client_id in ("b", "a"):
        join(shell, client_id)
        assert state(shell) is GroupState.PREPARING_REBALANCE
    join(shell, "b")
    assert state(shell) is GroupState.COMPLETING_REBALANCE


def test_it_waits_for_the_delay_while_one_is_missing_or_another_came_in_its_place(shell: Shell) -> None:
    begin(shell, ["a", "b"])
    leave(shell)
    join(shell, "a")
    join(shell, "c")
    wait(shell, DELAY - 1)
    assert state(shell) is GroupState.PREPARING_REBALANCE


def test_it_waits_for_the_delay_if_the_members_left_long_ago(shell: Shell) -> None:
    begin(shell, ["a"])
    leave(shell)
    shell.now += 700_000
    join(shell, "a")
    assert state(shell) is GroupState.PREPARING_REBALANCE


def test_a_new_group_waits_for_the_delay(shell: Shell) -> None:
    join(shell, "a")
    assert state(shell) is GroupState.PREPARING_REBALANCE


def test_without_holding_it_waits_as_kafka_does() -> None:
    shell = Shell(GroupConfig())
    begin(shell, ["a"])
    leave(shell)
    join(shell, "a")
    assert state(shell) is GroupState.PREPARING_REBALANCE
