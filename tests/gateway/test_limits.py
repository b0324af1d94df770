"""What clients can do to a gateway, and what it does when brokers and clients come and go."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from struct import pack

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.client import Admin, ClusterMetadata, Consumer, NewTopic, Producer
from kohort.errors import KafkaError, KohortError
from kohort.gateway import Address, Gateway, GatewayOptions, listening, side
from kohort.gateway import upstream as gateway_upstream
from kohort.gateway.addresses import Brokers
from kohort.gateway.link import Link
from kohort.lab.apache_kafka import free_ports
from kohort.model import TopicPartition
from kohort.testing import Cluster
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.peer import Peer
from tests.gateway.ports import consecutive_free_ports
from tests.gateway.relay import Relay

pytestmark = pytest.mark.timeout(60)
RECOVERY_S = 10.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        yield cluster


def upstream(cluster: Cluster) -> list[Address]:
    named = (address.rpartition(":") for address in cluster.bootstrap_servers.split(","))
    return [Address(host, int(port)) for host, _, port in named]


@asynccontextmanager
async def gateway_to(cluster: Cluster, **settings: str) -> AsyncIterator[Gateway]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    async with Gateway(GatewayOptions(upstream(cluster), Address("127.0.0.1", 0), named)) as gateway:
        yield gateway


async def connected(address: Address) -> Peer:
    return Peer(*await asyncio.open_connection(address.host, address.port))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        for _ in repeat(None):
            if is_so():
                return
            await asyncio.sleep(0.01)


async def ended(peer: Peer) -> None:
    """Wait until the gateway has closed the connection."""
    with suppress(ConnectionResetError):
        await peer.reader.read()
    peer.writer.transport.abort()


async def is_served(gateway: Gateway) -> None:
    peer = await connected(gateway.address)
    assert (await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)).brokers
    peer.writer.close()


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS at a port without it
        pack(">i", -1),
        pack(">i", (100 << 20) + 1),
        pack(">i", 0),
        pack(">ihhi", 8, 68, 1, 7),  # a heartbeat without a body
        pack(">ihhihB", 11, 68, 1, 7, -1, 0x7F),
        pack(">ihhih", 10, 17, 0, 7, -1),  # SaslHandshake 0
        pack(">ihhih", 10, 3, 99, 7, -1),
        pack(">ihhih", 10, 1, 99, 7, -1),
        pack(">ihhihB", 80_000, 0, 12, 7, -1, 0xFF) + b"\xff" * 80_000,
    ],
)
async def test_a_hostile_client_harms_no_other(cluster: Cluster, bytes_: bytes) -> None:
    async with gateway_to(cluster) as gateway:
        good = await connected(gateway.address)
        bad = await connected(gateway.address)
        bad.writer.write(bytes_)
        await ended(bad)
        assert (await good.ask(MetadataRequest(topics=[]), 12, MetadataResponse)).brokers
        good.writer.close()


async def test_a_request_that_does_not_arrive_completely_ends_its_connection(cluster: Cluster) -> None:
    async with gateway_to(cluster, frame_read_timeout_ms="1000") as gateway:
        slow = await connected(gateway.address)
        slow.writer.write(pack(">ihhi", 1_000_000, 3, 12, 7))
        await ended(slow)


async def test_a_connection_without_requests_ends(cluster: Cluster) -> None:
    async with gateway_to(cluster, connections_max_idle_ms="1000") as gateway:
        idle = await connected(gateway.address)
        await idle.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        await ended(idle)


async def test_a_connection_ends_when_it_has_been_idle_and_not_before(cluster: Cluster) -> None:
    async with gateway_to(cluster, connections_max_idle_ms="1500") as gateway:
        peer = await connected(gateway.address)
        for _ in range(12):
            await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            await asyncio.sleep(0.3)
        assert gateway.figures.ended.total() == 0
        await ended(peer)
        assert gateway.figures.ended["idle"] == 1


async def test_requests_may_always_be_incomplete_if_one_follows_the_other(cluster: Cluster) -> None:
    async with gateway_to(cluster, frame_read_timeout_ms="1000") as gateway:
        peer = await connected(gateway.address)
        request = pack(">ihhih", 14, ApiKey.API_VERSIONS, 0, 7, 4) + b"peer"
        peer.writer.write(request[:5])
        for _ in range(12):
            await asyncio.sleep(0.3)
            peer.writer.write(request[5:] + request[:5])
            await peer.receive_frame()
        assert not gateway.figures.ended
        peer.writer.close()


@pytest.mark.parametrize("settings", [{"frame_read_timeout_ms": "1000"}, {"connections_max_idle_ms": "1000"}])
async def test_a_gateway_that_stood_still_reads_before_it_ends_connections(
    cluster: Cluster, settings: dict[str, str]
) -> None:
    async with gateway_to(cluster, **settings) as gateway:
        peer = await connected(gateway.address)
        request = pack(">ihhih", 14, ApiKey.API_VERSIONS, 0, 7, 4) + b"peer"
        peer.writer.write(request[:5])
        await until(lambda: any(link.client.received for link in gateway.links))
        if "frame_read_timeout_ms" in settings:  # the time begins when the gateway looks
            await until(lambda: any(link._mid_frame_since for link in gateway.links))

        async def send_rest() -> None:
            await asyncio.sleep(0.1)
            peer.writer.write(request[5:])

        sending = asyncio.create_task(send_rest())
        await asyncio.sleep(0)
        time.sleep(1.5)  # noqa: ASYNC251  what is tested: all timers are due now, that of the gateway, too
        await peer.receive_frame()
        await sending
        assert not gateway.figures.ended
        peer.writer.close()


async def test_a_gateway_that_is_always_late_ends_connections_at_every_second_look(cluster: Cluster) -> None:
    async with gateway_to(cluster, frame_read_timeout_ms="1000") as gateway:

        def look_late() -> None:
            assert gateway._sweeper is not None
            gateway._sweeper.cancel()
            gateway._sweep_at -= 1.5
            gateway._sweep()
            gateway._sweeper.cancel()

        for number in range(1, 3):
            peer = await connected(gateway.address)
            peer.writer.write(pack(">ih", 14, ApiKey.API_VERSIONS))
            await until(lambda: any(link.client.received for link in gateway.links))
            (link,) = gateway.links
            await until(lambda link=link: link.upstream.is_open and not link.client.is_paused)  # type: ignore[misc]
            link._mid_frame_since = 0.0, link._members.count
            look_late()
            assert gateway.figures.ended.total() == number - 1
            look_late()
            assert gateway.figures.ended["incomplete request"] == number
            await ended(peer)
            await until(lambda: not gateway.links)


async def test_a_client_that_goes_away_in_the_middle_of_a_request_is_forgotten(cluster: Cluster) -> None:
    async with gateway_to(cluster, frame_read_timeout_ms="1000") as gateway:
        peer = await connected(gateway.address)
        peer.writer.write(pack(">ihhi", 1_000_000, 3, 12, 7))
        await until(lambda: bool(gateway._incomplete))
        peer.writer.close()
        await until(lambda: not gateway.links)
        assert not gateway._incomplete


async def test_a_client_that_waits_for_a_long_response_is_not_idle() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.read(1_000)
        if head[4:6] == pack(">h", ApiKey.OFFSET_FETCH):
            writer.write(pack(">ii", 4 + 12, 7))
            for _ in range(12):
                await asyncio.sleep(0.3)
                writer.write(b"x")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        broker = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        settings = {"connections.max.idle.ms": "1500"}
        async with Gateway(GatewayOptions([broker], Address("127.0.0.1", 0), settings, refresh_s=600)) as gateway:
            peer = await connected(gateway.address)
            peer.send_frame(pack(">hhih", ApiKey.OFFSET_FETCH, 1, 7, -1))
            assert await peer.receive_frame() == pack(">i", 7) + b"x" * 12
            peer.writer.close()


async def test_a_request_may_take_longer_if_the_broker_does_not_read_it(cluster: Cluster) -> None:
    async with Relay() as relay:
        relay.target = (upstream(cluster)[0].host, upstream(cluster)[0].port)
        options = GatewayOptions(
            [Address("127.0.0.1", relay.port)],
            Address("127.0.0.1", 0),
            settings={"frame.read.timeout.ms": "1000"},
        )
        async with Gateway(options) as gateway:
            peer = await connected(gateway.address)
            await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            relay.cut(silent=True)
            peer.writer.write(pack(">ihhi", 90 << 20, ApiKey.OFFSET_COMMIT, 2, 7) + bytes(50 << 20))
            (link,) = gateway.links
            await until(lambda: link.client.is_paused)
            await asyncio.sleep(3.5)
            assert link.client.is_paused
            assert not gateway.figures.ended["incomplete request"]
            peer.writer.transport.abort()


async def test_a_cluster_of_too_many_brokers_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_MOST_NODES", 3)
    async with gateway_to(cluster) as gateway:
        await until(lambda: len(gateway.brokers.upstream) == 2)
        doors = gateway._doors[0]
        doors.open_for(7)
        with pytest.raises(KohortError, match="names more than 3 brokers"):
            doors.open_for(8)
        doors.open_for(7)


async def test_a_broker_whose_port_is_taken_harms_no_other(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    port = consecutive_free_ports(4)
    options = GatewayOptions(upstream(cluster), Address("127.0.0.1", port), refresh_s=600)
    line = f"clients cannot use broker=2: Port {port + 3} of 127.0.0.1 for broker 2 is taken"
    with socket.create_server(("127.0.0.1", port + 3)):
        async with Gateway(options) as gateway:
            await until(lambda: line in caplog.text)
            peer = await connected(gateway.address)
            for _ in range(3):
                found = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
                assert [(broker.node_id, broker.port) for broker in found.brokers] == [(1, port + 2)]
            assert caplog.text.count(line) == 1
            peer.writer.close()
    # It is tried again for each client.
    caplog.clear()
    taken = socket.create_server(("127.0.0.1", port + 3))
    async with Gateway(options) as gateway:
        await until(lambda: line in caplog.text)
        taken.close()
        peer = await connected(gateway.address)
        found = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        assert [broker.port for broker in found.brokers] == [port + 2, port + 3]
        again = await connected(Address("127.0.0.1", port + 3))
        await again.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        peer.writer.close()
        again.writer.close()


async def test_a_broker_whose_port_would_be_too_high_is_refused(cluster: Cluster) -> None:
    with pytest.raises(KohortError, match="Broker 2 has no port"):
        async with Gateway(GatewayOptions(upstream(cluster), Address("127.0.0.1", 65_534), node_ids=(1, 2))):
            pytest.fail("it started")


async def test_a_gateway_that_leads_to_itself_says_so(caplog: pytest.LogCaptureFixture) -> None:
    port = consecutive_free_ports(1)
    options = GatewayOptions([Address("127.0.0.1", port)], Address("127.0.0.1", port), refresh_s=600)
    async with Gateway(options) as gateway:
        for _ in range(5):
            await ended(await connected(gateway.address))
        await until(lambda: not gateway.links)
        assert gateway.figures.opened < 30
        assert gateway.unreachable_brokers == 1
        await until(lambda: not gateway._reached and not gateway._clients)
    assert caplog.text.count(f"upstream broker 127.0.0.1:{port} is the gateway itself") == 1
    assert "can be reached again" not in caplog.text


@pytest.mark.parametrize("reached_first", [True, False])
async def test_both_ends_of_a_connection_to_itself_may_be_seen_first(cluster: Cluster, reached_first: bool) -> None:
    async with gateway_to(cluster) as gateway:
        peer = await connected(gateway.address)
        await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        (link,) = gateway.links
        ends = link.upstream_ends
        if reached_first:  # as if the gateway had this connection accepted, too
            assert gateway._reached[ends] in upstream(cluster)
            other = Link(gateway, gateway._doors[0], None)
            other.client.ends = lambda opener, accepter: ends  # type: ignore[method-assign]
            aborted: list[str] = []
            other.abort = lambda: aborted.append("aborted")  # type: ignore[method-assign]
            assert not gateway.opened(other)
            assert aborted
            gateway.closed(other)
        else:
            gateway._clients.add(ends)
            with pytest.raises(OSError, match="reached itself"):
                await _reach(gateway, link)
        assert gateway.unreachable_brokers == 1
        peer.writer.close()


@pytest.mark.parametrize("client_first", [True, False])
async def test_a_client_with_the_port_of_a_connection_to_a_broker_is_served(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, client_first: bool
) -> None:
    """The kernel gives a port to several connections of one host, if they lead to different addresses."""
    async with gateway_to(cluster) as gateway:
        await until(lambda: gateway.known_brokers == 2)
        (port,) = free_ports(1)
        peers = [await _connected_from(gateway.address, port)] if client_first else []

        async def connect(address: Address, protocol: asyncio.Protocol) -> None:
            sock = await _socket_from(address, port)
            await asyncio.get_running_loop().create_connection(lambda: protocol, sock=sock)

        with monkeypatch.context() as patched:
            patched.setattr(gateway._upstream, "_connect", connect)
            peers.append(await connected(gateway.address))
            await peers[-1].ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        if not client_first:
            peers.append(await _connected_from(gateway.address, port))
        for peer in peers:
            await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            peer.writer.close()
        assert gateway.unreachable_brokers == 0
    assert "itself" not in caplog.text


async def _connected_from(address: Address, port: int) -> Peer:
    return Peer(*await asyncio.open_connection(sock=await _socket_from(address, port)))


async def _socket_from(address: Address, port: int) -> socket.socket:
    """Connect from that port, which other connections may use, too."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(False)
    sock.bind(("127.0.0.1", port))
    await asyncio.get_running_loop().sock_connect(sock, (address.host, address.port))
    return sock


