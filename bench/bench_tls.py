"""The cost of TLS: heartbeats, produce and fetch per CPU second over SASL_SSL, beside plaintext, and handshakes.

    python bench/bench_tls.py [--peer] [--seconds S] [--mb N] [--handshakes N]

One broker has a plaintext listener and one with TLS and SASL (PLAIN, a certificate with a P-256 key), without an
authorizer. Both are measured in turn, so the ratio of the two is that of one run. A handshake is a whole login: TCP
connection, full TLS handshake, SaslHandshake, SaslAuthenticate, and the end of the connection. With --peer Apache Kafka
is measured in the same way in the same run. Our server has one core and the load another; Apache Kafka every core.
Needs gcc and the headers of OpenSSL.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import bench_transfer
from bench.bench_broker import (
    WORK,
    Broker,
    Connection,
    Figure,
    drive,
    framed,
    join_consumer_groups,
    join_groups,
    load_core,
    need_gcc,
    pinned,
    server_core,
    show,
)
from kohort.security import Secret
from kohort.security.sasl import PlainClient
from kohort.wire.codec import Message
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.client.security.authorities import Certificates, certificates
from tests.interop.kafka import PRODUCTION, Unavailable, free_ports, jars, running_kafka
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess

USER, PASSWORD = "bench", "bench-secret"
TLS, PLAINTEXT = "SASL_SSL", "plaintext"
HEARTBEATS = [work for work in WORK if "heartbeats" in work.name]
CONNECTING_THREADS = 8


@dataclass(frozen=True, slots=True)
class Secured:
    """A running broker with two listeners."""

    bootstrap: str
    """Of the plaintext listener."""
    tls_port: int
    process: ServerProcess


@dataclass(frozen=True, slots=True)
class Load:
    """How the load connects: the two builds of load.c, and what clients of the secured listener send first."""

    plain: Path
    tls: Path
    login: Path
    context: ssl.SSLContext


class SecuredConnection(Connection):
    """A connection to the secured listener that has logged in."""

    def __init__(self, context: ssl.SSLContext, port: int) -> None:
        super().__init__(f"localhost:{port}")
        self._stream.close()
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")
        self._stream = self._socket.makefile("rb")
        shaken = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        assert shaken.error_code == 0, shaken
        logged_in = self.ask(_token(), 1, SaslAuthenticateResponse)
        assert logged_in.error_code == 0, logged_in


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the cost of TLS.")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka too and print ratios")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each rate is measured (default 4)")
    parser.add_argument("--mb", type=int, default=300, help="megabytes produced and fetched per listener (default 300)")
    parser.add_argument("--handshakes", type=int, default=2_000, help="logins (default 2000)")
    options = parser.parse_args()
    need_gcc()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-", dir="/var/tmp") as name:
        scratch = Path(name)
        made = certificates(scratch)
        made.issue("server", "localhost")
        try:
            load = build_load(scratch, made)
        except subprocess.CalledProcessError:
            print("skipped: the load generator does not compile; it needs the headers of OpenSSL (libssl-dev)")
            return 0
        counts = (options.seconds, options.mb, options.handshakes)
        ours = measure(lambda: running_ours(scratch, made), server_core(), load, *counts, warm=1.0)
        peer: list[Figure] = []
        if options.peer:
            try:
                jars()
            except Unavailable as missing:
                print(f"without Apache Kafka: {missing}")
            else:
                # A JVM compiles what is hot in threads of its own: it gets longer to warm up, and every core.
                every_core = os.sched_getaffinity(0)
                peer = measure(lambda: running_theirs(made), every_core, load, *counts, warm=8.0)
    show(ours, peer)
    print("\nthe share of plaintext's figure that is left over SASL_SSL:")
    show_shares(ours, peer)
    return 0


def build_load(scratch: Path, made: Certificates) -> Load:
    """Compile the load generator twice, and write the login that it replays."""
    source = str(Path(__file__).with_name("load.c"))
    plain, tls, login = scratch / "load", scratch / "load-tls", scratch / "login.frames"
    subprocess.run(["gcc", "-O2", "-o", str(plain), source], check=True)
    subprocess.run(["gcc", "-O2", "-DTLS", "-o", str(tls), source, "-lssl", "-lcrypto"], check=True)
    requests: tuple[Message, Message] = (SaslHandshakeRequest(mechanism="PLAIN"), _token())
    login.write_bytes(b"".join(framed(request, 1) for request in requests))
    return Load(plain, tls, login, ssl.create_default_context(cafile=made.cafile))


def _token() -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=PlainClient(USER, Secret(PASSWORD)).start())


# Brokers


def settings(made: Certificates, port: int, tls_port: int) -> dict[str, str]:
    """What both brokers are started with."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    listeners = f"PLAINTEXT://127.0.0.1:{port},SECURED://localhost:{tls_port}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{module} required user_{USER}="{PASSWORD}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.directory / "server.pem"),
        "group.initial.rebalance.delay.ms": "0",
    }


