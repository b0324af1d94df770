"""A thousand connections that never authenticate hold little, and honest clients are served meanwhile."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from kohort.blocking import Admin
from kohort.properties import format_properties
from kohort.wire.messages.api_key import ApiKey
from tests.broker.security.certificates import Certificates, new_certificates
from tests.hostile.peer import open_sockets, request, string
from tests.interop.kohort import KohortBroker, running_kohort
from tests.interop.process import until

PASSWORD = "wonderland"
MANY = 1_000
TIMEOUT_S = 10.0
MIB = 1 << 20
PATIENCE_S = 30.0

HALF_A_HELLO = bytes.fromhex("160301020001000001")
HANDSHAKE = request(ApiKey.SASL_HANDSHAKE, 1, string("SCRAM-SHA-512"))
HALF_A_TOKEN = request(ApiKey.SASL_AUTHENTICATE, 0, (1 << 16).to_bytes(4) + b"n,,n=alice,r=")[:30]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return new_certificates(tmp_path)


@contextlib.contextmanager
def secured(directory: Path, certificates: Certificates, listener: str) -> Iterator[tuple[KohortBroker, str]]:
    """A broker whose limits are those that it has without settings, but for the time; and the listener's address."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file = directory / "server.properties"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required user_alice="{PASSWORD}";',
        "authentication.timeout.ms": str(int(TIMEOUT_S * 1000)),
    }
    if listener == "SASL_SSL":
        settings["ssl.keystore.location"] = str(certificates.key_store())
    file.write_text(format_properties(settings))
    with running_kohort("--config", str(file), "--listen", f"{listener}://127.0.0.1:0") as broker:
        found = broker.process.wait_for(rf"listening on (\S+) with {listener};", timeout=PATIENCE_S)
        yield broker, found[1]


@pytest.fixture
def enough_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Honest:
    """A client that asks all the time, by one connection that was there before."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._ended = threading.Event()
        self.slowest_s, self.answers = 0.0, 0

    def __enter__(self) -> Honest:
        self._ask()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            self._ask()

    def _ask(self) -> None:
        begun = time.monotonic()
        self._admin.list_topics()
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        self.answers += 1


FLOODS: dict[str, tuple[str, bytes]] = {
    "silent": ("SASL_SSL", b""),
    "half a handshake": ("SASL_SSL", HALF_A_HELLO),
    "no TLS": ("SASL_PLAINTEXT", b""),
    "half a login": ("SASL_PLAINTEXT", HANDSHAKE + HALF_A_TOKEN),
}


@pytest.mark.parametrize(("listener", "sent"), FLOODS.values(), ids=FLOODS)
def test_connections_that_never_authenticate_do_not_keep_others_out(
    tmp_path: Path, certificates: Certificates, enough_files: None, listener: str, sent: bytes
) -> None:
    with secured(tmp_path, certificates, listener) as (broker, bootstrap):
        host, _, port = bootstrap.rpartition(":")

        def client() -> Admin:
            return Admin(
                bootstrap_servers=bootstrap,
                security_protocol=listener,
                sasl_mechanism="PLAIN",
                sasl_plain_username="alice",
                sasl_plain_password=PASSWORD,
                ssl_cafile=str(certificates.ca_file) if listener == "SASL_SSL" else None,
                default_api_timeout_ms=15_000,
            )

        with client() as admin, Honest(admin) as honest, contextlib.ExitStack() as flood:
            descriptors, memory = open_sockets(broker.pid), broker.process.rss_bytes()
            for _ in range(MANY + 200):
                hostile = socket.create_connection((host, int(port)), PATIENCE_S, source_address=("127.0.0.2", 0))
                flood.enter_context(hostile)
                with contextlib.suppress(ConnectionError):  # the broker has closed it already
                    hostile.sendall(sent)
            assert took(newcomer(client)) < TIMEOUT_S  # it does not wait until the others have had their time
            # At once: only the last lines are kept, and each of the others soon has one of its own.
            until(PATIENCE_S, "a line that says why", lambda: says_why(broker.process.stderr))
            assert open_sockets(broker.pid) <= descriptors + MANY + 20
            assert broker.process.rss_bytes() - memory < 150 * MIB
            until(TIMEOUT_S + PATIENCE_S, "the others are closed", lambda: open_sockets(broker.pid) <= descriptors)
            newcomer(client)()
        log = list(broker.process.stderr)
    assert honest.answers > 10
    assert honest.slowest_s < 2.0
    assert not [line for line in log if "Traceback" in line or PASSWORD in line]


def says_why(lines: Iterable[str]) -> bool:
    return any("127.0.0.2" in line and "max.connections.unauthenticated" in line for line in lines)


def newcomer(client: Callable[[], Admin]) -> Callable[[], None]:
    def connect() -> None:
        with client() as admin:
            admin.list_topics()

    return connect


def took(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun
