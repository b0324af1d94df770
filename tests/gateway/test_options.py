"""Options of a gateway that contradict each other or have no meaning are refused before it listens."""

from __future__ import annotations

import pytest

from kohort.errors import ConfigError
from kohort.gateway import Address, Gateway, GatewayOptions

UPSTREAM = (Address("127.0.0.1", 9092),)


@pytest.mark.parametrize("host", ["gateway.example.com:9192", "", "http://gateway.example.com", "a b", "a,b", "[::1]"])
def test_an_advertised_host_is_a_host_without_a_port(host: str) -> None:
    with pytest.raises(ConfigError, match="--advertised-host takes a host, such as"):
        Gateway(GatewayOptions(UPSTREAM, advertised_host=host))


@pytest.mark.parametrize("host", ["gateway", "gateway.example.com", "10.0.0.1", "::1"])
def test_an_advertised_host_is_a_name_or_an_address(host: str) -> None:
    (listener,) = Gateway(GatewayOptions(UPSTREAM, advertised_host=host))._listeners
    assert listener.advertised == (host, 9192)


def test_the_advertised_address_is_given_once() -> None:
    settings = {"advertised.listeners": "PLAINTEXT://gateway.example.com:9192"}
    with pytest.raises(ConfigError, match=r"--advertised-host and advertised\.listeners contradict each other"):
        Gateway(GatewayOptions(UPSTREAM, settings=settings, advertised_host="gateway"))
