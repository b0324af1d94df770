"""`kohort gateway`: a gateway in front of a cluster, in the foreground."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.broker_settings import ConfigFile, read_broker_settings, read_listen
from kohort.cli.client_options import client_options
from kohort.cli.watch_page import PageAddress, page_in_gateway
from kohort.cli.watch_webhook import Webhook, WebhookOn
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.gateway import Address

_DEFAULT_LISTEN = "127.0.0.1:9192"
_MOST_NODES = 10_000


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
        list[str] | None,
        typer.Option(
            metavar="[NAME://]HOST:PORT",
            help="Address for bootstrap.servers of the clients; repeatable. Each broker gets a port after it, by its"
            " node ID. NAME is a security protocol, such as SSL. Port 0 chooses free ports."
            f" Default: {_DEFAULT_LISTEN}",
            show_default=False,
        ),
    ] = None,
    advertised_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Host that clients connect to. Default: that of --listen.", show_default=False
        ),
    ] = None,
    node_ids: Annotated[
        str | None,
        typer.Option(
            metavar="N-M,...",
            help="Node IDs of the brokers, such as 1-3 or 1001-1006. Their ports are opened at the start. The"
            " lowest one gets the port after that of --listen. Default: from 0, opened when they are known.",
            show_default=False,
        ),
    ] = None,
    sni: Annotated[
        str | None,
        typer.Option(
            metavar="DOMAIN",
            help="Give all brokers the port of --listen, and names such as broker-1.DOMAIN, by which TLS tells them"
            " apart.",
            show_default=False,
        ),
    ] = None,
    groups_only: Annotated[
        bool,
        typer.Option(
            "--groups-only",
            help="Name the gateway as the coordinator of groups, and the brokers for all else, so that no record passes"
            " through it. For Java's and Kohort's clients that can connect to the brokers, too. The records of other"
            " clients pass through it. A client that looks for its coordinator again leaves the gateway.",
        ),
    ] = False,
    end_sasl: Annotated[
        bool,
        typer.Option(
            "--end-sasl",
            help="Let clients log in at the gateway, which logs in at the cluster for all of them, with the options of"
            " -X. ACLs and quotas of the cluster then apply to the gateway, not to its clients.",
        ),
    ] = False,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Users that log in at the gateway with --end-sasl, one NAME=PASSWORD in each line.",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Setting of the listeners, by Kafka's name, such as ssl.*; repeatable."
        ),
    ] = None,
    config: ConfigFile = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Append why groups rebalanced, and how long their partitions were dark, for kohort rebalances --file.",
            show_default=False,
        ),
    ] = None,
    journal_topic: Annotated[
        bool,
        typer.Option(
            "--journal-topic",
            help="Write the same to the topic __kohort_rebalances of the cluster, for kohort rebalances.",
        ),
    ] = False,
    max_connections: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Maximum number of connections. Default: 20000", show_default=False),
    ] = None,
    web: PageAddress = None,
    webhook: Webhook = None,
    webhook_on: WebhookOn = None,
) -> int:
    """Pass the requests of clients on to a cluster, until SIGTERM or Ctrl-C.

    Clients reach all brokers through the gateway: it puts its own addresses into the responses that
    name brokers, and leaves everything else as it is. Prints 'ready HOST:PORT' on standard output
    as soon as it listens. Its log goes to standard error.

    Listeners and their TLS have the settings of a broker, and connections to the cluster have the options
    of a client: -X security.protocol=SSL. Clients log in with SASL at the cluster, through the gateway, unless
    --end-sasl is given.

    With --groups-only, Java's and Kohort's clients use the gateway for the requests of group members only.

    With --web, a further line says when the page answers, such as 'ready http://127.0.0.1:9464'.
    """
    from kohort.client import AdminOptions
    from kohort.gateway import GatewayOptions, run

    settings = read_broker_settings(config, set_)
    if listen and any(pair.partition("=")[0].strip() == "listeners" for pair in set_ or ()):
        raise ConfigError("--listen and --set listeners contradict each other: give one of them.")
    if listen or not settings.get("listeners"):
        entries = [part for entry in listen or [_DEFAULT_LISTEN] for part in entry.split(",")]
        settings["listeners"] = ",".join(str(read_listen(entry)) for entry in entries)
    if max_connections is not None:
        settings["max.connections"] = str(max_connections)
    options = GatewayOptions(
        upstream=tuple(_address("--upstream", text) for text in upstream.split(",")),
        settings=settings,
        upstream_options=client_options(AdminOptions),
        advertised_host=advertised_host,
        sni_domain=sni,
        groups_only=groups_only,
        node_ids=() if node_ids is None else _node_ids(node_ids),
        ends_sasl=end_sasl,
        users=users,
        journal=journal,
        journal_topic=journal_topic,
    )
    return run(options, page_in_gateway(web, ",".join(map(str, options.upstream)), webhook, webhook_on))


def _address(option: str, text: str) -> "Address":
    from kohort.broker.config import split_address
    from kohort.gateway import Address

    found = split_address(text.strip())
    if found is None or not int(found[1]) or not found[0]:
        raise ConfigError(f"{option} takes HOST:PORT, such as 127.0.0.1:9092, not {text!r}.")
    return Address(found[0], int(found[1]))


def _node_ids(text: str) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        bounds = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (0, -1) if bounds is None else (int(bounds[1]), int(bounds[2] or bounds[1]))
        if first > last or len(found) + last - first >= _MOST_NODES:
            raise ConfigError(f"--node-ids takes node IDs such as 1-3 or 1001-1003,1007, not {text!r}.")
        found |= set(range(first, last + 1))
    return sorted(found)
