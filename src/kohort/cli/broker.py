"""`kohort broker`: run one broker in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.broker_settings import ConfigFile, read_broker_settings, read_listen, read_metrics_address
from kohort.cli.options import DEFAULT_BOOTSTRAP, ClusterId, Postgres, check_cluster_id
from kohort.cli.watch_page import PageAddress, page_inside
from kohort.cli.watch_webhook import Webhook, WebhookOn
from kohort.errors import ConfigError

_DEFAULT_DATA = Path("kohort-data")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("broker", epilog="Example: kohort broker --listen 127.0.0.1:0 --memory --set num.partitions=6")(broker)


def broker(
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME://]HOST:PORT",
            help="Address to listen on; repeatable. NAME is a security protocol, or has one in"
            " listener.security.protocol.map. Port 0 chooses a free port, :PORT listens on all interfaces."
            f" Default: {DEFAULT_BOOTSTRAP}, without TLS and SASL.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"Directory of the log. Default: {_DEFAULT_DATA}", show_default=False),
    ] = None,
    postgres: Postgres = None,
    cluster_id: ClusterId = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep the log in memory until the process ends.")] = False,
    node_id: Annotated[int, typer.Option(min=0, metavar="N", help="Node id of this broker.")] = 1,
    shared: Annotated[
        bool, typer.Option("--shared", help="Share --data with other brokers, as those of kohort cluster do.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Broker setting, by Kafka's name; repeatable."),
    ] = None,
    config: ConfigFile = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address at which /metrics shows the broker's metrics to Prometheus. Anyone who reaches it may read"
            " them. Port 0 chooses a free port; the log has it.",
        ),
    ] = None,
    # For the page of `kohort cluster --web`, which starts its brokers with it.
    metrics_socket: Annotated[Path | None, typer.Option(hidden=True)] = None,
    # For `kohort lab --trace`.
    trace: Annotated[Path | None, typer.Option(hidden=True)] = None,
    web: PageAddress = None,
    webhook: Webhook = None,
    webhook_on: WebhookOn = None,
) -> int:
    """Run one broker until SIGTERM or Ctrl-C.

    Prints 'ready HOST:PORT' on standard output as soon as the broker answers. Its log goes to
    standard error. With --web, a further line says when the page answers, such as
    'ready http://127.0.0.1:9464'. --webhook sends the events that it sees.
    """
    if memory and data is not None:
        raise ConfigError("--memory and --data contradict each other: give one of them.")
    if memory and shared:
        raise ConfigError("--memory and --shared contradict each other: a log in memory cannot be shared.")
    if postgres is not None and (memory or shared or data is not None):
        raise ConfigError("--postgres contradicts --data, --memory and --shared: the log is in the database.")
    if trace is not None and (metrics or metrics_socket or web):
        raise ConfigError("--trace contradicts --metrics and --web: a broker is traced or measured.")
    check_cluster_id(cluster_id)
    from kohort.broker import BrokerOptions, run
    from kohort.broker.config import WATCH_ADDRESS, Address

    settings = read_broker_settings(config, set_)
    if not listen:
        listen = [] if settings.get("listeners") else [DEFAULT_BOOTSTRAP]
    elif any(pair.partition("=")[0].strip() == "listeners" for pair in set_ or ()):
        raise ConfigError("--listen and --set listeners contradict each other: give one of them.")
    addresses = [read_listen(address) for entry in listen for address in entry.split(",")]
    host, port = "", 0
    if len(addresses) == 1 and addresses[0].name is None:
        settings.pop("listeners", None)  # of the file
        _, host, port = addresses[0]
    elif addresses:
        settings["listeners"] = ",".join(map(str, addresses))
    if web is not None and shared:
        raise ConfigError("--web shows one broker, and --shared is for several: run kohort watch for all of them.")
    inside = page_inside(web, webhook, webhook_on)
    if inside is not None:
        settings = inside.login.settings(settings)
        settings["listeners"] = f"{settings.get('listeners') or addresses[0]},{WATCH_ADDRESS}"
    where = None if memory or postgres else data or _DEFAULT_DATA
    return run(
        BrokerOptions(
            host=host,
            port=port,
            data=where,
            node_id=node_id,
            shared=shared,
            postgres=postgres,
            cluster_id=cluster_id,
            settings=settings,
            metrics=None if metrics is None else Address(*read_metrics_address(metrics)),
            metrics_socket=metrics_socket,
            trace=trace,
        ),
        None if inside is None else inside.beside,
    )
