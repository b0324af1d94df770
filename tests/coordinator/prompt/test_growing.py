"""New partitions of a topic reach a classic group, though its leader looks for none by itself."""

import pytest

from kohort.coordinator import Effects, GroupConfig, GroupState
from kohort.coordinator.timers import NewPartitionsCheck
from kohort.group_events import Cause, RebalanceStarted
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.shell import Shell


@pytest.fixture
def shell() -> Shell:
    made = Shell(GroupConfig(initial_rebalance_delay_ms=0, heartbeat_hold_ms=9_000))
    made.set_topics({"orders": 2, "other": 1})
    return made


class Leader:
    """The only member of a group that asks for `orders`, and has of it what it gives itself."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.member_id = ""
        self.times = 0

    def share(self, partitions: int, protocol_type: str = "consumer") -> None:
        """Join, and take that many partitions."""
        self.times += 1
        joining = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(["orders"])))],
        )
        answers = self.shell.handle(joining, f"join {self.times}", 3).replies
        for effects in () if answers else self.shell.wait(0):
            answers |= effects.replies
        joined = answers[f"join {self.times}"]
        assert isinstance(joined, JoinGroupResponse)
        self.member_id = joined.member_id
        taken = encode_assignment(Assignment([TopicPartition("orders", n) for n in range(partitions)]))
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=taken)],
        )
        self.shell.handle(request, f"sync {self.times}", 3)

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=self.member_id)])
        self.shell.handle(request, "leave", 3)


def causes(shell: Shell, milliseconds: int) -> list[Cause]:
    """Why rebalances begin within that time."""
    told: list[Effects] = list(shell.wait(milliseconds))
    return [event.cause for effects in told for event in effects.events if isinstance(event, RebalanceStarted)]


def test_a_group_that_leaves_out_new_partitions_is_asked_to_join_again(shell: Shell) -> None:
    Leader(shell).share(2)
    shell.set_topics({"orders": 4, "other": 1})
    assert causes(shell, 3_000) == [Cause.TOPICS_CHANGED]
    assert shell.shard.groups["g"].state is GroupState.PREPARING_REBALANCE


def test_it_is_left_alone_where_its_leader_has_found_them(shell: Shell) -> None:
    leader = Leader(shell)
    leader.share(2)
    shell.set_topics({"orders": 4, "other": 1})
    leader.share(4)
    assert causes(shell, 30_000) == []


def test_it_is_asked_once_as_an_assignor_may_leave_out_what_it_wants(shell: Shell) -> None:
    leader = Leader(shell)
    leader.share(2)
    shell.set_topics({"orders": 4, "other": 1})
    assert causes(shell, 3_000) == [Cause.TOPICS_CHANGED]
    leader.share(2)
    assert causes(shell, 30_000) == []


def test_a_topic_that_it_does_not_read_is_not_its_concern(shell: Shell) -> None:
    Leader(shell).share(2)
    shell.set_topics({"orders": 2, "other": 5})
    assert causes(shell, 30_000) == []


def test_members_of_another_protocol_type_that_took_the_group_over_meanwhile_are_left_alone(shell: Shell) -> None:
    leader = Leader(shell)
    leader.share(2)
    shell.set_topics({"orders": 4, "other": 1})
    leader.leave()
    Leader(shell).share(2, "connect")
    assert shell.shard.groups["g"].state is GroupState.STABLE
    assert causes(shell, 30_000) == []


def test_without_held_heartbeats_members_find_out_for_themselves_as_with_kafka() -> None:
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=0))
    shell.set_topics({"orders": 2})
    Leader(shell).share(2)
    shell.set_topics({"orders": 4})
    assert causes(shell, 30_000) == []


def test_a_group_that_rebalances_when_it_is_looked_at_is_looked_at_again(shell: Shell) -> None:
    leader = Leader(shell)
    leader.share(2)
    shell.set_topics({"orders": 4, "other": 1})
    assert causes(shell, 900) == []
    # Somebody else begins to join, so the group prepares a rebalance when its second is over.
    joining = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(["orders"])))],
    )
    shell.handle(joining, "join of another", 3)
    assert causes(shell, 500) == []
    leader.share(2)
    assert causes(shell, 3_000) == [Cause.TOPICS_CHANGED]


def test_a_group_that_reads_another_topic_is_not_looked_at(shell: Shell) -> None:
    Leader(shell).share(2)
    shell.set_topics({"orders": 2, "other": 5})
    assert not any(isinstance(timer, NewPartitionsCheck) for timer in shell.timers)
    shell.set_topics({"orders": 3, "other": 5})
    assert any(isinstance(timer, NewPartitionsCheck) for timer in shell.timers)
