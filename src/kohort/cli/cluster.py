"""`kohort cluster`: run several brokers over one directory or database."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.options import ClusterId, Postgres, check_cluster_id, read_listen, read_pairs
from kohort.errors import ConfigError

_MOST = 32


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cluster", epilog="Example: kohort cluster --brokers 3 --data /var/lib/kohort --restart")(cluster)


def cluster(
    brokers: Annotated[int, typer.Option(min=1, max=_MOST, metavar="N", help="Number of brokers.")] = 3,
    listen: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Address to listen on, once for each broker. Default: free ports."),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="Address that clients connect to, once for each broker. Default: --listen."
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
) -> int:
    """Run several brokers over one directory or one database until SIGTERM or Ctrl-C.

    Prints 'ready HOST:PORT,HOST:PORT,...' when all brokers answer. A broker that dies is not
    restarted unless --restart is given. The others take over its partitions within a fraction of a
    second, and its groups continue.
    """
    if postgres is not None and data is not None:
        raise ConfigError("--postgres and --data contradict each other: give one of them.")
    addresses = listen or ["127.0.0.1:0"] * brokers
    if len(addresses) != brokers:
        raise ConfigError(f"--listen is given {len(addresses)} times for {brokers} brokers: give it once for each.")
    settings = read_pairs("--set", set_ or ())
    _check_addresses(addresses, advertise or [], settings)
    places = racks.split(",") if racks else []
    if places and len(places) != brokers:
        raise ConfigError(f"--racks names {len(places)} racks for {brokers} brokers: name one for each.")
    arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    check_cluster_id(cluster_id)
    if cluster_id is not None:
        arguments += ["--cluster-id", cluster_id]
    from kohort.broker import run_cluster
    from kohort.broker.cluster import ClusterOptions

    with tempfile.TemporaryDirectory(prefix="kohort-cluster-") as scratch:
        where = Path(scratch) / "data" if data is None else data
        return run_cluster(ClusterOptions(addresses, where, arguments, places, restart, postgres, advertise or ()))


def _check_addresses(listen: Sequence[str], advertise: Sequence[str], settings: Mapping[str, str]) -> None:
    from kohort.broker.config import check_listener, read_advertised

    if "advertised.listeners" in settings:
        raise ConfigError("--set advertised.listeners would be the same for all brokers: give --advertise for each.")
    if advertise and len(advertise) != len(listen):
        raise ConfigError(f"--advertise is given {len(advertise)} times for {len(listen)} brokers: give it for each.")
    for address in advertise:
        read_advertised([address])
    for address in listen:
        host, port = read_listen(address)
        if not advertise:
            check_listener(host, port, "--advertise")
