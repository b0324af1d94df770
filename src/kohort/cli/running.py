"""Run a command's coroutine against a cluster."""

import socket
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kohort import interruption
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.client.admin import Admin

T = TypeVar("T")

CALL_TIMEOUT_MS = 20_000
"""How long a command waits for an answer; people do not wait for the client's usual minute."""
_CONNECT_TIMEOUT_S = 5.0


class NoBroker(KohortError):
    """Nobody listens there."""


class Refused(KohortError):
    """The answer is no: what was asked for cannot be done as things stand. Exit code 1."""


def run(work: Coroutine[Any, Any, T], bootstrap: str) -> T:
    """Run it on uvloop; raises NoBroker at once where nothing listens, for a client would retry for long."""
    import uvloop

    try:
        _check_reachable(bootstrap)
    except BaseException:
        work.close()
        raise
    return interruption.run(work, uvloop.new_event_loop)


def admin_client(servers: str) -> "Admin":
    """An Admin that does not wait longer than a person does."""
    from kohort.client.admin import Admin

    return Admin(bootstrap_servers=servers, client_id="kohort-cli", default_api_timeout_ms=CALL_TIMEOUT_MS)


def _check_reachable(bootstrap: str) -> None:
    from kohort.client.options import ClientOptions

    problems = []
    for host, port in ClientOptions(bootstrap_servers=bootstrap).addresses():
        try:
            with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S):
                return
        except OSError as problem:
            problems.append(f"{host}:{port} ({problem.strerror or 'no answer'})")
    where = " or ".join(problems)
    raise NoBroker(f"No broker answers at {where}: start one with 'kohort broker', or name another by --bootstrap.")
