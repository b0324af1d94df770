"""A regular expression matches only topics that its members may describe."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from kohort.coordinator import Viewer
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.shell import Shell

ALL = ".*"
_tokens = count()


class Access:
    """What users may describe."""

    def __init__(self, **visible: set[str]) -> None:
        self.visible = visible

    def __call__(self, viewer: Viewer, topic: str) -> bool:
        return topic in self.visible[viewer[0].removeprefix("User:")]


def started(access: Access, *topics: str) -> Shell:
    shell = Shell(may_describe=access)
    shell.set_topics(dict.fromkeys(topics, 1))
    return shell


def heartbeat(
    shell: Shell, member: str, user: str, epoch: int = 0, expression: str | None = None, instance: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, instance_id=instance)
    if expression is not None:
        request.subscribed_topic_regex = expression
        request.rebalance_timeout_ms, request.topic_partitions = 60_000, []
    token = next(_tokens)
    answer = shell.handle(request, token, 1, user).replies[token]
    assert isinstance(answer, ConsumerGroupHeartbeatResponse) and not answer.error_code, answer
    return answer


def given(shell: Shell, answer: ConsumerGroupHeartbeatResponse) -> set[str]:
    assert answer.assignment is not None
    return {shell.names[one.topic_id] for one in answer.assignment.topic_partitions}


def resolved(shell: Shell) -> set[str]:
    return set(shell.shard.consumer_groups["g"].topics.resolved[ALL].topics)


def at_once(shell: Shell) -> None:
    """Fire the timers that are due."""
    list(shell.wait(0))


def test_an_expression_matches_only_what_its_member_may_describe() -> None:
    shell = started(Access(alice={"orders"}), "orders", "secrets")
    assert given(shell, heartbeat(shell, "a", "alice", expression=ALL)) == {"orders"}
    assert resolved(shell) == {"orders"}


def test_a_new_topic_is_matched_if_the_member_may_describe_it() -> None:
    shell = started(Access(alice={"orders", "orders-2"}), "orders")
    heartbeat(shell, "a", "alice", expression=ALL)
    shell.set_topics({"orders": 1, "orders-2": 1, "secrets": 1})
    at_once(shell)
    assert resolved(shell) == {"orders", "orders-2"}


def test_a_change_of_acls_takes_topics_away_and_adds_others() -> None:
    access = Access(alice={"orders"})
    shell = started(access, "orders", "secrets")
    epoch = heartbeat(shell, "a", "alice", expression=ALL).member_epoch
    access.visible["alice"] = {"secrets"}
    shell.apply(shell.shard.acls_changed(shell.now))
    at_once(shell)
    assert resolved(shell) == {"secrets"}
    assert shell.shard.consumer_groups["g"].epoch == epoch + 1
    list(shell.wait(5_000))  # targets are computed in intervals
    heartbeat(shell, "a", "alice", epoch)
    (target,) = shell.shard.consumer_groups["g"].targets.values()
    assert {shell.names[topic_id] for topic_id in target.by_topic} == {"secrets"}


def test_a_change_of_acls_that_concerns_no_topic_of_the_group_changes_nothing() -> None:
    access = Access(alice={"orders"})
    shell = started(access, "orders", "secrets")
    epoch = heartbeat(shell, "a", "alice", expression=ALL).member_epoch
    access.visible["alice"] = {"orders", "other"}
    shell.apply(shell.shard.acls_changed(shell.now))
    at_once(shell)
    assert shell.shard.consumer_groups["g"].epoch == epoch


def test_members_of_two_users_share_what_both_may_describe() -> None:
    # Assignments are by expression, so a member might get a topic that only another member may read.
    shell = started(Access(alice={"orders", "a"}, bob={"orders", "b"}), "orders", "a", "b")
    heartbeat(shell, "a", "alice", expression=ALL)
    assert resolved(shell) == {"orders", "a"}
    heartbeat(shell, "b", "bob", expression=ALL)
    at_once(shell)
    assert resolved(shell) == {"orders"}


def test_after_a_failover_nothing_is_added_until_the_members_are_known() -> None:
    shell = started(Access(alice={"orders", "orders-2"}, bob={"orders", "orders-2"}), "orders")
    first = heartbeat(shell, "a", "alice", expression=ALL).member_epoch
    epoch = heartbeat(shell, "b", "bob", expression=ALL).member_epoch
    shell.is_down = True
    shell.set_topics({"orders": 1, "orders-2": 1, "secrets": 1})
    shell.is_down = False
    shell.fail_over()
    at_once(shell)
    assert resolved(shell) == {"orders"}
    quiet = ConsumerGroupHeartbeatRequest(group_id="g", member_id="b", member_epoch=epoch)
    assert shell.shard.quiet_heartbeat(quiet, shell.now) is None  # it must be handled with its sender
    heartbeat(shell, "a", "alice", first)
    list(shell.wait(5_000))
    assert resolved(shell) == {"orders"}
    heartbeat(shell, "b", "bob", epoch)
    list(shell.wait(5_000))
    assert resolved(shell) == {"orders", "orders-2"}


@pytest.mark.parametrize("last", ["known", "replaced", "gone", "subscribed to something else"])
def test_a_topic_is_added_when_the_last_member_that_is_unknown_after_a_failover_is(last: str) -> None:
    users = ("alice", "bob", "carol", "dave", "eve")
    shell = started(Access(**{user: {"orders", "orders-2"} for user in users}), "orders")
    epochs = {
        user: heartbeat(shell, user, user, expression=ALL, instance="i" if user == "bob" else None).member_epoch
        for user in users
    }
    list(shell.wait(5_000))
    shell.is_down = True
    shell.set_topics({"orders": 1, "orders-2": 1})
    shell.is_down = False
    shell.fail_over()
    at_once(shell)

    def return_with_another_id() -> None:
        heartbeat(shell, "bob", "bob", -2, instance="i")
        heartbeat(shell, "bob-2", "bob", expression=ALL, instance="i")

    events: dict[str, Callable[[], object]] = {
        "known": lambda: heartbeat(shell, "alice", "alice", epochs["alice"]),
        "replaced": return_with_another_id,
        "gone": lambda: heartbeat(shell, "carol", "carol", -1),
        "subscribed to something else": lambda: heartbeat(shell, "dave", "dave", epochs["dave"], expression=""),
    }
    heartbeat(shell, "eve", "eve", epochs["eve"])
    for name in sorted(events, key=lambda name: name == last):
        list(shell.wait(5_000))
        assert resolved(shell) == {"orders"}
        events[name]()
    list(shell.wait(5_000))
    assert resolved(shell) == {"orders", "orders-2"}


def test_after_a_failover_what_may_no_longer_be_described_is_lost() -> None:
    access = Access(alice={"orders", "secrets"})
    shell = started(access, "orders", "secrets")
    epoch = heartbeat(shell, "a", "alice", expression=ALL).member_epoch
    access.visible["alice"] = {"orders"}
    shell.fail_over()
    at_once(shell)
    assert resolved(shell) == {"orders", "secrets"}
    heartbeat(shell, "a", "alice", epoch)
    at_once(shell)
    assert resolved(shell) == {"orders"}


def test_the_user_of_a_member_that_left_no_longer_counts() -> None:
    shell = started(Access(alice={"orders"}, bob={"orders", "b"}), "orders", "b")
    heartbeat(shell, "a", "alice", expression=ALL)
    heartbeat(shell, "b", "bob", expression=ALL)
    heartbeat(shell, "a", "alice", -1)
    assert list(shell.shard.consumer_groups["g"].viewers) == ["b"]
    shell.apply(shell.shard.acls_changed(shell.now))
    at_once(shell)
    assert resolved(shell) == {"orders", "b"}
