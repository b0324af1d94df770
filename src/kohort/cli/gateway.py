"""`kohort gateway`: a gateway in front of a cluster, in the foreground."""

from typing import TYPE_CHECKING, Annotated

import typer

from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.gateway import Address

_DEFAULT_LISTEN = "127.0.0.1:9192"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gateway", epilog="Example: kohort gateway --upstream kafka1:9092,kafka2:9092 --listen 127.0.0.1:9192")(
        gateway
    )


def gateway(
    upstream: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT,...", help="Brokers of the cluster. The gateway learns the others from their responses."
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Address for bootstrap.servers of the clients. Each broker gets a port after it, by its node ID."
            " Port 0 chooses free ports.",
        ),
    ] = _DEFAULT_LISTEN,
    advertised_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Host that clients connect to. Default: that of --listen.", show_default=False
        ),
    ] = None,
    first_node_id: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Node ID of the broker whose port is the one after that of --listen."),
    ] = 0,
    max_connections: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of connections.")] = 10_000,
) -> int:
    """Pass the requests of clients on to a cluster, until SIGTERM or Ctrl-C.

    Clients reach all brokers through the gateway: it puts its own addresses into the responses that
    name brokers, and leaves everything else as it is. Prints 'ready HOST:PORT' on standard output
    as soon as it listens. Its log goes to standard error.

    Connections are not encrypted: listen on loopback or in a trusted network.
    """
    from kohort.gateway import GatewayOptions, run

    options = GatewayOptions(
        upstream=tuple(_address("--upstream", text) for text in upstream.split(",")),
        listen=_address("--listen", listen, port_0=True),
        advertised_host=advertised_host,
        first_node_id=first_node_id,
        max_connections=max_connections,
    )
    if not options.listen.host:
        raise ConfigError(
            "--listen takes a host, such as 127.0.0.1; for all interfaces 0.0.0.0 with --advertised-host."
        )
    if options.listen.host in ("0.0.0.0", "::") and advertised_host is None:
        raise ConfigError(f"Clients cannot connect to {options.listen.host}: add --advertised-host.")
    return run(options)


def _address(option: str, text: str, *, port_0: bool = False) -> "Address":
    from kohort.broker.config import split_address
    from kohort.gateway import Address

    found = split_address(text.strip())
    if found is None or (not int(found[1]) and not port_0) or (not found[0] and not port_0):
        raise ConfigError(f"{option} takes HOST:PORT, such as 127.0.0.1:9092, not {text!r}.")
    return Address(found[0], int(found[1]))
