"""Options of a gateway that contradict each other or have no meaning are refused before it listens."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.errors import ConfigError
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.gateway.options import grace_ms, read_config

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


@pytest.mark.parametrize(
    ("given", "settings", "grace"),
    [
        ({}, {}, -1),
        ({}, {"group.disconnect.grace.ms": "0"}, 0),
        ({"advertised_host": "gateway"}, {}, 0),
        ({"advertised_host": "gateway"}, {"group.disconnect.grace.ms": "2000"}, 2_000),
        ({}, {"advertised.listeners": "PLAINTEXT://gateway:9192"}, 0),
        ({}, {"advertised.listeners": "PLAINTEXT://gateway:9192", "group.disconnect.grace.ms": "2000"}, 2_000),
        ({"groups_only": True}, {}, 0),
    ],
)
def test_members_behind_another_address_are_removed_only_if_the_setting_says_so(
    given: dict[str, Any], settings: dict[str, str], grace: int
) -> None:
    options = GatewayOptions(UPSTREAM, settings=settings, **given)
    assert grace_ms(options, read_config(options)[0]) == grace