async def _reach(gateway: Gateway, link: Link) -> None:
    async def connect(node_id: int | None, protocol: asyncio.Protocol) -> Address:
        return gateway._options.upstream[0]

    gateway._upstream.connect = connect  # type: ignore[method-assign]
    await gateway.connect(link, link.upstream)


async def test_too_many_open_files_are_not_blamed_on_a_broker(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_to(cluster) as gateway:
        await until(lambda: gateway.known_brokers == 2)

        async def no_connection(*_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with monkeypatch.context() as patched:
            patched.setattr(gateway._upstream, "_connect", no_connection)
            for _ in range(3):
                await ended(await connected(gateway.address))
        assert gateway.unreachable_brokers == 0
        await is_served(gateway)
    assert caplog.text.count("Too many open files; raise the limit of open files (ulimit -n)") == 1
    assert "reached" not in caplog.text


async def test_connections_above_the_maximum_are_refused(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    async with gateway_to(cluster, max_connections="2") as gateway:
        peers = [await connected(gateway.address) for _ in range(2)]
        for peer in peers:
            await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        refused = await connected(gateway.address)
        await ended(refused)
        peers[0].writer.write_eof()
        await ended(peers[0])
        await is_served(gateway)
        assert caplog.text.count("refusing connections: there are max.connections=2 already") == 1
        await until(lambda: len(gateway.links) == 1)
        again = await connected(gateway.address)
        await again.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        for _ in range(3):
            await ended(await connected(gateway.address))
        peers[1].writer.close()
        again.writer.close()
    # Once each time that there are too many.
    assert caplog.text.count("refusing connections: there are max.connections=2 already") == 2


async def test_a_client_that_reads_nothing_stops_its_broker_from_sending(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_to(cluster) as gateway:
        async with Admin(bootstrap_servers=str(gateway.address)) as admin:
            await admin.create_topics([NewTopic(f"with-a-long-name-{number:04}" * 8, 20) for number in range(50)])
        slow = await connected(gateway.address)
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        (link,) = gateway._links
        for _ in range(3_000):
            slow.send(MetadataRequest(topics=None), 12)
            if link.upstream.is_paused:
                break
            await asyncio.sleep(0)
        await until(lambda: link.upstream.is_paused)
        assert link.client.transport.get_write_buffer_size() < 4 << 20
        await is_served(gateway)
        # When its broker has gone, it does not stay connected for what it never reads.
        monkeypatch.setattr(side, "_LINGER_S", 0.1)
        link.upstream.abort()
        await until(lambda: not gateway._links)
        slow.writer.transport.abort()


async def test_a_response_may_be_larger_than_the_largest_request(cluster: Cluster) -> None:
    # Brokers do not limit responses: a client may ask for more than socket.request.max.bytes.
    async with gateway_to(cluster, socket_request_max_bytes="10000") as gateway:
        servers = str(gateway.address)
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic("large-responses", 1)])
        async with Producer(bootstrap_servers=servers) as producer:
            for _ in range(20):
                await producer.send("large-responses", bytes(5_000))
                await producer.flush()
        async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("large-responses", 0)])
            read = 0
            while read < 20:
                read += len(await consumer.poll())


