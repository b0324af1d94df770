"""Settings and listeners of brokers on the command line, for `kohort broker` and `kohort cluster`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kohort.cli.options import DEFAULT_BOOTSTRAP, read_pairs
from kohort.cli.output import print_note
from kohort.errors import ConfigError

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="KOHORT_BROKER_CONFIG",
        help="File of settings, in the form of Kafka's server.properties; --set takes precedence.",
        show_default=False,
    ),
]


class ListenAddress(NamedTuple):
    """An address to listen on, as the user wrote it."""

    name: str | None
    """Name of the listener; None if there is none in the text."""
    host: str
    """Empty for all interfaces."""
    port: int
    """0 for a free port."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name or 'PLAINTEXT'}://{host}:{self.port}"


def read_listen(text: str) -> ListenAddress:
    """Parse [NAME://]HOST:PORT. Raises ConfigError."""
    from kohort.broker.config import split_address

    name, separator, rest = text.strip().rpartition("://")
    found = split_address(rest)
    if found is None or (separator and not name):
        raise ConfigError(
            f"--listen takes HOST:PORT, such as {DEFAULT_BOOTSTRAP}, [::1]:9092 or :9092, or NAME://HOST:PORT, such as"
            f" SASL_SSL://:9093, not {text!r}."
        )
    host, port = found
    return ListenAddress(name.upper() or None, host, int(port))


def read_metrics_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT of --metrics. Raises ConfigError."""
    from kohort.broker.config import split_address

    found = split_address(text.strip())
    if found is None or not found[0]:
        raise ConfigError(f"--metrics takes HOST:PORT, such as 127.0.0.1:9464 or 0.0.0.0:9464, not {text!r}.")
    return found[0], int(found[1])


def read_broker_settings(config: Path | None, pairs: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of the file with those of `--set` in place of the file's. Raises ConfigError.

    Notes on stderr that a secret is on the command line.
    """
    from kohort.broker import read_settings
    from kohort.broker.config import is_sensitive

    given = read_pairs("--set", pairs or ())
    settings = read_settings(config) if config else {}
    for name in filter(is_sensitive, given):
        print_note(f"kohort: all users of this machine can read --set {name}: put it into a file for --config.")
    return settings | given
