"""Brokers to compare, each in its own process: Kohort with and without held heartbeats, and Apache Kafka
with and without a gateway."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from kohort.errors import KohortError
from kohort.lab.apache_kafka import free_ports, running_kafka
from kohort.lab.broker_trace import BrokerTrace, read_trace
from kohort.lab.process import ServerProcess

_SETTINGS = {"offsets.topic.num.partitions": "10"}
"""Settings of all brokers.

Apache Kafka takes half a minute on a small machine to create an internal topic of 50 partitions.
"""


class LabBroker:
    """Running broker, which the experiment can kill and observe unless it was given by its address."""

    def __init__(
        self,
        bootstrap: str,
        process: ServerProcess | None = None,
        ready: str = "",
        gateway: ServerProcess | None = None,
        trace: Path | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self._trace = trace
        self._process = process
        self._ready = ready
        self._gateway = gateway

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the processes of the broker and its gateway so far, or None for a given address."""
        if self._process is None:
            return None
        return self._process.cpu_seconds() + (0.0 if self._gateway is None else self._gateway.cpu_seconds())

    def trace_since(self, at: int) -> BrokerTrace | None:
        """Return what the broker has traced since this time, or None if it traces nothing."""
        return None if self._trace is None else read_trace(self._trace, at)

    def behind(self, address: str, gateway: ServerProcess) -> LabBroker:
        """Return this broker as clients see it through a gateway at `address`."""
        return LabBroker(address, self._process, self._ready, gateway)

    def kill(self) -> None:
        """Kill the broker. Raises KohortError for a broker that was given by its address."""
        if self._process is None:
            raise KohortError("The brokers of `bootstrap` cannot be killed: leave `bootstrap` out.")
        self._process.kill()

    def start_again(self) -> None:
        """Start the broker after `kill`, on the same address and with its data on disk; return when it answers."""
        assert self._process is not None
        self._process = self._process.again()
        self._process.wait_for(self._ready, timeout=60.0)

    def stop(self) -> None:
        """Stop the broker. Its data is not needed any more, so a slow shutdown is cut short."""
        if self._process is not None:
            self._process.stop(5.0)


class _Start(Protocol):
    """Starts a broker with these settings, by Kafka's names, and stops it on exit. Only Kohort's can be traced."""

    def __call__(self, settings: Mapping[str, str], *, traced: bool = False) -> AbstractContextManager[LabBroker]: ...


@contextlib.contextmanager
def _kohort(settings: Mapping[str, str], *, traced: bool = False) -> Iterator[LabBroker]:
    with tempfile.TemporaryDirectory(prefix="kohort-lab-") as directory:
        data, trace = Path(directory) / "data", Path(directory) / "trace.jsonl" if traced else None
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "kohort", "broker", "--listen", f"127.0.0.1:{port}", "--data", str(data)]
        if trace is not None:
            command += ["--trace", str(trace)]
        for name, value in {**_SETTINGS, **settings}.items():
            command += ["--set", f"{name}={value}"]
        process = ServerProcess(command)
        broker = LabBroker(f"127.0.0.1:{port}", process, r"^ready ", trace=trace)
        try:
            process.wait_for(r"^ready ", timeout=30.0)
            yield broker
        finally:
            broker.stop()


@contextlib.contextmanager
def _kafka(settings: Mapping[str, str], *, traced: bool = False) -> Iterator[LabBroker]:
    # Apache Kafka's default, which `running_kafka` shortens for tests.
    with running_kafka({"group.initial.rebalance.delay.ms": "3000", **_SETTINGS, **settings}) as kafka:
        broker = LabBroker(kafka.bootstrap, kafka.process, "Kafka Server started")
        try:
            yield broker
        finally:
            broker.kill()


@contextlib.contextmanager
def _kafka_behind_a_gateway(settings: Mapping[str, str], *, traced: bool = False) -> Iterator[LabBroker]:
    with _kafka(settings) as kafka, running_gateway(kafka.bootstrap) as (address, gateway):
        yield kafka.behind(address, gateway)


@contextlib.contextmanager
def running_gateway(upstream: str, *options: str) -> Iterator[tuple[str, ServerProcess]]:
    """Run `kohort gateway` in front of a cluster. Returns its address for clients, and its process."""
    command = [sys.executable, "-m", "kohort", "gateway", "--upstream", upstream, "--listen", "127.0.0.1:0", *options]
    process = ServerProcess(command)
    try:
        yield process.wait_for(r"^ready (\S+)$", timeout=30.0)[1], process
    finally:
        process.stop(5.0)


GIVEN = "given"
"""Name of a cluster that the user runs."""


@contextlib.contextmanager
def _kohort_without_holds(settings: Mapping[str, str], *, traced: bool = False) -> Iterator[LabBroker]:
    with _kohort({"group.heartbeat.hold.ms": "0", **settings}, traced=traced) as broker:
        yield broker


BROKERS: dict[str, _Start] = {
    "kohort": _kohort,
    "kohort-hold-off": _kohort_without_holds,
    "kafka": _kafka,
    "kafka+gateway": _kafka_behind_a_gateway,
}
"""Context managers by name, each of which starts a broker with settings (Kafka's names) and stops it on exit."""


def brokers_of(
    bootstrap: str, settings: Mapping[str, str], *, traced: bool
) -> dict[str, Callable[[], AbstractContextManager[LabBroker]]]:
    """Return, by name, a function that starts the broker with these settings; for `bootstrap`, what runs there.

    `traced`: the brokers write a trace, if they can.
    """
    if bootstrap:
        return {GIVEN: lambda: contextlib.nullcontext(LabBroker(bootstrap))}
    return {name: partial(start, settings, traced=traced) for name, start in BROKERS.items()}
