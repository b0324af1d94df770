"""The assignors of Apache Kafka's own client as the oracle: one JVM computes what a few hundred groups get."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from kohort.assignor import ASSIGNORS
from kohort.assignor.near import Racks
from kohort.assignor.range import RangeAssignor
from kohort.assignor.user_data import NO_GENERATION
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription
from tests.assignor.groups import Group, parts, sizes
from tests.interop.kafka import jars

Given = Mapping[str, Sequence[TopicPartition]]

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("kafka_tools")]


def ask_java(groups: Sequence[str]) -> list[dict[str, list[TopicPartition]]]:
    source = Path(__file__).with_name("Assign.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(command, input="\n".join(groups), capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    answers = ran.stdout.split("\n.\n")[:-1]
    return [
        {member_id: parts(share.replace(",", " ")) for member_id, _, share in map(_pair, answer.splitlines())}
        for answer in answers
    ]


def _pair(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def described(group: Group, instance_ids: Mapping[str, str | None], racks: Racks | None = None) -> str:
    lines = [f"assignor {group.assignor.name}"]
    lines += [f"topic {topic} {count} {_racks(topic, count, racks)}" for topic, count in group.partitions.items()]
    lines += [_member(m, instance_ids.get(m), subscription) for m, subscription in group.subscriptions().items()]
    return "\n".join([*lines, "go"])


def _racks(topic: str, count: int, racks: Racks | None) -> str:
    return ";".join(",".join(sorted(racks[TopicPartition(topic, n)])) for n in range(count)) if racks else "-"


def _member(member_id: str, instance_id: str | None, subscription: Subscription) -> str:
    owned = ",".join(map(str, subscription.owned_partitions))
    topics = ",".join(subscription.topics)
    data = "-" if subscription.user_data is None else subscription.user_data.hex()
    generation, rack = subscription.generation_id, subscription.rack_id or "-"
    return f"member {member_id} {instance_id or '-'} {generation} {topics} {owned or '-'} {data} {rack}"


def some_group(name: str, dice: Random, *, one_subscription: bool) -> Group:
    """Nobody asks for nothing: Java's sticky assignors take an empty first subscription for everybody's."""
    partitions = {f"t{n}": dice.randint(1, 8) for n in range(dice.randint(1, 4))}
    # With up to 12 one-letter ids, Java's HashMap happens to list members in alphabetical order.
    members = "abcdefghijkl"[: dice.randint(1, 12)]
    every = sorted(partitions)
    topics = {
        m: every if one_subscription else sorted(dice.sample(every, dice.randint(1, len(every)))) for m in members
    }
    return Group(ASSIGNORS[name], partitions, topics)


def given_by_us(group: Group, instance_ids: Mapping[str, str | None]) -> dict[str, list[TopicPartition]]:
    made = group.assignor.assign(group.partitions, group.subscriptions(), instance_ids)
    return {member_id: list(assignment.partitions) for member_id, assignment in made.items()}


def kept(group: Group, given: Given) -> int:
    return sum(len(set(group.owned.get(member_id, ())) & set(share)) for member_id, share in given.items())


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_round_robin_give_exactly_what_java_gives(name: str) -> None:
    dice = Random(f"kohort {name}")
    groups = [some_group(name, dice, one_subscription=dice.random() < 0.5) for _ in range(300)]
    static = [{m: f"i{dice.randint(0, 9)}{m}" if dice.random() < 0.3 else None for m in g.topics} for g in groups]
    answers = ask_java([described(group, ids) for group, ids in zip(groups, static, strict=True)])
    assert [given_by_us(group, ids) for group, ids in zip(groups, static, strict=True)] == answers


def test_ranges_near_to_the_members_are_exactly_javas() -> None:
    dice = Random("kohort racks")
    groups: list[tuple[Group, dict[str, str | None], Racks]] = []
    for _ in range(600):
        group = some_group("range", dice, one_subscription=dice.random() < 0.5)
        if dice.random() < 0.5:  # topics that are cut alike
            group.partitions = dict.fromkeys(group.partitions, dice.randint(1, 8))
        replicas = dice.choice([1, 2, 3])
        placed: Racks = {
            TopicPartition(topic, n): frozenset(dice.sample("ABCD", replicas))
            for topic, count in group.partitions.items()
            for n in range(count)
        }
        group.racks = {m: rack for m in group.topics if (rack := dice.choice(["A", "B", "C", "Z", None]))}
        groups.append((group, {m: f"i{m}" if dice.random() < 0.2 else None for m in group.topics}, placed))
    answers = ask_java([described(*group) for group in groups])
    near = RangeAssignor()
    moved = 0
    for (group, ids, racks), java in zip(groups, answers, strict=True):
        made = near.assign_near(group.partitions, group.subscriptions(), ids, racks)
        ours = {member_id: list(assignment.partitions) for member_id, assignment in made.items()}
        assert ours == java, described(group, ids, racks)
        moved += ours != given_by_us(group, ids)
    assert moved > 200  # it is not about nothing


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_first_sticky_assignment_is_exactly_javas(name: str) -> None:
    dice = Random(f"kohort first {name}")
    groups = [some_group(name, dice, one_subscription=True) for _ in range(300)]
    assert [given_by_us(group, {}) for group in groups] == ask_java([described(group, {}) for group in groups])


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_after_a_change_shares_are_as_even_and_as_sticky_as_javas(name: str) -> None:
    # Java chooses the partitions that an overloaded member keeps in the order of a hash set.
    dice = Random(f"kohort change {name}")
    groups = []
    for _ in range(300):
        group = some_group(name, dice, one_subscription=True)
        group.rebalance()
        for member_id in dice.sample(sorted(group.topics), dice.randint(0, len(group.topics) - 1)):
            del group.topics[member_id]
        group.topics |= {member_id: sorted(group.partitions) for member_id in "mno"[: dice.randint(0, 3)]}
        groups.append(group)
    for group, java in zip(groups, ask_java([described(group, {}) for group in groups]), strict=True):
        ours = given_by_us(group, {})
        assert (sum(sizes(ours)), kept(group, ours)) == (sum(sizes(java)), kept(group, java)), described(group, {})
        # The same order decides what a cooperative assignment withholds.
        assert name != "sticky" or sizes(ours) == sizes(java), described(group, {})


def test_stale_claims_of_different_generations_are_settled_as_java_settles_them() -> None:
    dice = Random("kohort stale")
    groups = []
    for _ in range(300):
        group = some_group("cooperative-sticky", dice, one_subscription=True)
        quota = sum(group.partitions.values()) // len(group.topics)
        # Claims within the quota: no member is overloaded, and Java's hash order does not matter. No partition is
        # claimed three times: Java forgets what it knew of the first two.
        group.owned = {m: [] for m in group.topics}
        for partition in (TopicPartition(topic, n) for topic, count in group.partitions.items() for n in range(count)):
            for member_id in dice.sample(sorted(group.topics), min(dice.choice([0, 1, 1, 1, 2]), len(group.topics))):
                if len(group.owned[member_id]) < quota:
                    group.owned[member_id].append(partition)
        group.since = {m: dice.choice([NO_GENERATION, 4, 5]) for m in group.topics}
        groups.append(group)
    for group, java in zip(groups, ask_java([described(group, {}) for group in groups]), strict=True):
        ours = given_by_us(group, {})
        assert {m: sorted(share) for m, share in ours.items()} == {m: sorted(s) for m, s in java.items()}


def test_with_mixed_subscriptions_shares_are_on_the_whole_as_even_as_javas() -> None:
    # Both stop where no single move makes two members more alike; that is not always the same place.
    dice = Random("kohort mixed")
    groups = [some_group("sticky", dice, one_subscription=False) for _ in range(300)]
    answers = ask_java([described(group, {}) for group in groups])
    squares = [
        [sum(n * n for n in sizes(given)) for given in (given_by_us(g, {}), java)]
        for g, java in zip(groups, answers, strict=True)
    ]
    assert sum(ours for ours, _ in squares) <= sum(java for _, java in squares) * 1.01
