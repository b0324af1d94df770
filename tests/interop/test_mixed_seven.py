"""Clients of seven makes in one group that never comes to rest; and the five of them that rebalance cooperatively.

Java, librdkafka, kafka-python, aiokafka, kafkajs, franz-go and ours.
KOHORT_MIXED_MINUTES says for how long, KOHORT_MIXED_SEED in which order members come and go, KOHORT_MIXED_KILLS=0
leaves out the kills.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.broker import Broker
from tests.interop.clients import Confluent
from tests.interop.mixed.checks import (
    commits_going_back,
    generations_going_back,
    given_twice,
    is_blank,
    misassigned,
    owned_twice,
    read_again,
    unread,
    wrong_records,
)
from tests.interop.mixed.churn import MixedGroup
from tests.interop.mixed.events import Committed
from tests.interop.mixed.kinds import COOPERATIVE_KINDS, KINDS, Kind
from tests.interop.mixed.lengths import for_half_a_minute, for_some_seconds, patient
from tests.interop.mixed.needs import kinds_here, need
from tests.interop.mixed.offsets_log import GroupLog, read_group_log
from tests.interop.mixed.producer import NumberedProducer
from tests.interop.process import until

SEED = int(os.environ.get("KOHORT_MIXED_SEED", "1"))
KILLS = os.environ.get("KOHORT_MIXED_KILLS", "1") != "0"

PARTITIONS = 12
RECORDS_PER_S = 200

pytestmark = [pytest.mark.interop, patient]


@pytest.mark.long("one case per client; they are all in the shared group below")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_client_of_each_kind_reads_and_commits_alone(
    kind: Kind, any_broker: Broker, fresh: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    need(kind, request)
    group = new_group(any_broker, fresh, tmp_path, [kind])
    producer = NumberedProducer(any_broker.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED)
    try:
        group.everybody_joins("range")
        group.settle()
        until(20.0, "some records are written", lambda: sum(producer.written.values()) >= 100)
        producer.stop()
        until(20.0, "all is committed", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()
    log = read_group_log(any_broker.bootstrap, fresh)
    found = [*misassigned(log.generations, PARTITIONS), *refused_commits(group)]
    assert violations(group, producer, log, found) == []


@for_some_seconds
def test_members_of_seven_clients_share_a_group(
    any_broker: Broker,
    fresh: str,
    tmp_path: Path,
    kafka_tools: None,
    remark: Callable[[str], None],
    seconds: float,
) -> None:
    group = new_group(any_broker, fresh, tmp_path, kinds_here(remark))
    producer = NumberedProducer(any_broker.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED)
    try:
        group.everybody_joins("range")
        group.churn("range", seconds / 2)
        group.everybody_leaves()
        # The committed offsets are the same group's: its next members may agree on another assignor.
        until(30.0, "the group is Empty", lambda: group.state() == "EMPTY")
        group.everybody_joins("roundrobin")
        group.churn("roundrobin", seconds / 2)

        group.come_back("roundrobin")
        group.settle()
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.settle()
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log = read_group_log(any_broker.bootstrap, fresh)
    print(figures(group, producer, log))
    found = violations(group, producer, log, [*misassigned(log.generations, PARTITIONS), *refused_commits(group)])
    # The members' own logs are stored beside the steps, to find the cause of a failure.
    (tmp_path / "steps").write_text("\n".join(group.steps))
    assert found == [], "\n".join([f"in {tmp_path}:", *found])
    assert log.commits.keys() == producer.written.keys()
    assert {generation.protocol for generation in log.generations if generation.owners} == {"range", "roundrobin"}


@for_half_a_minute
def test_members_of_five_clients_share_a_cooperative_group(
    any_broker: Broker,
    fresh: str,
    tmp_path: Path,
    kafka_tools: None,
    remark: Callable[[str], None],
    seconds: float,
) -> None:
    group = new_group(any_broker, fresh, tmp_path, kinds_here(remark, COOPERATIVE_KINDS))
    producer = NumberedProducer(any_broker.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED)
    try:
        group.everybody_joins("cooperative-sticky")
        group.churn("cooperative-sticky", seconds)
        group.come_back("cooperative-sticky")
        group.settle()
        until(30.0, "all is shared out", lambda: sum(len(member.owned) for member in group.live) == PARTITIONS)
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log = read_group_log(any_broker.bootstrap, fresh)
    print(figures(group, producer, log))
    found = violations(group, producer, log, given_twice(log.generations))
    (tmp_path / "steps").write_text("\n".join(group.steps))
    assert found == [], "\n".join([f"in {tmp_path}:", *found])


def new_group(broker: Broker, name: str, directory: Path, kinds: list[Kind]) -> MixedGroup:
    Confluent().create_topic(broker.bootstrap, name, PARTITIONS)
    return MixedGroup(broker.bootstrap, name, name, kinds, directory, random.Random(SEED), KILLS)


def violations(group: MixedGroup, producer: NumberedProducer, log: GroupLog, found: list[str]) -> list[str]:
    """At most some of each sort, beside those `found`; empty when all is well."""
    checks = (
        group.problems,
        producer.problems,
        wrong_records(group.lives),
        owned_twice(group.lives),
        found,
        generations_going_back(log.generations),
        commits_going_back(log.commits, group.lives),
        unread(group.lives, producer.written),
        read_again(group.lives),
    )
    return [sentence for some in checks for sentence in some[:5]]


def refused_commits(group: MixedGroup) -> list[str]:
    """Nobody was put out of the group but those who were killed, and eager members commit before they rejoin."""
    return [
        f"{life.name}: a commit was refused: {event.error}"
        for life in group.lives
        for event in life.events
        if isinstance(event, Committed) and event.error
    ]


def figures(group: MixedGroup, producer: NumberedProducer, log: GroupLog) -> str:
    """Return a summary of the run."""
    kinds = Counter(life.kind.name for life in group.lives)
    return (
        f"seed {SEED}: {sum(producer.written.values())} records, {len(group.lives)} members {dict(kinds)}, "
        f"{sum(life.killed_at is not None for life in group.lives)} killed, "
        f"{len({generation.number for generation in log.generations})} generations "
        f"({sum(map(is_blank, log.generations))} by a leader that did not know the topic yet), "
        f"{sum(map(len, log.commits.values()))} committed offsets"
    )
