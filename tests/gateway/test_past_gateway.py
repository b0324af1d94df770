"""What a gateway with --groups-only tells which client, and what happens to members that leave it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.coordinator import ClientKind
from kohort.errors import ConfigError
from kohort.gateway import Address, Gateway, GatewayOptions, past_gateway
from kohort.gateway.addresses import Addresses
from kohort.gateway.figures import GatewayMetrics
from kohort.gateway.framing import Fate
from kohort.gateway.groups import GroupMirror
from kohort.gateway.past_gateway import GoneMembers, PastGateway
from kohort.gateway.traffic import Traffic
from kohort.testing import Cluster
from kohort.wire.api import response_header
from kohort.wire.codec import Message, encode
from kohort.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kohort.wire.messages.produce import ProduceRequest
from tests.broker.security.certificates import Certificates, new_certificates
from tests.client.security.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.gateway.test_traffic import answered, asked, gateway_address, read

pytestmark = pytest.mark.timeout(60)
GROUP, TRANSACTION = 0, 1


@pytest.fixture
def traffic() -> Traffic:
    traffic = Traffic(Addresses(gateway_address))
    traffic.groups_only = True
    return traffic


@pytest.mark.parametrize(
    ("request_", "response", "version"),
    [
        (MetadataRequest(), MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="a", port=9092)]), 13),
        (
            DescribeClusterRequest(),
            DescribeClusterResponse(brokers=[DescribeClusterBroker(broker_id=1, host="a", port=9092)]),
            1,
        ),
    ],
)
def test_brokers_keep_their_addresses_and_the_gateway_learns_them(
    traffic: Traffic, request_: Message, response: Message, version: int
) -> None:
    asked(traffic, request_, version)
    unchanged = response_header(response.KEY, version, 7) + encode(response, version)
    assert answered(traffic, response, version) == unchanged
    assert traffic._addresses.brokers.upstream == {1: Address("a", 9092)}


@pytest.mark.parametrize("request_", [FetchRequest(), ProduceRequest(acks=1)])
def test_responses_with_new_leaders_pass_unread(traffic: Traffic, request_: Message) -> None:
    assert asked(traffic, request_, 12 if request_.KEY == ProduceRequest.KEY else 17) is Fate.PASS
    frame = response_header(request_.KEY, 17, 7)
    assert traffic.decide_response(memoryview(frame), 100_000) is Fate.PASS


@pytest.mark.parametrize(("key_type", "host"), [(GROUP, "gateway"), (TRANSACTION, "b")])
@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_only_coordinators_of_groups_are_at_the_gateway(
    traffic: Traffic, version: int, key_type: int, host: str
) -> None:
    request = (
        FindCoordinatorRequest(key="g", key_type=key_type)
        if version < 4
        else FindCoordinatorRequest(coordinator_keys=["g"], key_type=key_type)
    )
    for _ in range(2):
        assert asked(traffic, request, version) is Fate.COLLECT
        traffic.expect_coordinators(7, request)
        if version < 4:
            named = FindCoordinatorResponse(node_id=2, host="b", port=9092)
            got = read(FindCoordinatorResponse, version, answered(traffic, named, version))
            assert (got.node_id, got.host) == (2, host)
        else:
            named = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=2, host="b", port=9092)])
            found = read(FindCoordinatorResponse, version, answered(traffic, named, version)).coordinators[0]
            assert (found.node_id, found.host) == (2, host)
        # The next request with this correlation ID is one for a group.
        request.key_type, host = GROUP, "gateway"


def test_each_software_that_must_stay_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    past = PastGateway()
    assert past.admits(ClientKind.JAVA, "apache-kafka-java")
    assert not caplog.messages
    for software in ("kgo", "kgo", ""):
        assert not past.admits(ClientKind.OTHER, software)
    assert ["'kgo'" in message for message in caplog.messages] == [True, False]


async def test_a_member_that_has_gone_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(past_gateway, "_REPORT_S", 0.0)
    gone = GoneMembers(GroupMirror(15_000))
    for groups in (["g", "g"], ["h"]):
        for group in groups:
            gone.connection_lost(group, "m", 0)
        await asyncio.sleep(0.01)
    assert len(caplog.messages) == 2
    gone.connection_lost("g", "m", 0)
    gone.close()
    assert [message.partition(" did not")[0] for message in caplog.messages] == [
        "group=g members=2",
        "group=h members=1",
        "group=g members=1",
    ]
    assert gone.count == 4


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ends_sasl": True, "settings": {"listeners": "SASL_PLAINTEXT://:0"}}, "leave out --end-sasl"),
        ({"settings": {"group.disconnect.grace.ms": "5000"}}, "leave out group.disconnect.grace.ms"),
    ],
)
def test_options_that_contradict_it_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Gateway(GatewayOptions([Address("127.0.0.1", 9092)], groups_only=True, **options))


async def test_both_sides_must_have_tls_or_none() -> None:
    options = GatewayOptions(
        [Address("127.0.0.1", 9092)],
        Address("127.0.0.1", 0),
        upstream_options={"security_protocol": "SSL"},
        groups_only=True,
    )
    with pytest.raises(ConfigError, match="PLAINTEXT has no TLS"):
        await Gateway(options).start()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@asynccontextmanager
async def gateway_to(bootstrap: str) -> AsyncIterator[Gateway]:
    upstream = [Address(host, int(port)) for host, _, port in (one.rpartition(":") for one in bootstrap.split(","))]
    async with Gateway(GatewayOptions(upstream, Address("127.0.0.1", 0), groups_only=True)) as gateway:
        yield gateway


def members(gateway: Gateway) -> set[str]:
    return {member for link in gateway.links for member in link.members}


@asynccontextmanager
async def member_of(servers: object, group: str, protocol: str, **options: Any) -> AsyncIterator[Consumer]:
    """A group's only member, which has the partitions of the topic of the same name."""
    servers = str(servers)
    async with Admin(bootstrap_servers=servers, **options) as admin:
        await admin.create_topics([NewTopic(group, 2)])
    async with Consumer(
        group,
        group_id=group,
        group_protocol=protocol,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    ) as member:
        while not member.assignment:
            await member.poll(timeout=0.05)
        yield member


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_whose_connections_close_go_on_and_are_counted(
    cluster: Cluster, protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(past_gateway, "_RETURN_MS", 300)
    monkeypatch.setattr(past_gateway, "_REPORT_S", 0.0)
    topic = f"leaving-{protocol}"
    async with (
        gateway_to(cluster.bootstrap_servers) as gateway,
        member_of(gateway.address, topic, protocol) as member,
    ):
        (member_id,) = members(gateway)
        (link,) = (link for link in gateway.links if link.members)
        link.abort()
        async with asyncio.timeout(20):
            while not any("did not come back" in one for one in caplog.messages):
                await member.poll(timeout=0.05)
        assert not members(gateway)
        assert member.assignment
        await member.commit()
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            described = (await admin.describe_groups([topic]))[topic]
        assert [one.member_id for one in described.members] == [member_id]  # it was not removed
        shown = (await GatewayMetrics(gateway).part_for(False)).decode()
        assert "\nkohort_gateway_gone_members_total 1\n" in shown
        told = [one for one in caplog.messages if "did not come back" in one]
        assert told[0].startswith(f"group={topic} members=1 ")


async def test_members_that_leave_or_come_back_are_not_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(past_gateway, "_RETURN_MS", 100)
    async with gateway_to(cluster.bootstrap_servers) as gateway:
        async with member_of(gateway.address, "left", "classic"):
            assert members(gateway)
        await asyncio.sleep(0.4)  # longer than it waits for members
        assert gateway.gone_members == 0
    assert not [one for one in caplog.messages if "did not come back" in one]


async def test_offsets_of_a_transaction_reach_the_group(cluster: Cluster) -> None:
    async with (
        gateway_to(cluster.bootstrap_servers) as gateway,
        member_of(gateway.address, "input", "classic") as member,
    ):
        servers = str(gateway.address)
        async with Producer(bootstrap_servers=servers) as first:
            await first.send("input", b"value", partition=0)
        async with Producer(bootstrap_servers=servers, transactional_id="copier") as producer:
            while not (records := await member.poll(timeout=1.0)):
                pass
            async with producer.transaction(member):
                await producer.send("copies", records[0].value)
        assert members(gateway)
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            offsets = await admin.group_offsets("input")
        assert [found.offset for found in offsets.values() if found is not None] == [1]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return new_certificates(tmp_path)


def _join(into: Path, *files: Path) -> None:
    into.write_text("".join(file.read_text() for file in files))


async def test_clients_with_tls_and_sasl_reach_both(
    secured: SecuredKafka, certificates: Certificates, tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    _join(both, certificates.ca_file, Path(secured.certificates.cafile))
    own = {"listeners": "SASL_SSL://127.0.0.1:0", "ssl.keystore.location": str(certificates.key_store())}
    upstream = {"security_protocol": "SSL", "ssl_cafile": secured.certificates.cafile}
    login: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(both),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    where = [Address("localhost", secured.ports["SASL_SSL"])]
    options = GatewayOptions(where, Address("127.0.0.1", 0), own, upstream, groups_only=True)
    async with member_of(where[0], "first", "classic", **login):
        pass  # the coordinator of the first group of a new cluster is found at the second try
    async with Gateway(options) as gateway, member_of(gateway.address, "secured", "classic", **login) as member:
        async with Admin(bootstrap_servers=str(gateway.address), **login) as admin:
            described = await admin.describe_cluster()
        assert [(one.host, one.port) for one in described.brokers.values()] == [("localhost", where[0].port)]
        async with Producer(bootstrap_servers=str(gateway.address), **login) as producer:
            await producer.send("secured", bytes(500_000))
        while not await member.poll(timeout=1.0):
            pass
        await member.commit()
        assert members(gateway)
        passed = gateway.figures.upstream_bytes + sum(link.upstream.received for link in gateway.links)
        assert passed < 100_000
