"""Hosts and ports that a broker listens on or advertises.

As in Apache Kafka, an empty host means listening on all interfaces and advertising this machine's name. A broker can
listen on 0.0.0.0, but it refuses to advertise it because no client can connect to it. Kafka accepts [::], which no
client can use either.
"""

import ipaddress
import socket

from kohort.errors import ConfigError

_LOCAL_NAMES = ("localhost", "localhost.localdomain")


def address_text(host: str, port: int) -> str:
    """Return HOST:PORT, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(text: str) -> tuple[str, str] | None:
    """Return host and port of HOST:PORT, an IPv6 address without its brackets; None if there is no port."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        return None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return None if ":" in host else (host, port)


def check_listener(host: str, port: int, remedy: str, name: str | None = None) -> None:
    """Raise ConfigError for a host that a broker would have to advertise and to which no client can connect.

    `remedy` is the option that sets another address, such as --set advertised.listeners, and `name` is the listener's.
    """
    if is_wildcard(host):
        listener = f"{name}://" if name else ""
        example = f"{remedy}={listener}HOST:{port or 'PORT'}"
        raise ConfigError(
            f"No client can connect to {host}. Set the address that clients connect to with {example}, or listen on all"
            f" interfaces with --listen {listener}:{port}, which advertises this machine's name."
        )


def is_wildcard(host: str) -> bool:
    """Return whether `host` is the address of all interfaces in any notation: 0.0.0.0, ::, 0."""
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST) if host else []
    except (OSError, UnicodeError):
        return False  # a name
    return any(ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_unspecified for address in found)


def machine_name() -> str:
    """Return this machine's name according to its resolver; localhost only if no other name of it resolves."""
    name = socket.getfqdn()
    if not is_local_name(name):
        return name
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return name
    return socket.gethostname()


def is_local_name(host: str) -> bool:
    """Return whether the host is a different machine for each client, as localhost is."""
    return host in _LOCAL_NAMES