async def test_clients_find_all_brokers_again_after_a_restart(cluster: Cluster) -> None:
    # The client knows the ports of brokers only, as Java's before 4.0, and none but its own requests name brokers.
    port = consecutive_free_ports(3)
    options = GatewayOptions(upstream(cluster), Address("127.0.0.1", port), node_ids=(1, 2), refresh_s=600)
    async with Gateway(options) as gateway:
        first = {node_id: gateway._doors[0].open_for(node_id) for node_id in (1, 2)}
    async with Gateway(options) as gateway:
        assert first == {1: Address("127.0.0.1", port + 1), 2: Address("127.0.0.1", port + 2)}
        for address in first.values():
            peer = await connected(address)
            found = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            assert {broker.node_id: broker.port for broker in found.brokers} == {1: port + 1, 2: port + 2}
            peer.writer.close()


async def test_a_connection_that_reached_another_broker_ends_when_the_right_one_is_known(cluster: Cluster) -> None:
    port = consecutive_free_ports(3)
    first, second = upstream(cluster)
    async with Gateway(
        GatewayOptions([first, second], Address("127.0.0.1", port), node_ids=(1, 2), refresh_s=600)
    ) as gateway:
        await until(lambda: len(gateway.brokers.upstream) == 2)
        gateway.brokers.upstream.clear()
        peer = await connected(Address("127.0.0.1", port + 2))
        await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        await ended(peer)
        again = await connected(Address("127.0.0.1", port + 2))
        await again.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        again.writer.close()


