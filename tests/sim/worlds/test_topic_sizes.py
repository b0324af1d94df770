"""The largest size that a topic has had is known, whenever it is deleted: members may have been assigned that much."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.sim import Plan, Step, World
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import TopicCreate, TopicDelete


@pytest.mark.parametrize("kind", [{}, {"files": True}, {"cluster": True}])
def test_a_topic_that_exists_for_a_moment_counts(kind: dict[str, Any]) -> None:
    steps: list[Step] = [TopicCreate(1.3, "clicks", 6), TopicDelete(1.6, "clicks")]
    settings = {"group.initial.rebalance.delay.ms": "0"}
    members = [ApplicationSettings("g", ("audit",))]
    world = World(
        Plan(0, 3.0, settings=settings, topics={"audit": 1}, members=members, rates=[1.0], steps=steps, **kind)
    )
    assert world.run().violation is None
    assert "clicks" not in {topic.name for topic in world.brokers.disk.topics.values()}
    assert world.observations.most("clicks") == 6
