"""Metrics of a producer: its batches, its buffer, and the time that the application waits for it."""

from collections import defaultdict, deque

from kohort.client.metrics import (
    Definition,
    Definitions,
    Measurements,
    NetworkMetrics,
    NodeMetrics,
    Report,
    Sampling,
    average_and_max,
    sum_rate_and_total,
    total_ns,
)
from kohort.client.produce.batches import Batch

GROUP = "producer-metrics"
TOPIC_GROUP = "producer-topic-metrics"
_MOST_SAMPLES = 10_000

_RECORDS: Definitions = {
    "records": sum_rate_and_total("record-send", "records sent, including repetitions"),
    "errors": sum_rate_and_total("record-error", "records that failed"),
    "retries": sum_rate_and_total("record-retry", "records sent again"),
}

_RATIO = "Average size of a compressed batch divided by its size without compression."

_OF_ALL: Definitions = {
    **_RECORDS,
    "batch_size": average_and_max("batch-size", "size of a batch, in bytes"),
    "record_size": average_and_max("record-size", "size of the largest record of a batch, in bytes"),
    "queue_time": average_and_max("record-queue-time", "time that a batch waits before it is sent, in milliseconds"),
    "per_request": (
        Definition("records-per-request-avg", "Average number of records in a request.", Measurements.average),
    ),
    "compression": (Definition("compression-rate-avg", _RATIO, Measurements.average),),
    "flushes": (Definition("flush-time-ns-total", "Total time in `flush`, in nanoseconds.", total_ns),),
    "metadata_waits": (
        Definition(
            "metadata-wait-time-ns-total",
            "Total time that the application waited for the metadata of topics, in nanoseconds.",
            total_ns,
        ),
    ),
    "buffer_waits": (
        Definition(
            "bufferpool-wait-ratio", "Part of the time that the application waited for room.", Measurements.rate
        ),
        Definition(
            "bufferpool-wait-time-ns-total",
            "Total time that the application waited for room in the buffer, in nanoseconds.",
            total_ns,
        ),
    ),
    **{
        name: (Definition(f"txn-{kind}-time-ns-total", f"Total time {doing}, in nanoseconds.", total_ns),)
        for name, kind, doing in (
            ("txn_init", "init", "in `init_transactions`"),
            ("txn_begin", "begin", "in `begin_transaction`"),
            ("txn_send_offsets", "send-offsets", "in `send_offsets_to_transaction`"),
            ("txn_commit", "commit", "in `commit_transaction`"),
            ("txn_abort", "abort", "in `abort_transaction`"),
        )
    },
    "exhausted": sum_rate_and_total("buffer-exhausted", "records that found no room within max_block_ms"),
}

_OF_TOPIC: Definitions = {
    **_RECORDS,
    "sizes": sum_rate_and_total("byte", "bytes sent in batches"),
    "compression": (Definition("compression-rate", _RATIO, Measurements.average),),
}

_NETWORK: Definitions = {
    "latency": average_and_max("request-latency", "time from a produce request to its response, in milliseconds"),
    "throttle": average_and_max("produce-throttle-time", "time for which a quota delayed a request, in milliseconds"),
}


class TopicMetrics:
    """Metrics of one topic."""

    def __init__(self, sampling: Sampling) -> None:
        self.records = Measurements(sampling)
        self.errors = Measurements(sampling)
        self.retries = Measurements(sampling)
        self.sizes = Measurements(sampling)
        self.batch_sizes: deque[float] = deque(maxlen=_MOST_SAMPLES)
        """Sizes of batches since the last statistics, if there are statistics."""
        self.batch_counts: deque[float] = deque(maxlen=_MOST_SAMPLES)
        self.by_partition: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        """Numbers of records and bytes sent to each partition, if there are statistics."""
        self.compression = Measurements(sampling)


class ProducerMetrics:
    """Metrics of one producer."""

    def __init__(self, sampling: Sampling) -> None:
        self.records = Measurements(sampling)
        self.errors = Measurements(sampling)
        self.retries = Measurements(sampling)
        self.batch_size = Measurements(sampling)
        self.record_size = Measurements(sampling)
        self.queue_time = Measurements(sampling)
        self.per_request = Measurements(sampling)
        self.compression = Measurements(sampling)
        self.flushes = Measurements(sampling)
        """Durations of `flush`, in seconds."""
        self.metadata_waits = Measurements(sampling)
        """Waits for the metadata of a topic, in seconds."""
        self.buffer_waits = Measurements(sampling)
        """Waits for room in the buffer, in seconds."""
        self.txn_init = Measurements(sampling)
        """Durations of the methods of transactions, in seconds."""
        self.txn_begin = Measurements(sampling)
        self.txn_send_offsets = Measurements(sampling)
        self.txn_commit = Measurements(sampling)
        self.txn_abort = Measurements(sampling)
        self.exhausted = Measurements(sampling)
        self.sampled = False
        """Whether batches are kept for statistics."""
        self.topics: dict[str, TopicMetrics] = {}
        self._sampling = sampling

    def _topic(self, name: str) -> TopicMetrics:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicMetrics(self._sampling)
        return found

    def sent(self, batches: list[Batch], node: NodeMetrics, now: float) -> None:
        """Count the batches of one request to this broker."""
        number = 0
        for batch in batches:
            topic = self._topic(batch.partition.topic)
            count, size, plain = batch.count, batch.encoded_size, batch.builder.size
            number += count
            self.batch_size.add(size, now)
            self.record_size.add(batch.largest, now)
            self.queue_time.add((now - batch.opened_at) * 1000, now)
            self.compression.add(size / plain, now)
            topic.records.add(count, now)
            topic.sizes.add(size, now)
            topic.compression.add(size / plain, now)
            if self.sampled:
                node.queue_times.append((now - batch.opened_at) * 1e6)
                topic.batch_sizes.append(size)
                topic.batch_counts.append(count)
                sent = topic.by_partition[batch.partition.partition]
                sent[0] += count
                sent[1] += plain
        self.records.add(number, now)
        self.per_request.add(number, now)

    def failed(self, topic: str, count: int, now: float) -> None:
        """Count records that failed."""
        self.errors.add(count, now)
        self._topic(topic).errors.add(count, now)

    def retried(self, topic: str, count: int, now: float) -> None:
        """Count records that are to be sent again."""
        self.retries.add(count, now)
        self._topic(topic).retries.add(count, now)

    def report(self, report: Report, network: NetworkMetrics) -> None:
        """Add all metrics."""
        report.add_all(GROUP, self, _OF_ALL)
        report.add_all(GROUP, network, _NETWORK)
        for name, topic in self.topics.items():
            report.add_all(TOPIC_GROUP, topic, _OF_TOPIC, topic=name)