async def test_a_connection_to_another_broker_ends_if_the_right_one_is_known_before_it_is_made(
    cluster: Cluster,
) -> None:
    port = consecutive_free_ports(3)
    first, second = upstream(cluster)
    async with Gateway(GatewayOptions([first], Address("127.0.0.1", port), node_ids=(1, 2), refresh_s=600)) as gateway:
        await until(lambda: len(gateway.brokers.upstream) == 2)
        gateway.brokers.upstream.clear()
        connect = gateway.connect

        async def connect_and_learn(link: Link, upstream: asyncio.Protocol) -> Address:
            reached = await connect(link, upstream)
            # As from a response to another client.
            gateway.brokers.learn(2, second)
            return reached

        gateway.connect = connect_and_learn  # type: ignore[method-assign]
        peer = await connected(Address("127.0.0.1", port + 2))
        await ended(peer)
        again = await connected(Address("127.0.0.1", port + 2))
        await again.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        again.writer.close()


async def test_a_connection_that_reached_another_broker_ends_when_the_right_one_can_be_reached_again() -> None:
    # Both brokers could not be reached. The first is back earlier, and clients of the second get it.
    port = consecutive_free_ports(3)
    places = [Address("127.0.0.1", free) for free in free_ports(2)]
    options = GatewayOptions(places, Address("127.0.0.1", port), node_ids=(1, 2), refresh_s=600)
    async with Gateway(options) as gateway:
        for node_id, place in enumerate(places, start=1):
            gateway.brokers.learn(node_id, place)
            await ended(await connected(Address("127.0.0.1", port + node_id)))
        assert gateway.unreachable_brokers == 2
        async with await _accepting(places[0]):
            peer = await connected(Address("127.0.0.1", port + 2))
            await until(lambda: gateway.unreachable_brokers == 1)
            async with await _accepting(places[1]):
                again = await connected(Address("127.0.0.1", port + 2))
                await ended(peer)
                assert [link.misses(places[1]) for link in gateway._links] == [False]
                again.writer.close()


