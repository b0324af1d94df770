"""Options of a gateway, and the settings of its listeners: those of a broker, with the same names."""

import ipaddress
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kohort.broker.config import BrokerConfig, Listener, parse_config, read_listeners
from kohort.errors import ConfigError
from kohort.gateway.addresses import Address

log = logging.getLogger("kohort.gateway")

_GRACE = "group.disconnect.grace.ms"
_HOST = re.compile(r"[^\s:/,\[\]]+")
_USED = frozenset(
    {
        "advertised.listeners",
        "authentication.timeout.ms",
        "connections.max.idle.ms",
        "frame.read.timeout.ms",
        _GRACE,
        "listener.security.protocol.map",
        "listeners",
        "max.connections",
        "max.connections.unauthenticated",
        "socket.request.max.bytes",
    }
)
_USED_OF_LISTENERS = "ssl."
_USED_FOR_SASL = frozenset(
    {
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "plain.sasl.jaas.config",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.server.max.receive.size",
    }
)
_USED_FOR_TOKENS = "sasl.oauthbearer."
_NO_EFFECT = frozenset({"ssl.principal.mapping.rules", "ssl.endpoint.identification.algorithm"})


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """Options of a gateway."""

    upstream: Sequence[Address]
    """Some brokers of the cluster, for clients that do not know a broker yet."""
    listen: Address = Address("127.0.0.1", 9192)  # noqa: RUF009 - frozen
    """Address for clients that do not know a broker yet; port 0 takes a free port for it and for each broker.

    Not used if `settings` has `listeners`.
    """
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of a broker that apply to a gateway: `listeners`, TLS, and limits of connections."""
    upstream_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of the client for upstream connections: TLS. SASL is only for the gateway's own requests, or, with
    `ends_sasl`, for all."""
    ends_sasl: bool = False
    """Whether clients log in at the gateway, which then uses its own login for all of them upstream."""
    users: Path | None = None
    """File with the users that log in at the gateway; None for those of PLAIN in the settings."""
    groups_only: bool = False
    """Whether clients get the brokers' own addresses for all but the coordinators of groups, if they can use them."""
    advertised_host: str | None = None
    """Host in the addresses that clients receive; None for the host on which the gateway listens."""
    sni_domain: str | None = None
    """Domain of the brokers' names, such as broker-1.kafka.example.com. All have the port of `listen`."""
    node_ids: Sequence[int] = ()
    """Node IDs whose ports are opened at the start. The lowest one has the port after that of `listen`."""
    hold_ms: int = 15_000
    """Maximum time for which a heartbeat without news is held, in milliseconds."""
    refresh_s: float = 30.0
    """Time between two of the gateway's own requests for the addresses of all brokers, in seconds."""

    journal: Path | None = None
    """File to which the journal of rebalances is appended, one in JSON per line; None for none."""
    journal_topic: bool = False
    """Whether the journal is written to the topic __kohort_rebalances of the cluster."""

    @property
    def first_node_id(self) -> int:
        """Node ID whose port is the one after that of `listen`."""
        return min(self.node_ids, default=0)


def read_config(options: GatewayOptions) -> tuple[BrokerConfig, list[Listener]]:
    """Return the settings and the listeners. Logs settings without effect. Raises ConfigError."""
    settings = dict(options.settings)
    config = parse_config(settings)
    _warn_of_unused(settings, options.ends_sasl)
    host, port = options.listen.host, options.listen.port
    told = options.advertised_host
    if told is not None:
        _check_advertised_host(told, config)
        names = [entry.rpartition("://") for entry in config.names("listeners")] or [("PLAINTEXT", "", f":{port}")]
        shown = f"[{told}]" if ":" in told else told
        settings["advertised.listeners"] = ",".join(
            f"{name or 'PLAINTEXT'}://{shown}:{rest.rpartition(':')[2]}" for name, _, rest in names
        )
        config = parse_config(settings)
    listeners = read_listeners(config, host, port)
    if options.groups_only:
        _check_groups_only(options)
    if options.ends_sasl:
        _check_logins(listeners)
    elif options.users is not None:
        raise ConfigError("--users has the users that log in at the gateway: add --end-sasl.")
    if options.sni_domain is not None:
        plain = [listener.name for listener in listeners if not listener.protocol.tls]
        if plain:
            raise ConfigError(
                f"The listener {plain[0]} has no TLS, so its clients cannot name a broker: --sni needs listeners with"
                " TLS only."
            )
    return config, listeners


def grace_ms(options: GatewayOptions, config: BrokerConfig) -> int:
    """Return group.disconnect.grace.ms; 0, which removes no member, if clients use another address and it is not set.

    Behind that address may be another gateway, and the members that come back to that one are not seen here. With
    `groups_only`, members that come back to a broker are not seen.
    """
    if options.groups_only:
        return 0
    is_known = not (options.advertised_host or config.names("advertised.listeners"))
    return config.number("group.disconnect.grace.ms") if is_known or _GRACE in options.settings else 0


def _check_advertised_host(host: str, config: BrokerConfig) -> None:
    if config.names("advertised.listeners"):
        raise ConfigError("--advertised-host and advertised.listeners contradict each other: give one of them.")
    if not _HOST.fullmatch(host) and not _is_ipv6(host):
        raise ConfigError(
            f"--advertised-host takes a host, such as gateway.example.com, not {host!r}: ports are those of --listen."
        )


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _check_groups_only(options: GatewayOptions) -> None:
    if options.ends_sasl:
        raise ConfigError(
            "With --groups-only, clients log in at the brokers, too, and a client has one login: leave out --end-sasl."
        )
    if options.settings.get(_GRACE, "0") != "0":
        raise ConfigError(
            f"With --groups-only, the gateway does not see members that come back to a broker, so it removes none:"
            f" leave out {_GRACE}."
        )


def _check_logins(listeners: Sequence[Listener]) -> None:
    for listener in listeners:
        certified = listener.protocol.tls and listener.config.text("ssl.client.auth") == "required"
        if not listener.protocol.sasl and not certified:
            raise ConfigError(
                f"The listener {listener.name} lets clients in without a login, and with --end-sasl they would have the"
                " rights of the gateway: use SASL_SSL or SASL_PLAINTEXT, or SSL with ssl.client.auth=required."
            )


def _warn_of_unused(settings: Mapping[str, str], ends_sasl: bool) -> None:
    for name in sorted(settings):
        of_listener = name.removeprefix("listener.name.").partition(".")[2] if name.startswith("listener.name.") else ""
        bare = of_listener or name
        if ends_sasl and (bare in _USED_FOR_SASL or bare.startswith(_USED_FOR_TOKENS)):
            continue
        if bare in _NO_EFFECT or not (bare in _USED or bare.startswith(_USED_OF_LISTENERS)):
            log.warning("%s has no effect on a gateway", name)
