"""Commits that the checks of progress permit: abandoned ones, and those of partitions of a replaced topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.member import OffsetAndMetadata
from kohort.model import UUID, TopicPartition
from kohort.sim import Plan, Step, Violation, World
from kohort.sim.checks.group_progress import GroupProgress
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import MemberStart, TopicDelete

TOPIC, ORDERS = UUID(int=1), TopicPartition("orders", 0)


def test_a_commit_decreases_only_if_its_client_had_given_it_up() -> None:
    progress = GroupProgress()
    progress.covered["g", TOPIC, ORDERS] = 110
    progress.overtaken = {"a#9"}
    progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(110, "a#11"))
    progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(90, "a#9"))
    with pytest.raises(Violation, match="S8: g goes back"):
        progress.durable("g", TOPIC, ORDERS, OffsetAndMetadata(80, "a#8"))


def mixed_group_with_a_recreated_topic() -> World:
    """A consumer member still gives up the deleted topic while a classic member is assigned the new one.

    The members request metadata, so the topic is created again at once.
    """
    classic = ApplicationSettings("g", ("audit",))
    consumer = replace(classic, protocol="consumer", callback=20_000, commit_every=60_000)
    steps: list[Step] = [MemberStart(0.5 + number, number) for number in range(3)]
    steps.append(TopicDelete(60.0, "audit"))
    settings = {"group.initial.rebalance.delay.ms": "0"}
    members, rates = [consumer, replace(consumer), classic], [1.0] * 3
    return World(Plan(0, 90.0, settings=settings, topics={"audit": 3}, members=members, rates=rates, steps=steps))


def test_a_partition_of_a_deleted_topic_is_not_that_of_the_topic_created_again_under_its_name() -> None:
    assert mixed_group_with_a_recreated_topic().run().violation is None


def test_a_partition_has_one_owner_unless_another_topic_has_its_name_now() -> None:
    world = mixed_group_with_a_recreated_topic()
    world.progress.id_of = lambda name: None
    assert str(world.run().violation).startswith("S1: member-2.0 and member-0.0 both have")
