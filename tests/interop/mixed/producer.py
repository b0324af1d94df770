"""Numbered records, a few hundred a second, until it is stopped."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import confluent_kafka

from tests.interop.mixed.events import value_of
from tests.interop.mixed.login import Login

_TICK_S = 0.25
"""Small batches a few times a second: members that commit each poll stay calm."""


class NumberedProducer:
    """Writes to random partitions in a thread; a record's value says where it must be found."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        records_per_s: int,
        seed: int,
        login: Login | None = None,
    ) -> None:
        self.written: Counter[int] = Counter()
        """Acknowledged records by partition; the next offset, as the topic is the producer's alone."""
        self.problems: list[str] = []
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                **(login.librdkafka() if login else {}),
            }
        )
        arguments = (topic, partitions, round(records_per_s * _TICK_S), random.Random(seed))
        self._thread = threading.Thread(target=self._produce, args=arguments, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """All that it has sent is acknowledged then."""
        self._stopping.set()
        self._thread.join(40.0)
        assert not self._thread.is_alive(), "the producer hangs"

    def _produce(self, topic: str, partitions: int, burst: int, rng: random.Random) -> None:
        sent: Counter[int] = Counter()
        while not self._stopping.wait(_TICK_S):
            for _ in range(burst):
                # A few partitions per burst, so that a fetch finds some records rather than one.
                partition = rng.randrange(partitions)
                value = value_of(partition, sent[partition])
                self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
                sent[partition] += 1
            self._producer.poll(0)
        left = self._producer.flush(30.0)
        if left:
            self.problems.append(f"{left} records were never acknowledged")

    def _delivered(self, error: Any, record: Any) -> None:
        if error is not None:
            self.problems.append(f"a record was refused: {error}")
        elif record.offset() != self.written[record.partition()]:
            self.problems.append(
                f"partition {record.partition()} acknowledged offset {record.offset()}, "
                f"where {self.written[record.partition()]} comes next"
            )
        if error is None:
            self.written[record.partition()] = record.offset() + 1
