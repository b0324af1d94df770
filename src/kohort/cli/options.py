"""Options that several commands share, and what they are turned into."""

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
        metavar="HOST:PORT,...",
        help=f"A broker, or several. Default: KOHORT_BOOTSTRAP, else {DEFAULT_BOOTSTRAP}.",
        show_default=False,
    ),
]
Postgres = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        envvar="KOHORT_POSTGRES",
        help="A database that brokers on several hosts share, instead of --data.",
        show_default=False,
    ),
]
ClusterId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="The cluster that the store must be of; a new store becomes its. Default: whatever is there.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def bootstrap_servers(given: str | None) -> str:
    """The option, else the environment, else the usual port of this host."""
    return given or os.environ.get("KOHORT_BOOTSTRAP") or DEFAULT_BOOTSTRAP


def read_listen(text: str) -> tuple[str, int]:
    """HOST:PORT of our own; port 0 takes a free one, and without a host it is all interfaces."""
    from kohort.broker.advertising import split_address

    found = split_address(text)
    if found is None:
        raise ConfigError(f"--listen takes HOST:PORT, such as {DEFAULT_BOOTSTRAP}, [::1]:9092 or :9092, not {text!r}.")
    host, port = found
    return host, int(port)


def check_cluster_id(given: str | None) -> None:
    """22 characters, as Kafka's `kafka-storage random-uuid` prints them."""
    if given is not None and not re.fullmatch(r"[A-Za-z0-9_-]{22}", given):
        raise ConfigError(f"--cluster-id takes 22 letters, digits, - and _, not {given!r}.")


def read_pairs(option: str, pairs: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE, several times."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} takes NAME=VALUE, not {pair!r}.")
        settings[name.strip()] = value.strip()
    return settings
