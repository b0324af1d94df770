"""Functions that run a command's coroutine against a cluster."""

import socket
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kohort import interruption
from kohort.cli.client_options import client_options
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.client import Admin

T = TypeVar("T")

CALL_TIMEOUT_MS = 20_000
"""Maximum time a command waits for a response; the client's usual minute is too long for people."""
_CONNECT_TIMEOUT_S = 5.0


class NoBroker(KohortError):
    """No broker listens at the given addresses."""


class Refused(KohortError):
    """The request cannot be fulfilled in the present state. Exit code 1."""


def run(work: Coroutine[Any, Any, T], bootstrap: str) -> T:
    """Run the coroutine on uvloop and return its result.

    Raises NoBroker at once if nothing listens there, because a client would retry for a long time.
    """
    try:
        import uvloop

        check_reachable(bootstrap)
        return interruption.run(work, uvloop.new_event_loop)
    finally:
        work.close()  # if it never began, Python would warn about it


def admin_client(servers: str) -> "Admin":
    """Return an Admin with a timeout that suits an interactive user."""
    from kohort.client import Admin, AdminOptions

    return Admin(**(of_command(servers) | client_options(AdminOptions)))


def of_command(servers: str) -> dict[str, Any]:
    """Return the options of each client of a command, which the user may override."""
    return {
        "bootstrap_servers": servers,
        "client_id": "kohort-cli",
        "default_api_timeout_ms": CALL_TIMEOUT_MS,
    }


def check_reachable(bootstrap: str) -> None:
    """Raise NoBroker if none of the addresses accepts a connection, and ConfigError for wrong options."""
    from kohort.client import ClientOptions

    problems = []
    for host, port in ClientOptions.read(of_command(bootstrap) | client_options()).addresses():
        try:
            with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S):
                return
        except OSError as problem:
            problems.append(f"{host}:{port} ({problem.strerror or 'no answer'})")
        except UnicodeError:
            problems.append(f"{host}:{port} (no valid name of a host)")
    where = " or ".join(problems)
    raise NoBroker(f"No broker answers at {where}: start one with 'kohort broker', or name another by --bootstrap.")
