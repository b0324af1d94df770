"""Clients of four makes in one consumer group (KIP-848): Java, librdkafka, franz-go and ours.

KOHORT_MIXED_MINUTES says for how long, KOHORT_MIXED_SEED in which order members come and go, KOHORT_MIXED_KILLS=0
leaves out the kills.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.interop.broker import Broker
from tests.interop.clients import Confluent
from tests.interop.mixed.checks import commits_going_back, owned_twice, read_again, unread, wrong_records
from tests.interop.mixed.consumer_churn import ConsumerGroupChurn
from tests.interop.mixed.events import Committed
from tests.interop.mixed.kinds import CONSUMER_KINDS, KINDS, Kind
from tests.interop.mixed.lengths import for_half_a_minute, patient
from tests.interop.mixed.needs import kinds_here, need
from tests.interop.mixed.offsets_log import GroupLog, read_group_log
from tests.interop.mixed.producer import NumberedProducer
from tests.interop.process import until

SEED = int(os.environ.get("KOHORT_MIXED_SEED", "1"))
KILLS = os.environ.get("KOHORT_MIXED_KILLS", "1") != "0"

PARTITIONS = 12
RECORDS_PER_S = 200

pytestmark = [pytest.mark.interop, patient]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in CONSUMER_KINDS], ids=lambda kind: kind.name)
def test_a_client_of_each_kind_reads_and_commits_alone(
    kind: Kind, any_broker: Broker, fresh: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    need(kind, request)
    group = new_group(any_broker, fresh, tmp_path, [kind])
    producer = NumberedProducer(any_broker.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED)
    try:
        group.everybody_joins("uniform")
        group.settle()
        until(20.0, "some records are written", lambda: sum(producer.written.values()) >= 100)
        producer.stop()
        until(20.0, "all is committed", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()
    assert violations(group, producer, read_group_log(any_broker.bootstrap, fresh)) == []


@for_half_a_minute
def test_members_of_four_clients_share_a_consumer_group(
    any_broker: Broker,
    fresh: str,
    tmp_path: Path,
    kafka_tools: None,
    remark: Callable[[str], None],
    seconds: float,
) -> None:
    kinds = kinds_here(remark, CONSUMER_KINDS)
    group = new_group(any_broker, fresh, tmp_path, kinds)
    producer = NumberedProducer(any_broker.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED)
    try:
        for strategy in ("uniform", "range"):
            group.everybody_joins(strategy)
            group.churn(strategy, seconds / 2)
        group.come_back("range")
        group.settle()
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.settle()
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log = read_group_log(any_broker.bootstrap, fresh)
    killed = sum(life.killed_at is not None for life in group.lives)
    print(f"seed {SEED}: {len(group.lives)} members, {killed} killed, {log.moves} moves, {group.partitions} partitions")
    found = violations(group, producer, log)
    # The members' own logs are stored beside the steps, to find the cause of a failure.
    (tmp_path / "steps").write_text("\n".join(group.steps))
    assert found == [], "\n".join([f"in {tmp_path}:", *found])
    assert log.commits.keys() == producer.written.keys()
    assert log.generations == [], "no member fell back to the classic protocol"


def new_group(broker: Broker, name: str, directory: Path, kinds: Sequence[Kind]) -> ConsumerGroupChurn:
    Confluent().create_topic(broker.bootstrap, name, PARTITIONS)
    return ConsumerGroupChurn(broker.bootstrap, name, name, kinds, directory, random.Random(SEED), KILLS)


def violations(group: ConsumerGroupChurn, producer: NumberedProducer, log: GroupLog) -> list[str]:
    """At most some of each sort; empty when all is well."""
    refused = [
        f"{life.name}: a commit was refused: {event.error}"
        for life in group.lives
        for event in life.events
        if isinstance(event, Committed) and event.error
    ]
    checks = (
        group.problems,
        producer.problems,
        wrong_records(group.lives),
        owned_twice(group.lives),
        log.owned_twice,
        commits_going_back(log.commits),
        unread(group.lives, producer.written),
        read_again(group.lives),
        refused,
    )
    return [sentence for found in checks for sentence in found[:5]]