async def test_a_connection_to_another_broker_ends_if_the_right_one_can_be_reached_before_it_is_made() -> None:
    port = consecutive_free_ports(3)
    places = [Address("127.0.0.1", free) for free in free_ports(2)]
    options = GatewayOptions(places, Address("127.0.0.1", port), node_ids=(1, 2), refresh_s=600)
    async with Gateway(options) as gateway:
        for node_id, place in enumerate(places, start=1):
            gateway.brokers.learn(node_id, place)
            await ended(await connected(Address("127.0.0.1", port + node_id)))
        connect = gateway.connect

        async def connect_and_find(link: Link, upstream: asyncio.Protocol) -> Address:
            reached = await connect(link, upstream)
            # As by another client.
            gateway._upstream._succeeded(places[1])
            return reached

        gateway.connect = connect_and_find  # type: ignore[method-assign]
        async with await _accepting(places[0]):
            await ended(await connected(Address("127.0.0.1", port + 2)))


async def _accepting(address: Address) -> asyncio.Server:
    """A broker that accepts connections, and answers nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    return await asyncio.start_server(serve, address.host, address.port)


async def test_clients_recover_when_the_cluster_comes_late(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_upstream, "_LOOK_UP_MS", 500)
    (port,) = free_ports(1)
    options = GatewayOptions([Address("127.0.0.1", port)], Address("127.0.0.1", 0), refresh_s=2.1)
    async with Gateway(options) as gateway:
        peer = await connected(gateway.address)
        await ended(peer)
        assert f"upstream broker 127.0.0.1:{port} cannot be reached" in caplog.text
        await until(lambda: "the addresses of the brokers cannot be looked up" in caplog.text)
        producer = Producer(bootstrap_servers=str(gateway.address))
        async with producer:
            sending = asyncio.create_task(_send(producer))
            broker = Broker(BrokerOptions(host="127.0.0.1", port=port, data=None))
            await broker.start()
            try:
                await asyncio.wait_for(sending, RECOVERY_S)
                await until(lambda: "the addresses of the brokers can be looked up again" in caplog.text)
            finally:
                await broker.stop()
        assert "can be reached again" in caplog.text
        assert caplog.text.count("the addresses of the brokers cannot be looked up") == 1


async def test_bootstrap_servers_are_asked_when_no_known_broker_can_be_reached() -> None:
    bootstrap, first, second = (Address(host, 9092) for host in ("bootstrap", "first", "second"))
    brokers = Brokers({1: first, 2: second})
    to = gateway_upstream.Upstream([bootstrap], {}, brokers, refresh_s=30, reached=lambda address: None)
    assert to._to_try(1) == [first]
    assert to._to_try(3) == to._to_try(None) == [bootstrap, first, second]
    to._unreachable.add(first)
    assert to._to_try(1) == [first]  # its clients wait for it
    to._unreachable.add(second)
    assert to._to_try(1) == [first, bootstrap, second]
    to.left(second)
    assert to.unreachable == 1
    to._unreachable.add(bootstrap)
    to.left(bootstrap)  # clients that do not know a broker still go there
    assert to.unreachable == 2


async def test_a_broker_that_nobody_uses_is_found_to_be_back(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_upstream, "_AGAIN_S", 0.05)
    options = GatewayOptions(upstream(cluster), Address("127.0.0.1", 0), refresh_s=0.1)
    async with Gateway(options) as gateway:
        await until(lambda: gateway.known_brokers == 2)
        address = gateway.brokers.upstream[2]
        gateway._upstream._failed(address, OSError("unplugged"))
        assert gateway.unreachable_brokers == 1
        await until(lambda: not gateway.unreachable_brokers)
    assert f"upstream broker {address} can be reached again" in caplog.text


async def test_a_broker_that_cannot_be_reached_is_looked_up_once_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_upstream, "_AGAIN_S", 0.01)
    lookups = 0

    class Counted(Admin):
        async def describe_cluster(self) -> ClusterMetadata:
            nonlocal lookups
            found = await super().describe_cluster()
            lookups += "," in str(self._options.bootstrap_servers)  # not a visit to one broker
            return found

    gateway = Gateway(GatewayOptions(upstream(cluster), Address("127.0.0.1", 0), refresh_s=600))
    gateway.admin = Counted
    async with gateway:
        await until(lambda: lookups == 1)
        gateway._upstream._failed(Address("127.0.0.1", 1), OSError("unplugged"))
        await until(lambda: lookups == 2)
        await asyncio.sleep(0.3)
        assert lookups == 2


async def _send(producer: Producer) -> None:
    while True:
        try:
            await producer.send("late", b"value")
            await producer.flush()
        except KafkaError:
            continue
        return


async def test_a_broker_that_moves_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    ports = free_ports(2)
    options = GatewayOptions([Address("127.0.0.1", port) for port in ports], Address("127.0.0.1", 0))
    async with Gateway(options) as gateway:
        async with Producer(bootstrap_servers=str(gateway.address)) as producer:
            for port in ports:
                broker = Broker(BrokerOptions(host="127.0.0.1", port=port, data=None))
                await broker.start()
                await asyncio.wait_for(_send(producer), RECOVERY_S)
                places = dict(gateway._doors[0]._places)
                await broker.stop()
        assert len(places) == 1
    assert f"has moved from 127.0.0.1:{ports[0]} to 127.0.0.1:{ports[1]}" in caplog.text
