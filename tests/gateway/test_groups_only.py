"""With --groups-only, group requests pass through the gateway, and records do not, if the client can do so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic, Producer
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.testing import Cluster
from tests.conftest import need_jars
from tests.interop import kafka as interop
from tests.interop.kafka import QUICK_START, java, running_kafka_pair
from tests.interop.mixed.events import Committed, Read, value_of
from tests.interop.mixed.kinds import KINDS, Choices, Kind, Place
from tests.interop.mixed.member import Member
from tests.interop.mixed.needs import need

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]
PARTITIONS, EACH = 6, 10
HEADER = bytes(50_000)
"""Records are large, so that the bytes that the gateway received tell where they passed."""
PAST_GATEWAY = {("java", "classic"), ("java", "consumer"), ("kohort", "classic"), ("kohort", "consumer")}
THROUGH_GATEWAY = {
    ("librdkafka", "classic"),
    ("librdkafka", "consumer"),
    ("kafka-python", "classic"),
    ("aiokafka", "classic"),
    ("franz-go", "classic"),
    ("franz-go", "consumer"),
    ("kafkajs", "classic"),
}


@pytest.fixture(scope="module", params=["kohort", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cluster of several brokers, each of which leads some of the partitions."""
    if request.param == "kohort":
        with Cluster(3) as cluster:
            yield cluster.bootstrap_servers
    else:
        need_jars(request.config)
        with running_kafka_pair(("a", "b"), {"offsets.topic.num.partitions": "6"}) as (first, _):
            yield first.bootstrap


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """A topic of 3 MB."""
    asyncio.run(_write(bootstrap))
    return "large"


async def _write(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic("large", PARTITIONS)])
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(EACH):
            for partition in range(PARTITIONS):
                value = value_of(partition, number).encode()
                await producer.send("large", value, partition=partition, headers=[("padding", HEADER)])


@pytest.fixture
async def gateway(bootstrap: str) -> AsyncIterator[Gateway]:
    upstream = [Address(host, int(port)) for host, _, port in (one.rpartition(":") for one in bootstrap.split(","))]
    async with Gateway(GatewayOptions(upstream, Address("127.0.0.1", 0), groups_only=True)) as gateway:
        yield gateway


async def consumed(member: Member) -> None:
    """Return when the member has read and committed all records."""
    while not (
        sum(span.last - span.first + 1 for event in member.events if isinstance(event, Read) for span in event.spans)
        == PARTITIONS * EACH
        and isinstance(member.events[-1], Committed)
    ):
        assert not member.ended, member.errors
        await asyncio.sleep(0.02)


def received(gateway: Gateway) -> int:
    return gateway.figures.upstream_bytes + sum(link.upstream.received for link in gateway.links)


@pytest.mark.parametrize(("name", "protocol"), sorted(PAST_GATEWAY | THROUGH_GATEWAY))
async def test_group_requests_pass_and_records_do_not(
    name: str, protocol: str, topic: str, gateway: Gateway, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == name)
    need(kind, request)
    member = start(kind, protocol, str(gateway.address), topic, tmp_path)
    try:
        await consumed(member)
        assert {group for link in gateway.links for group in link.members.values()} == {f"{name}-{protocol}"}
        size = PARTITIONS * EACH * len(HEADER)
        passed = received(gateway)
        assert (passed < size / 20) if (name, protocol) in PAST_GATEWAY else (passed > size)
    finally:
        member.kill()


async def test_java_copies_a_topic_in_transactions(bootstrap: str, gateway: Gateway, kafka_tools: None) -> None:
    # Its producer keeps one connection for each node ID, for its records and for the coordinators.
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic("source", 2), NewTopic("copy", 2)])
    values = [f"value {number}" for number in range(30)]
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send("source", value.encode(), partition=number % 2)
    program = str(Path(interop.__file__).with_name("Transactions.java"))
    command = java(program, str(gateway.address), "source", "copy", str(len(values)), options=QUICK_START)
    copying = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        out, _ = await copying.communicate()
    finally:
        if copying.returncode is None:
            copying.kill()
    *copied, aborted = out.decode().splitlines()
    assert sorted(copied) == sorted(values)
    assert aborted.startswith("aborted")
    async with Admin(bootstrap_servers=bootstrap) as admin:
        committed = await admin.group_offsets("copy-group")
    assert sum(found.offset for found in committed.values() if found is not None) == len(values)


def start(kind: Kind, protocol: str, bootstrap: str, topic: str, directory: Path) -> Member:
    strategy = "uniform" if protocol == "consumer" else "range"
    place = Place(bootstrap, f"{kind.name}-{protocol}", topic, strategy, "m", 10_000, Choices(protocol=protocol))
    return Member(kind, place, directory)
