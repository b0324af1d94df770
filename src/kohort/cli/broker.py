"""`kohort broker`: run one broker in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.options import DEFAULT_BOOTSTRAP, ClusterId, Postgres, check_cluster_id, read_listen, read_pairs
from kohort.errors import ConfigError

_DEFAULT_DATA = Path("kohort-data")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("broker", epilog="Example: kohort broker --listen 127.0.0.1:0 --memory --set num.partitions=6")(broker)


def broker(
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Address to listen on; port 0 chooses a free port, :PORT listens on all interfaces.",
        ),
    ] = DEFAULT_BOOTSTRAP,
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
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of NAME=VALUE lines; --set takes precedence.")
    ] = None,
) -> int:
    """Run one broker until SIGTERM or Ctrl-C.

    Prints 'ready HOST:PORT' on standard output as soon as the broker answers. Its log goes to
    standard error.
    """
    if memory and data is not None:
        raise ConfigError("--memory and --data contradict each other: give one of them.")
    if memory and shared:
        raise ConfigError("--memory and --shared contradict each other: a log in memory cannot be shared.")
    if postgres is not None and (memory or shared or data is not None):
        raise ConfigError("--postgres contradicts --data, --memory and --shared: the log is in the database.")
    host, port = read_listen(listen)
    check_cluster_id(cluster_id)
    from kohort.broker import BrokerOptions, read_settings, run

    settings = read_settings(config) if config else {}
    settings |= read_pairs("--set", set_ or ())
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
        )
    )
