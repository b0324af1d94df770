"""Eager, cooperative and consumer members of three libraries in one group that changes its protocol while it runs.

Whoever comes speaks any of the three, so the group becomes a consumer group (KIP-848) with the first that speaks its
protocol, and a classic group with the last that goes. KOHORT_MIXED_MINUTES and KOHORT_MIXED_SEED as in the others.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop.clients import Confluent
from tests.interop.kohort import KohortBroker
from tests.interop.mixed.checks import commits_going_back, owned_twice, unread, wrong_records
from tests.interop.mixed.churn import MixedGroup
from tests.interop.mixed.kinds import KINDS, Choices, Kind
from tests.interop.mixed.lengths import for_half_a_minute, patient
from tests.interop.mixed.offsets_log import read_group_log
from tests.interop.mixed.producer import NumberedProducer
from tests.interop.process import until
from tests.interop.test_running_migration import type_of

SEED = int(os.environ.get("KOHORT_MIXED_SEED", "1"))
PARTITIONS = 12

EAGER, COOPERATIVE, CONSUMER = "range,cooperative-sticky", "cooperative-sticky", "uniform"
"""What a member offers. Who offers both gives everything up in a rebalance, as the second round of KIP-429 has it."""
SPOKEN = {
    "java": (EAGER, COOPERATIVE, CONSUMER),
    "kohort": (EAGER, COOPERATIVE, CONSUMER),
    "librdkafka": (COOPERATIVE, CONSUMER),  # it refuses a list of both kinds
}

pytestmark = [pytest.mark.interop, patient]


@dataclass
class MigratingGroup(MixedGroup):
    """Each new member uses one of the protocols of its library; few support KIP-848's."""

    spoken: list[str] = field(default_factory=list)

    def _join(self, kind: Kind, strategy: str, choices: Choices | None = None) -> None:
        chosen = strategy or self.rng.choice(SPOKEN[kind.name])
        self.spoken.append(chosen)
        super()._join(kind, chosen, Choices(protocol="consumer" if chosen == CONSUMER else "classic"))

    def consumer_members_leave(self) -> None:
        """Then the group is a classic one."""
        for member in [member for member in self.live if member.place.choices.protocol == "consumer"]:
            self._leave(member)
        self._wait_for_leavers()


@for_half_a_minute
def test_eager_cooperative_and_consumer_members_share_a_group_that_migrates(
    kohort_broker: KohortBroker, fresh: str, tmp_path: Path, kafka_tools: None, seconds: float
) -> None:
    # Not at Apache Kafka, which migrates no group that librdkafka leads.
    bootstrap = kohort_broker.bootstrap
    Confluent().create_topic(bootstrap, fresh, PARTITIONS)
    kinds = [kind for kind in KINDS if kind.name in SPOKEN]
    group = MigratingGroup(bootstrap, fresh, fresh, kinds, tmp_path, random.Random(SEED), False)
    producer = NumberedProducer(bootstrap, fresh, PARTITIONS, 100, SEED)
    types = []
    try:
        for kind, strategy in zip(kinds, (COOPERATIVE, EAGER, COOPERATIVE), strict=True):
            group._join(kind, strategy)
        group.settle()
        types.append(type_of(bootstrap, fresh))
        for kind in kinds:
            group._join(kind, CONSUMER)
        group.settle()
        types.append(type_of(bootstrap, fresh))
        group.churn("", seconds)
        group.consumer_members_leave()
        for kind in kinds[:2]:
            group._join(kind, EAGER if EAGER in SPOKEN[kind.name] else COOPERATIVE)
        group.settle()
        types.append(type_of(bootstrap, fresh))
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log = read_group_log(bootstrap, fresh)
    print(f"seed {SEED}: {len(group.lives)} members, {log.moves} moves, {sum(producer.written.values())} records")
    (tmp_path / "steps").write_text("\n".join(group.steps))
    # A member that must join again may commit too late, and be refused: who has the partition then reads that again.
    checks = (
        group.problems,
        producer.problems,
        wrong_records(group.lives),
        owned_twice(group.lives),
        log.owned_twice,
        commits_going_back(log.commits),
        unread(group.lives, producer.written),
    )
    assert [sentence for found in checks for sentence in found[:5]] == []
    assert types == ["classic", "consumer", "classic"]
    assert set(group.spoken) == {EAGER, COOPERATIVE, CONSUMER}
