"""Spark's engine for one streaming reader, in Spark's order of calls: a checkpoint, tasks, and a sink that counts."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark_kohort import DefaultSource
from pyspark_kohort.columns import COLUMNS
from pyspark_kohort.source.stream import StreamReader
from tests.spark.conftest import Topic

Offset = dict[str, Any]
COMMITTED = {"kafka.isolation.level": "read_committed"}


def reader(topic: Topic, **options: str) -> Any:
    """As Spark's streaming runner makes it."""
    given = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, "startingOffsets": "earliest"}
    return DefaultSource(given | options).streamReader(COLUMNS)


def read_once(topic: Topic, **options: str) -> list[tuple[int, int, bytes]]:
    """Return the (partition, offset, value) that a batch query reads."""
    given = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name}
    made = DefaultSource(given | options).reader(COLUMNS)
    return [
        (row["partition"], row["offset"], row["value"])
        for task in made.partitions()
        for batch in made.read(task)
        for row in batch.to_pylist()  # type: ignore[union-attr]
    ]


class Query:
    """Spark's engine for one reader: a checkpoint, and a sink that counts (partition, offset)."""

    def __init__(self, make: Callable[[], Any], checkpoint: Path | None = None, logged: Sequence[Offset] = ()) -> None:
        self._make = make
        self._checkpoint = checkpoint
        self.reader: StreamReader = make()
        self.logged = [json.dumps(offset) for offset in logged]
        self.done = len(self.logged)
        self.sink: Counter[tuple[int, int]] = Counter()

    def restart(self) -> None:
        self.reader = self._make()

    def offset(self, batches: int) -> Offset:
        offset: Offset = json.loads(self.logged[batches - 1]) if batches else self.reader.initialOffset()
        return offset

    def plan(self) -> bool:
        """Ask for a batch and log it; whether there is one."""
        start = self.offset(self.done)
        text = json.dumps(start)
        end = json.dumps(self.reader.latestOffset(json.loads(text), self.reader.getDefaultReadLimit()))
        if end != text:
            self._note("offsets", len(self.logged), end)
            self.logged.append(end)
        return end != text

    def run(self, between: Callable[[], None] = lambda: None) -> None:
        """Run the batch that was logged; `between` is called after each of its Arrow batches."""
        tasks = self.reader.partitions(self.offset(self.done), self.offset(self.done + 1))
        remote = pickle.loads(pickle.dumps(self._make()))
        for task in tasks:
            for batch in remote.read(pickle.loads(pickle.dumps(task))):
                self.sink.update(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
                between()
        self._note("commits", self.done, "{}")
        self.done += 1

    def _note(self, log: str, batch: int, text: str) -> None:
        """As Spark writes it: a version, a line about the batch, a line for each source."""
        if self._checkpoint is not None:
            (self._checkpoint / log).mkdir(parents=True, exist_ok=True)
            (self._checkpoint / log / str(batch)).write_text("\n".join(["v1", "{}", text]))

    def step(self) -> bool:
        if not self.plan():
            return False
        self.run()
        return True

    def drain(self) -> None:
        while self.step():
            pass
