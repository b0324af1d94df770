"""Advertised addresses: clients never get an address that belongs to no machine."""

import errno
import socket
from typing import Any

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.config.advertised_listeners import address_text, machine_name, split_address
from kohort.broker.config.listeners import read_advertised
from kohort.errors import ConfigError
from kohort.sim.environment.network import Network
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.conftest import MakeBroker
from tests.broker.peer import connected
from tests.broker.virtual import PORT, VirtualBroker

WILDCARDS = ["0.0.0.0", "::", "0", "0:0:0:0:0:0:0:0"]


@pytest.mark.parametrize("host", WILDCARDS)
def test_a_broker_on_a_wildcard_address_needs_advertised_listeners(host: str) -> None:
    # Apache Kafka 4.3.1 refuses 0.0.0.0, too; clients would connect to themselves.
    with pytest.raises(ConfigError, match=f"No client can connect to {host}.*--set advertised.listeners=HOST:9092.*"):
        Broker(BrokerOptions(host=host))
    Broker(BrokerOptions(host=host, settings={"advertised.listeners": "one.example:9092"}))


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "0"])
def test_no_broker_advertises_a_wildcard_address(host: str) -> None:
    with pytest.raises(ConfigError, match="no client can connect to"):
        Broker(BrokerOptions(settings={"advertised.listeners": f"PLAINTEXT://{host}:9092"}))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", "9092")),
        ("[::1]:9092", ("::1", "9092")),
        (":9092", ("", "9092")),
        ("::1", None),
        ("h:", None),
        ("h:99999", None),
        ("h", None),
    ],
)
def test_an_address_has_a_port_and_brackets_where_its_host_has_colons(text: str, parts: tuple[str, str] | None) -> None:
    assert split_address(text) == parts
    if parts is not None:
        assert address_text(parts[0], int(parts[1])) == text


def test_the_brackets_of_an_ipv6_address_are_not_part_of_it() -> None:
    # Metadata has host and port as two fields: a client would look up "[::1]" as a name.
    assert read_advertised(["PLAINTEXT://[fd00::1]:9092"]) == {"PLAINTEXT": ("fd00::1", 9092)}


async def advertised(address: str) -> list[tuple[str, int]]:
    async with connected(address) as peer:
        metadata = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    return [(node.host, node.port) for node in metadata.brokers]


async def test_clients_receive_the_advertised_listener(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.broker")
    broker = await start_broker(BrokerOptions(port=0, settings={"advertised.listeners": "[fd00::1]:9092"}))
    listens = f"127.0.0.1:{broker.sockets.port}"
    assert await advertised(listens) == [("fd00::1", 9092)]
    assert f"listening on {listens} with PLAINTEXT; clients connect to [fd00::1]:9092" in caplog.text


async def test_port_0_of_the_advertised_listener_is_the_port_that_was_taken(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"advertised.listeners": "one.example:0"}))
    assert await advertised(f"127.0.0.1:{broker.sockets.port}") == [("one.example", broker.sockets.port)]


class OnlyIpv4(Network):
    """A machine without IPv6; it notes the addresses that brokers listen on."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.addresses: list[tuple[str, int]] = []

    def listen(self, loop: Any, factory: Any, host: str, port: int) -> Any:
        self.addresses.append((host, port))
        if ":" in host:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return super().listen(loop, factory, host, port)


@pytest.mark.parametrize("name", ["one.example", "localhost"])
def test_a_broker_that_listens_on_all_interfaces_advertises_the_name_of_its_machine(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.broker")
    monkeypatch.setattr(socket, "getfqdn", lambda: name)
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    world = VirtualBroker(host="", network=OnlyIpv4)
    assert isinstance(world.network, OnlyIpv4) and world.network.addresses == [("0.0.0.0", PORT), ("::", PORT)]
    assert world.play(advertised(f"127.0.0.1:{PORT}")) == [(name, PORT)]
    assert f"listening on *:{PORT} with PLAINTEXT; clients connect to {name}:{PORT}" in caplog.text
    warning = f"clients on other machines cannot connect to {name}:{PORT}"
    assert (warning in caplog.text) == (name == "localhost")
    world.play(world.broker.stop())


@pytest.mark.parametrize(
    ("full", "short", "resolves", "expected"),
    [
        ("box.example.org", "box", True, "box.example.org"),
        ("localhost", "box", True, "box"),  # a resolver that takes the machine's address for the loopback's
        ("localhost", "box", False, "localhost"),
        ("localhost.localdomain", "localhost", True, "localhost"),
    ],
)
def test_the_name_of_the_machine_is_one_that_others_may_know(
    full: str, short: str, resolves: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, port: object) -> list[object]:
        if not resolves:
            raise OSError("no such host")
        return []

    monkeypatch.setattr(socket, "getfqdn", lambda: full)
    monkeypatch.setattr(socket, "gethostname", lambda: short)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert machine_name() == expected
