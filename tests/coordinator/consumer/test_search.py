from __future__ import annotations

import time
from uuid import UUID

from kohort.assignor.server import TopicShape
from kohort.coordinator import MetadataImage, Topic
from kohort.coordinator.consumer.expression_search import ExpressionSearch
from kohort.coordinator.timers import ExpressionRefresh
from kohort.coordinator.topic_metadata import UNKNOWN
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.shell import Shell

SLOW = "(x+x+x+x+x+x+x+x+x+x+){100}y|x.*"
"""Exponential for engines that backtrack; for ours a large program."""

TOPICS = [Topic("x" * 200 + str(n), UUID(int=n + 1), TopicShape(1)) for n in range(400)]


def test_a_slow_expression_is_looked_up_in_slices() -> None:
    search = ExpressionSearch([SLOW, "x+7"], MetadataImage(TOPICS, 5))
    slices = 1
    while not search.proceed():
        slices += 1
    assert slices > 2
    found = search.found(99)
    assert found[SLOW].topics == {topic.name for topic in TOPICS}
    assert found["x+7"].topics == {TOPICS[7].name}
    assert (found["x+7"].version, found["x+7"].resolved_at) == (5, 99)


def test_a_member_with_a_slow_expression_is_answered_before_it_is_looked_up() -> None:
    shell = Shell()
    shell.change_topics(TOPICS)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=SLOW,
        topic_partitions=[],
    )
    before = time.process_time()
    answer = shell.handle(request, "join", 1).replies["join"]
    assert time.process_time() - before < 5
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert answer.member_epoch == 1 and ExpressionRefresh("g") in shell.timers
    while shell.shard.consumer_groups["g"].epoch == 1:
        next(shell.wait(1_000))
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    answer = shell.handle(beat, "beat", 1).replies["beat"]
    assert isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.assignment is not None
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (2, len(TOPICS))


def test_topics_that_change_meanwhile_restart_the_lookup() -> None:
    shell = Shell()
    shell.change_topics(TOPICS[:399])
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=SLOW,
        topic_partitions=[],
    )
    shell.handle(request, "join", 1)
    next(shell.wait(1_000))
    shell.change_topics(TOPICS)
    while shell.shard.consumer_groups["g"].epoch == 1:
        next(shell.wait(1_000))
    assert shell.shard.consumer_groups["g"].topics.resolved[SLOW].topics == {topic.name for topic in TOPICS}


def test_a_new_topic_is_compared_with_many_expressions_in_slices() -> None:
    shell = Shell()
    shell.set_topics({"orders": 1})
    for number in range(150):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"m{number}",
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=f"orders|new-{number}",
            topic_partitions=[],
        )
        shell.handle(request, number, 1)
    group = shell.shard.consumer_groups["g"]
    assert not shell.set_topics({"orders": 1, "new-7": 1}).records
    before = group.epoch
    for _ in range(150):
        next(shell.wait(1_000))
    assert group.epoch == before + 1 and "new-7" in group.topics.resolved["orders|new-7"].topics


def test_topics_that_are_known_only_after_a_failover_are_compared_with_expressions() -> None:
    shell = Shell()
    shell.set_topics({"orders": 1})
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="orders.*",
        topic_partitions=[],
    )
    shell.handle(request, "join", 1)
    shell.image = UNKNOWN
    shell.fail_over()
    shell.change_topics([Topic(name, UUID(int=n), TopicShape(1)) for n, name in enumerate(("orders", "orders-eu"), 7)])
    next(shell.wait(1_000))
    assert shell.shard.consumer_groups["g"].topics.resolved["orders.*"].topics == {"orders", "orders-eu"}
