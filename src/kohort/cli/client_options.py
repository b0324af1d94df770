"""Options of the client for every command that connects to a cluster: `--command-config`, `-X` and
environment variables. A password in a file or a variable is not in the list of processes."""

import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperOption

from kohort.cli.options import read_pairs
from kohort.cli.output import print_note
from kohort.errors import ConfigError
from kohort.properties import parse_properties

if TYPE_CHECKING:
    from kohort.client import ClientOptions

_VARIABLE = re.compile(r"KOHORT_((?:SSL|SASL|ENABLE_SSL)_\w+|SECURITY_PROTOCOL)")
_FILE_VARIABLE = "KOHORT_COMMAND_CONFIG"

_PROPERTY_OPTIONS = ("command-property", "consumer-property", "producer-property")
"""Names of -X in Kafka's scripts."""
LIBRDKAFKA_NAMES = {
    "compression.codec": "compression_type",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "max.in.flight": "max_in_flight_requests_per_connection",
    "message.max.bytes": "max_request_size",
    "message.timeout.ms": "delivery_timeout_ms",
    "queue.buffering.max.ms": "linger_ms",
    "request.required.acks": "acks",
    "socket.timeout.ms": "request_timeout_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
"""Names of librdkafka that Java does not have, by the client's names; those of TLS and SASL are the client's."""

_file: ContextVar[str | None] = ContextVar("_file", default=None)
_pairs: ContextVar[tuple[str, ...]] = ContextVar("_pairs", default=())


def add_client_options(command: Any) -> None:
    """Add the options to each command below `command` that has `--bootstrap` or `--upstream`."""
    for inner in getattr(command, "commands", {}).values():
        add_client_options(inner)
    if any(parameter.name in ("bootstrap", "upstream") for parameter in command.params):
        command.params += [
            TyperOption(
                param_decls=["command_config", "--command-config"],
                metavar="FILE",
                help="Properties file with options of the client, as for Kafka's tools."
                f" Default: {_FILE_VARIABLE}, and the variables KOHORT_SECURITY_PROTOCOL, KOHORT_SSL_... and"
                " KOHORT_SASL_...",
                expose_value=False,
                callback=lambda context, parameter, value: _file.set(value),
            ),
            TyperOption(
                param_decls=["client_option", "-X", *(f"--{name}" for name in _PROPERTY_OPTIONS)],
                metavar="NAME=VALUE",
                multiple=True,
                help="Option of the client, repeatable, also under librdkafka's name.",
                expose_value=False,
                callback=lambda context, parameter, value: _pairs.set(tuple(value or ())),
            ),
        ]


def client_options(kind: "type[ClientOptions] | None" = None) -> dict[str, Any]:
    """Return the options that the user gave for a client of this kind, under the client's names.

    `-X` comes before the file, and the file before variables. Raises ConfigError.
    """
    from kohort.client import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions
    from kohort.client.security import normal_names

    kind = kind or ClientOptions
    every = {name for each in (AdminOptions, ConsumerOptions, ProducerOptions) for name in each.__dataclass_fields__}
    path = _file.get() or os.environ.get(_FILE_VARIABLE)
    variables = normal_names(_variables(), every)
    filed = normal_names({} if path is None else read_properties(path), every)
    paired = normal_names(_paired(), every)
    if unknown := sorted({*variables, *paired} - every):
        raise ConfigError(f"{unknown[0]} is not an option of the client.")
    for name in sorted(filed.keys() - every):
        print_note(f"{path}: {name} has no effect")
    given = {**variables, **filed, **paired}
    known = kind.__dataclass_fields__.keys() - {"bootstrap_servers"}
    return {name: value for name, value in given.items() if name in known}


def group_option() -> str | None:
    """Return the group of -X. That of a file, which may be an application's, must not be joined by accident."""
    pairs = _paired()
    return pairs.get("group.id", pairs.get("group_id"))


def _paired() -> dict[str, str]:
    return {LIBRDKAFKA_NAMES.get(name, name): value for name, value in read_pairs("-X", _pairs.get()).items()}


def spark_options(servers: str) -> dict[str, str]:
    """Return options of `format("kohort")` for these servers, with the user's options for TLS and SASL."""
    from kohort.client.security import SecurityOptions

    given = client_options()
    names = given.keys() & SecurityOptions.__dataclass_fields__.keys()
    secured = {f"kafka.{name.replace('_', '.')}": _as_text(given[name]) for name in names}
    return {"kafka.bootstrap.servers": servers, **secured}


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value)


def bootstrap_in_file() -> str | None:
    """Return bootstrap.servers of the file, if there is one."""
    path = _file.get() or os.environ.get(_FILE_VARIABLE)
    return None if path is None else read_properties(path).get("bootstrap.servers")


def _variables() -> dict[str, str]:
    return {
        found[1].lower(): value for name, value in sorted(os.environ.items()) if (found := _VARIABLE.fullmatch(name))
    }


def read_properties(path: str) -> dict[str, str]:
    """Read a file of Java properties. Raises ConfigError."""
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise ConfigError(f"--command-config {path} cannot be read: {why}.") from None
