"""Six Java members change their protocol one by one, and back, while they process (KIP-848's migration).

The group migrates by itself: its first member of the consumer protocol makes it a consumer group, the last one that
goes makes it a classic group again. Dynamic members leave and join as others; static ones restart within their session.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from kohort import blocking
from tests.interop.broker import Broker
from tests.interop.clients import Confluent
from tests.interop.mixed.checks import commits_going_back, owned_twice, read_again, unread, wrong_records
from tests.interop.mixed.churn import SETTLED_S, MixedGroup
from tests.interop.mixed.events import Committed, Lost, Revoked
from tests.interop.mixed.kinds import KINDS, Choices
from tests.interop.mixed.member import Member
from tests.interop.mixed.offsets_log import GroupLog, read_group_log
from tests.interop.mixed.producer import NumberedProducer
from tests.interop.process import until

PARTITIONS = 12
MEMBERS = 6
JAVA = next(kind for kind in KINDS if kind.name == "java")

# Two minutes each: for `make interop`, which runs it at both brokers.
pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.timeout(600)]


@dataclass
class RollingGroup(MixedGroup):
    """Members that restart one after the other."""

    static: bool = False

    def start(self, assignor: str) -> None:
        """All members, of the classic protocol."""
        for number in range(MEMBERS):
            self._join(JAVA, assignor, Choices(instance=f"i{number}" if self.static else ""))
        self.settle()

    def roll(self, protocol: str, assignor: str) -> None:
        """Every member restarts with that protocol, when the group has settled from the one before."""
        for member in list(self.live):
            self._leave(member)
            until(SETTLED_S, f"{member.name} has ended", lambda member=member: member.ended)  # type: ignore[misc]
            self._join(JAVA, assignor, Choices(protocol=protocol, instance=member.place.choices.instance))
            self.settle()


@pytest.mark.parametrize(("assignor", "static"), [("range", False), ("cooperative-sticky", True)])
def test_six_java_members_migrate_and_come_back(
    assignor: str, static: bool, any_broker: Broker, fresh: str, tmp_path: Path, kafka_tools: None
) -> None:
    bootstrap = any_broker.bootstrap
    Confluent().create_topic(bootstrap, fresh, PARTITIONS)
    group = RollingGroup(bootstrap, fresh, fresh, [JAVA], tmp_path, random.Random(1), False, static=static)
    producer = NumberedProducer(bootstrap, fresh, PARTITIONS, 100, 1)
    types = []
    try:
        group.start(assignor)
        types.append(type_of(bootstrap, fresh))
        group.roll("consumer", "uniform")
        types.append(type_of(bootstrap, fresh))
        group.roll("classic", assignor)
        types.append(type_of(bootstrap, fresh))
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log = read_group_log(bootstrap, fresh)
    restarts = len(group.lives) - MEMBERS
    pauses = [(life.name, len(stops(life))) for life in group.lives]
    print(f"{restarts} restarts, {sum(producer.written.values())} records, {log.moves} moves, stops of each: {pauses}")
    assert violations(group, producer, log) == []
    assert types == ["classic", "consumer", "classic"]
    if static:
        # Each restart moves what its member has at most once, so others stop at most once for it.
        assert max(count for _, count in pauses) <= restarts


def type_of(bootstrap: str, group: str) -> str:
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_groups([group])[group].type


def stops(life: Member) -> list[Revoked | Lost]:
    """When it had to stop processing something while it lived on."""
    return [event for event in life.events if isinstance(event, Revoked | Lost) and event.partitions][:-1]


def violations(group: RollingGroup, producer: NumberedProducer, log: GroupLog) -> list[str]:
    # A cooperative member may poll while it rejoins; the Java client then has it commit what it got a little later.
    refused = [
        f"{life.name}: a commit was refused: {event.error}"
        for life in group.lives
        for event in life.events
        if isinstance(event, Committed) and event.error and "undergoing a rebalance" not in event.error
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