@contextlib.contextmanager
def running_ours(scratch: Path, made: Certificates) -> Iterator[Secured]:
    port, tls_port = free_ports(2)
    # The load waits for each answer; bench_prompt.py measures the cost of held heartbeats.
    config = {**settings(made, port, tls_port), "group.heartbeat.hold.ms": "0"}
    file = scratch / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    process = ServerProcess(kohort("broker", "--config", str(file), "--data", str(scratch / "data")))
    try:
        process.wait_for(r"^ready (\S+)$", timeout=60.0)
        yield Secured(f"127.0.0.1:{port}", tls_port, process)
        code = process.stop()
        assert code == 0, f"the broker ended with {code} after SIGTERM\n{process.output()}"
    finally:
        process.kill()


@contextlib.contextmanager
def running_theirs(made: Certificates) -> Iterator[Secured]:
    port, tls_port, controller = free_ports(3)
    config = settings(made, port, tls_port)
    for name in ("listeners", "advertised.listeners"):
        config[name] += f",CONTROLLER://127.0.0.1:{controller}"
    config["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    config["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
    config["inter.broker.listener.name"] = "PLAINTEXT"
    with running_kafka(config, PRODUCTION) as kafka:
        yield Secured(f"127.0.0.1:{port}", tls_port, kafka.process)


# Measurements


def measure(
    start: Callable[[], contextlib.AbstractContextManager[Secured]],
    cpus: set[int],
    load: Load,
    seconds: float,
    megabytes: int,
    handshakes: int,
    warm: float,
) -> list[Figure]:
    with contextlib.ExitStack() as running:
        with pinned(cpus):
            broker = running.enter_context(start())
        figures = heartbeats(broker, load, seconds, warm)
        connect: Mapping[str, Callable[[], Connection]] = {
            PLAINTEXT: partial(Connection, broker.bootstrap),
            TLS: partial(SecuredConnection, load.context, broker.tls_port),
        }
        rounds = [True, False] if warm > 1 else [False]  # a JVM compiles what is hot in the first round
        for warms_up in rounds:
            transferred = [
                figure
                for listener, connecting in connect.items()
                for figure in transfer(broker, connecting, listener, megabytes, warms_up=warms_up)
            ]
            shaken = logins(broker, connect[TLS], handshakes)
        return [*figures, *transferred, shaken]


def heartbeats(broker: Secured, load: Load, seconds: float, warm: float) -> list[Figure]:
    figures = []
    with Connection(broker.bootstrap) as connection:
        members = join_groups(connection)
        for work in HEARTBEATS:
            for listener in (PLAINTEXT, TLS):
                # These have shorter sessions than the others, which are asked once and for all.
                group = members if work.protocol == "classic" else join_consumer_groups(connection)
                with pinned(load_core()):
                    if listener is TLS:
                        found = drive(
                            broker, load.tls, work, group, seconds, warm, port=broker.tls_port, login=load.login
                        )
                    else:
                        found = drive(broker, load.plain, work, group, seconds, warm)
                figures.append(named(found, listener))
    return figures


def transfer(
    broker: Secured, connect: Callable[[], Connection], listener: str, megabytes: int, *, warms_up: bool
) -> Iterator[Figure]:
    topic = f"{listener}-warm" if warms_up else listener
    bench_transfer.create(broker, topic)
    batch = bench_transfer.large_batch()
    times = max(1, megabytes * 10**6 // bench_transfer.PARTITIONS // len(batch))
    produce = partial(bench_transfer.produce, connect, topic, batch, times)
    yield named(bench_transfer.drive(broker, "produced", produce), listener)
    whole = times * len(batch)

    def fetch(partition: int) -> int:  # mypy does not check the arguments of a partial
        return bench_transfer.fetch(connect, topic, whole, partition)

    yield named(bench_transfer.drive(broker, "fetched", fetch), listener)


def logins(broker: Broker, connect: Callable[[], Connection], count: int) -> Figure:
    """Log in again and again, from several threads."""
    each = max(1, count // CONNECTING_THREADS)
    done: list[int] = []

    def work() -> None:
        for _ in range(each):
            with connect():
                pass
        done.append(each)

    threads = [threading.Thread(target=work) for _ in range(CONNECTING_THREADS)]
    with pinned(load_core()):
        before, began = broker.process.cpu_seconds(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used, took = broker.process.cpu_seconds() - before, time.perf_counter() - began
    assert len(done) == CONNECTING_THREADS, "a login failed"
    return Figure("logins over SASL_SSL", sum(done) / used, "per CPU second", f"{sum(done) / took:,.0f}/s")


def named(figure: Figure, listener: str) -> Figure:
    return Figure(f"{figure.name}, {listener}", figure.value, figure.unit, figure.detail, figure.more_is_better)


def show_shares(ours: list[Figure], peer: list[Figure]) -> None:
    left, theirs = shares(ours), shares(peer)
    for name, share in left.items():
        other = f", Apache Kafka {theirs[name]:.2f}" if name in theirs else ""
        print(f"{name:38} {share:.2f}{other}")


def shares(figures: list[Figure]) -> dict[str, float]:
    """By the name of the work: the figure over TLS, divided by that of plaintext."""
    values = {figure.name: figure.value for figure in figures}
    over_tls = [name.removesuffix(f", {TLS}") for name in values if name.endswith(f", {TLS}")]
    return {name: values[f"{name}, {TLS}"] / values[f"{name}, {PLAINTEXT}"] for name in over_tls}


if __name__ == "__main__":
    sys.exit(main())
