"""Options shared by several commands, and functions that parse them."""

import os
import re
from collections.abc import Iterable
from typing import Annotated

import typer

from kohort.errors import ConfigError

DEFAULT_PORT = 9092
DEFAULT_BOOTSTRAP = f"127.0.0.1:{DEFAULT_PORT}"

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help=f"Brokers to connect to. Default: KOHORT_BOOTSTRAP, else {DEFAULT_BOOTSTRAP}.",
        show_default=False,
    ),
]
Postgres = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        envvar="KOHORT_POSTGRES",
        help="Database that brokers on several hosts share, instead of --data.",
        show_default=False,
    ),
]
ClusterId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Cluster id that the store must have; a new store receives it. Default: any.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def bootstrap_servers(given: str | None) -> str:
    """Return the option, else the environment variable KOHORT_BOOTSTRAP, else bootstrap.servers of
    --command-config, else this host's default port."""
    from kohort.cli.client_options import bootstrap_in_file

    return given or os.environ.get("KOHORT_BOOTSTRAP") or bootstrap_in_file() or DEFAULT_BOOTSTRAP


def check_cluster_id(given: str | None) -> None:
    """Raise ConfigError unless the ID has 22 characters, as printed by Kafka's `kafka-storage random-uuid`."""
    if given is not None and not re.fullmatch(r"[A-Za-z0-9_-]{22}", given):
        raise ConfigError(f"--cluster-id takes 22 letters, digits, - and _, not {given!r}.")


def read_pairs(option: str, pairs: Iterable[str]) -> dict[str, str]:
    """Parse NAME=VALUE pairs. Raises ConfigError."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} takes NAME=VALUE, not {pair!r}.")
        settings[name.strip()] = value.strip()
    return settings
