"""All metrics of one broker. Names follow Kafka's metrics as the JMX exporter writes them, where Kafka has one."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.groups import GroupCoordinator
from kohort.broker.logs import Topics
from kohort.broker.metrics.requests import RequestFigures
from kohort.broker.net import Sockets
from kohort.coordinator import ConsumerGroup
from kohort.exposition import Exposition, Histogram, labels
from kohort.log import LogStore, PartitionLog
from kohort.model import Millis

_SYNC_SECONDS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_LAG_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_LOOK_EVERY_S = 0.5
_WITHIN_S = 5.0
"""Time within which the broker must answer the page's thread. Prometheus waits for 10 s by default."""
_LATE_MS: Millis = 300_000
"""Time after transaction.max.timeout.ms at which an open transaction is late, as in Kafka (KIP-664)."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    groups: GroupCoordinator
    sockets: Sockets
    store: LogStore
    topics: Topics
    node_id: int

    def wall(self) -> Millis: ...


class BrokerMetrics:
    """Metrics of one broker, from `start` on."""

    def __init__(self) -> None:
        self.requests = RequestFigures()
        self._syncs = Histogram(_SYNC_SECONDS)
        self._lags = Histogram(_LAG_SECONDS)
        self._look: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._broker: Dependencies | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, broker: Dependencies) -> None:
        """Begin to measure the delays of the event loop."""
        self._broker = broker
        self._loop = loop = asyncio.get_running_loop()
        self._look_at = loop.time() + _LOOK_EVERY_S
        self._look = loop.call_at(self._look_at, self._measure_delay, loop)

    def close(self) -> None:
        """Stop measuring."""
        if self._look is not None:
            self._look.cancel()

    def synced(self, started: float) -> None:
        """Count a sync of the log that began at this time of `perf_counter`."""
        self._syncs.observe(perf_counter() - started)

    def _measure_delay(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._lags.observe(max(0.0, now - self._look_at))
        self._look_at = now + _LOOK_EVERY_S
        self._look = loop.call_at(self._look_at, self._measure_delay, loop)

    def part(self, *, openmetrics: bool) -> bytes:
        """Return the metrics as text, for `Exposition.body`."""
        return self._text(openmetrics=openmetrics).part()

    async def part_for(self, openmetrics: bool) -> bytes:
        """Return the same for an event loop of another thread. Raise TimeoutError if the broker is busy or stopped."""

        async def part() -> bytes:
            return self.part(openmetrics=openmetrics)

        assert self._loop is not None, "start was not called"
        asked = asyncio.run_coroutine_threadsafe(part(), self._loop)
        return await asyncio.wait_for(asyncio.wrap_future(asked), _WITHIN_S)

    def body(self, *, openmetrics: bool) -> bytes:
        """Return the metrics as the body of an answer."""
        return self._text(openmetrics=openmetrics).body()

    def _text(self, *, openmetrics: bool) -> Exposition:
        text = Exposition(openmetrics=openmetrics)
        broker = self._broker
        assert broker is not None, "start was not called"
        text.gauge("kohort_broker_info", "1, with the ID of the node.").add(labels(node_id=broker.node_id), 1)
        self.requests.add(text)
        _add_connections(text, broker.sockets)
        _add_groups(text, broker.groups)
        _add_logs(text, broker)
        text.histogram("kohort_broker_sync_seconds", "Time of a sync of the log.").add_histogram("", self._syncs)
        text.histogram(
            "kohort_broker_event_loop_delay_seconds", "Delay of a timer that runs twice a second."
        ).add_histogram("", self._lags)
        add_process(text)
        return text


def _add_connections(text: Exposition, sockets: Sockets) -> None:
    waiting = held = 0
    for connection in sockets:
        waiting += connection.waiting
        heartbeat = connection.held_heartbeat
        held += heartbeat is not None and heartbeat.open
    text.gauge("kafka_server_socket_server_metrics_connection_count", "Open connections.").add("", len(sockets))
    text.gauge("kohort_broker_requests_waiting", "Requests that wait for their answer, or behind one.").add("", waiting)
    text.gauge("kohort_broker_held_heartbeats", "Heartbeats that are held until there is news.").add("", held)


def _add_groups(text: Exposition, coordinator: GroupCoordinator) -> None:
    groups, members = {"classic": 0, "consumer": 0}, {"classic": 0, "consumer": 0}
    loading = 0
    for shard in coordinator:
        if not shard.ready:
            loading += 1
            continue
        for group in shard.all_groups:
            protocol = "consumer" if isinstance(group, ConsumerGroup) else "classic"
            groups[protocol] += 1
            members[protocol] += len(group.members)
    count = text.gauge("kafka_server_group_coordinator_metrics_group_count", "Groups by protocol.")
    people = text.gauge("kohort_broker_group_members", "Members of groups by protocol.")
    for protocol in groups:
        count.add(labels(protocol=protocol), groups[protocol])
        people.add(labels(protocol=protocol), members[protocol])
    text.gauge("kohort_broker_loading_coordinators", "Partitions of __consumer_offsets that are being loaded.").add(
        "", loading
    )


def _add_logs(text: Exposition, broker: Dependencies) -> None:
    logs = list(_logs(broker.topics))
    text.gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.").add("", len(logs))
    text.gauge("kohort_broker_log_bytes", "Bytes of all logs of this broker.").add("", sum(log.size for log in logs))
    stopped = sum(log.stopped is not None for log in logs)
    text.gauge("kohort_broker_read_only_partitions", "Partitions whose last sync failed.").add("", stopped)
    before = broker.wall() - broker.config.number("transaction.max.timeout.ms") - _LATE_MS
    text.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions whose oldest open transaction has written nothing for longer than any timeout.",
    ).add("", sum(_has_late_transaction(log, before) for log in logs))
    text.gauge("kohort_broker_unsynced_bytes", "Bytes that wait for a sync.").add("", broker.store.queued_bytes)


def _has_late_transaction(log: PartitionLog, before: Millis) -> bool:
    if log.last_stable_offset == log.stable_offset:
        return False
    oldest = next(iter(log.producers.open_transactions()), None)
    producer = None if oldest is None else log.producers.get(oldest)
    return producer is not None and 0 < producer.last_timestamp < before


def _logs(topics: Topics) -> Iterator[PartitionLog]:
    for topic in topics.all().values():
        for partition in range(topic.partitions):
            log = topics.log(topic, partition)
            if log is not None:
                yield log


def add_process(text: Exposition) -> None:
    """Add what /proc tells about this process, under the names that Prometheus' clients use."""
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        files = len(list(Path("/proc/self/fd").iterdir()))
    except OSError:
        return  # not Linux
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    text.counter("process_cpu_seconds", "CPU time of the process.").add("", cpu)
    text.gauge("process_resident_memory_bytes", "Resident memory of the process.").add("", int(fields[21]) * _PAGE)
    text.gauge("process_open_fds", "Open files and sockets of the process.").add("", files)
