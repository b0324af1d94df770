"""`kohort cluster`: run several brokers over one directory or database."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.broker_settings import ConfigFile, read_broker_settings, read_listen, read_metrics_address
from kohort.cli.options import ClusterId, Postgres, check_cluster_id
from kohort.cli.watch_page import PageAddress, page_inside
from kohort.cli.watch_webhook import Webhook, WebhookOn
from kohort.errors import ConfigError

_MOST = 32


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cluster", epilog="Example: kohort cluster --brokers 3 --data /var/lib/kohort --restart")(cluster)


def cluster(
    brokers: Annotated[int, typer.Option(min=1, max=_MOST, metavar="N", help="Number of brokers.")] = 3,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME://]HOST:PORT,...",
            help="Addresses to listen on, once for each broker. NAME is a security protocol, or has one in"
            " listener.security.protocol.map. Default: free ports, without TLS and SASL.",
            show_default=False,
        ),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME://]HOST:PORT,...",
            help="Addresses that clients connect to, once for each broker. Default: --listen.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory that the brokers share. Default: a temporary one."),
    ] = None,
    postgres: Postgres = None,
    cluster_id: ClusterId = None,
    racks: Annotated[
        str | None, typer.Option(metavar="RACK,...", help="Racks of the brokers (broker.rack), in order.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Restart brokers that exit.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Setting of all brokers; repeatable.")
    ] = None,
    config: ConfigFile = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address at which /metrics shows a broker's metrics to Prometheus, once for each broker.",
        ),
    ] = None,
    web: PageAddress = None,
    webhook: Webhook = None,
    webhook_on: WebhookOn = None,
) -> int:
    """Run several brokers over one directory or one database until SIGTERM or Ctrl-C.

    Prints 'ready HOST:PORT,HOST:PORT,...' when all brokers answer, with the first address of each. A
    broker that dies is not
    restarted unless --restart is given. The others take over its partitions within a fraction of a
    second, and its groups continue. With --web, a further line says when the page answers, such as
    'ready http://127.0.0.1:9464'. --webhook sends the events that it sees.
    """
    if postgres is not None and data is not None:
        raise ConfigError("--postgres and --data contradict each other: give one of them.")
    addresses = listen or ["127.0.0.1:0"] * brokers
    if len(addresses) != brokers:
        raise ConfigError(f"--listen is given {len(addresses)} times for {brokers} brokers: give it once for each.")
    settings = read_broker_settings(config, set_)
    _check_addresses(addresses, advertise or [], settings)
    places = racks.split(",") if racks else []
    if places and len(places) != brokers:
        raise ConfigError(f"--racks names {len(places)} racks for {brokers} brokers: name one for each.")
    check_cluster_id(cluster_id)
    if metrics and len(metrics) != brokers:
        raise ConfigError(f"--metrics is given {len(metrics)} times for {brokers} brokers: give it once for each.")
    for address in metrics or ():
        read_metrics_address(address)
    import tempfile

    from kohort.broker import run_cluster
    from kohort.broker.cluster import ClusterOptions
    from kohort.broker.config import WATCH_ADDRESS

    inside = page_inside(web, webhook, webhook_on)
    if inside is not None:
        settings = inside.login.settings(settings)
        addresses = [f"{address},{WATCH_ADDRESS}" for address in addresses]
    with tempfile.TemporaryDirectory(prefix="kohort-cluster-") as scratch:
        where = Path(scratch) / "data" if data is None else data
        return run_cluster(
            ClusterOptions(
                addresses, where, settings, cluster_id, places, restart, postgres, advertise or (), metrics or ()
            ),
            None if inside is None else inside.beside,
        )


def _check_addresses(listen: Sequence[str], advertise: Sequence[str], settings: Mapping[str, str]) -> None:
    from kohort.broker.config import check_listener, read_advertised

    for name, option in (("listeners", "--listen"), ("advertised.listeners", "--advertise")):
        if name in settings:
            raise ConfigError(f"The setting {name} would be the same for all brokers: give {option} for each.")
    if advertise and len(advertise) != len(listen):
        raise ConfigError(f"--advertise is given {len(advertise)} times for {len(listen)} brokers: give it for each.")
    for addresses in advertise:
        read_advertised(addresses.split(","))
    for address in [read_listen(address) for addresses in listen for address in addresses.split(",")]:
        if not advertise:
            check_listener(address.host, address.port, "--advertise", address.name)
