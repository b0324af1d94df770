"""Clients of seven makes in one group over TLS, each with its own user, whose ACLs allow what a member needs.

Their sessions end after three seconds: all but aiokafka's, which has a certificate, authenticate again and again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import confluent_kafka
import pytest

from tests.interop.clients import Confluent
from tests.interop.mixed.checks import (
    commits_going_back,
    generations_going_back,
    misassigned,
    owned_twice,
    read_again,
    unread,
    wrong_records,
)
from tests.interop.mixed.churn import MixedGroup
from tests.interop.mixed.consumer_churn import ConsumerGroupChurn
from tests.interop.mixed.events import Committed
from tests.interop.mixed.kinds import CONSUMER_KINDS, Kind
from tests.interop.mixed.lengths import for_half_a_minute, for_some_seconds, patient
from tests.interop.mixed.login import Login
from tests.interop.mixed.member import Member
from tests.interop.mixed.needs import kinds_here
from tests.interop.mixed.offsets_log import read_group_log
from tests.interop.mixed.producer import NumberedProducer
from tests.interop.process import until
from tests.interop.secured import SESSION_MS, SecuredBroker
from tests.interop.test_mixed_consumer_groups import violations as consumer_violations
from tests.interop.test_mixed_seven import KILLS, PARTITIONS, RECORDS_PER_S, SEED, refused_commits

pytestmark = [pytest.mark.interop, patient]

MECHANISMS = {
    "java": "SCRAM-SHA-512",
    "librdkafka": "OAUTHBEARER",
    "kafka-python": "SCRAM-SHA-512",
    "kafkajs": "SCRAM-SHA-256",
    "kohort": "OAUTHBEARER",
    "franz-go": "PLAIN",
    # It has no re-authentication (KIP-368).
    "aiokafka": "",
}


@for_some_seconds
def test_members_of_seven_clients_share_a_group_over_tls(
    secured: SecuredBroker, fresh: str, tmp_path: Path, remark: Callable[[str], None], seconds: float
) -> None:
    kinds = kinds_here(remark)
    Confluent().create_topic(secured.bootstrap, fresh, PARTITIONS)
    logins, writer = users(secured, kinds, fresh)
    assert refusal(secured, fresh) == confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED

    rng = random.Random(SEED)
    group = MixedGroup(secured.bootstrap, fresh, fresh, kinds, tmp_path, rng, KILLS, logins)
    producer = NumberedProducer(writer.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED, writer)
    try:
        group.everybody_joins("range")
        group.settle()
        until(30.0, "each member has outlived its session", lambda: all(outlived(one) for one in group.live))
        group.churn("range", seconds / 2)
        group.come_back("range")
        group.settle()
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log, broker_log = read_group_log(secured.bootstrap, fresh), secured.process.output()
    checks = (
        group.problems,
        producer.problems,
        wrong_records(group.lives),
        owned_twice(group.lives),
        misassigned(log.generations, PARTITIONS),
        generations_going_back(log.generations),
        commits_going_back(log.commits, group.lives),
        unread(group.lives, producer.written),
        read_again(group.lives),
        refused_commits(group),
        [line for line in broker_log.splitlines() if "session has expired" in line],
    )
    (tmp_path / "steps").write_text("\n".join(group.steps))
    (tmp_path / "broker.log").write_text(broker_log)
    found = [sentence for some in checks for sentence in some[:5]]
    assert found == [], "\n".join([f"in {tmp_path}:", *found])


@for_half_a_minute
def test_members_of_four_clients_share_a_consumer_group_over_tls(
    secured: SecuredBroker, fresh: str, tmp_path: Path, remark: Callable[[str], None], seconds: float
) -> None:
    # Some subscribe by an expression, which the coordinator resolves.
    kinds = kinds_here(remark, CONSUMER_KINDS)
    Confluent().create_topic(secured.bootstrap, fresh, PARTITIONS)
    logins, writer = users(secured, kinds, fresh)
    rng = random.Random(SEED)
    group = ConsumerGroupChurn(secured.bootstrap, fresh, fresh, kinds, tmp_path, rng, KILLS, logins)
    producer = NumberedProducer(writer.bootstrap, fresh, PARTITIONS, RECORDS_PER_S, SEED, writer)
    try:
        group.everybody_joins("uniform")
        group.settle()
        until(30.0, "each member has outlived its session", lambda: all(outlived(one) for one in group.live))
        group.churn("uniform", seconds)
        group.come_back("uniform")
        group.settle()
        producer.stop()
        until(30.0, "the lag is 0", lambda: group.committed() == producer.written)
        group.everybody_leaves()
    finally:
        producer.stop()
        group.end()

    log, broker_log = read_group_log(secured.bootstrap, fresh), secured.process.output()
    found = consumer_violations(group, producer, log)
    found += [line for line in broker_log.splitlines() if "session has expired" in line]
    (tmp_path / "steps").write_text("\n".join(group.steps))
    (tmp_path / "broker.log").write_text(broker_log)
    assert found == [], "\n".join([f"in {tmp_path}:", *found])
    assert log.generations == [], "no member fell back to the classic protocol"


def users(secured: SecuredBroker, kinds: Sequence[Kind], name: str) -> tuple[dict[str, Login], Login]:
    """Add a user for each kind, and one for the producer, with ACLs for the topic and the group of that name."""
    logins = {kind.name: secured.login(kind.name, MECHANISMS[kind.name]) for kind in kinds}
    for user in logins:
        # To read implies to describe.
        secured.allow(user, "READ", topic=name)
        secured.allow(user, "READ", group=name)
    writer = secured.login("producer", "PLAIN")
    secured.allow("producer", "WRITE", topic=name)
    return logins, writer


def outlived(member: Member) -> bool:
    """Whether it commits after the end of the session with which it began."""
    commits = [event.at for event in member.events if isinstance(event, Committed)]
    return bool(commits) and commits[-1] - member.events[0].at > SESSION_MS


def refusal(secured: SecuredBroker, topic: str) -> int | None:
    """Return the error of a consumer whose user may read the topic, but not the group."""
    login = secured.login("stranger", "SCRAM-SHA-256")
    secured.allow("stranger", "READ", topic=topic)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": login.bootstrap, "group.id": topic, **login.librdkafka()})
    try:
        consumer.subscribe([topic])
        answer = consumer.poll(20.0)
        error = answer and answer.error()
        return error.code() if error else None
    finally:
        consumer.close()
