"""What the connectors do with the same topics of one Apache Kafka, case by case, a turn each, in one run.

Every case is a function of `Versus` in `CASES`; it prints a line for each contestant, and its figure beside its bar.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from bench.spark_peer import Contestant, contestant, cpu_seconds, start_to_first_batch
from bench.spark_topics import PARTITIONS, create, fill, fill_large, size
from tests.interop.kafka import PRODUCTION, running_kafka

THEIRS, TUNED, OURS = "spark-sql-kafka", "tuned", "kohort"
TUNING = {"kafka.max.poll.records": "10000", "kafka.receive.buffer.bytes": str(4 << 20)}
TUNED_SESSION = {
    # As `pyspark_kohort.session` sets it, by its name in Spark 4.0.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    )
}
TUNED_SINK = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
LATENCY_S, LATENCY_RATE = 30, 1_000
AIMS = {"batch": 3.5, "value": 5.0, "large": 3.0, "stream": 2.0, "member": 2.0, "sink": 2.0}
"""By case: our rate as a multiple of theirs, of whichever of their two ways is faster."""
LATENCY_AIMS_MS = {"p50": 100.0, "p99": 200.0}
START_AIM_S = 8.0

Options = dict[str, str]


@dataclass(slots=True)
class Turn:
    """One contestant's way through a case, and what it took each time."""

    name: str
    contestant: Contestant
    asked: Mapping[str, Any]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    broker: list[float] = field(default_factory=list)
    phases: Mapping[str, list[int]] = field(default_factory=dict)
    """Of a stream's batches but the first, by Spark's names: how long each phase took, in ms, in the last round."""
    warm: list[float] = field(default_factory=list)
    """Rows per second of these batches; the first one starts what later ones find running."""

    def add(self, found: Mapping[str, Any], broker: float) -> None:
        """A round."""
        self.seconds.append(found["seconds"])
        self.cpu.append(found["cpu"])
        self.broker.append(broker)
        if "batches" in found:
            self.phases = found["phases"]
            warm = found["batches"][1:] or found["batches"]
            self.warm.append(1000 * sum(count for count, _ in warm) / sum(ms for _, ms in warm))


@dataclass(frozen=True, slots=True)
class Versus:
    """The contestants on one broker."""

    bootstrap: str
    broker_pid: int
    contestants: Mapping[str, Contestant]
    rows: int
    rounds: int
    _small: list[str] = field(default_factory=list)
    """The topic of that many small records, once a case has asked for it."""
    _best: dict[str, float] = field(default_factory=dict)
    """Their best rate in a case that has run, for those that they have no counterpart of."""

    def batch(self) -> None:
        turns = self._turns({}, {"subscribe": self._small_records()})
        self._race("batch, seven columns", "batch", turns, self.rows, AIMS["batch"])

    def value(self) -> None:
        turns = self._turns({"schema": "value binary"}, {"subscribe": self._small_records()})
        self._race("batch, value only", "batch", turns, self.rows, AIMS["value"])

    def large(self) -> None:
        rows = self.rows // 5
        topic = fill_large(self.bootstrap, "bench1k", rows)
        # What tunes them elsewhere makes them slower here.
        self._race("batch, 1 KB lz4", "batch", self._turns({}, {"subscribe": topic}), rows, AIMS["large"])

    def stream(self) -> None:
        turns = self._turns({}, self._streaming())
        title = f"stream, {self._batch_rows:,} a batch"
        self._best["stream"] = self._race(title, "stream", turns, self.rows, AIMS["stream"])

    def member(self) -> None:
        extra = self._streaming() | {"kafka.group.id": "bench-member", "groupMode": "member"}
        turns = [turn for turn in self._turns({}, extra) if turn.name == OURS]
        self._race("stream as a member", "stream", turns, self.rows, AIMS["member"], self._best.get("stream"))

    def sink(self) -> None:
        extra = {"topic": create(self.bootstrap, "bench-sink")}
        turns = self._turns({"rows": self.rows}, extra, tuning=TUNED_SINK)
        self._race("sink, 100 bytes", "sink", turns, self.rows, AIMS["sink"])

    def latency(self) -> None:
        extra = {"subscribe": create(self.bootstrap, "bench-latency"), "startingOffsets": "latest"}
        turns = self._turns({"seconds": LATENCY_S}, extra)
        found = {turn.name: follow(turn, self.bootstrap, extra["subscribe"]) for turn in turns}
        for (which, most), ours in zip(LATENCY_AIMS_MS.items(), found[OURS], strict=True):
            _say_bar(f"latency {which}, ms", ours, "at most", most)

    def start(self) -> None:
        """In sessions of their own; the ones that wait here have nothing to do."""
        topic = fill(self.bootstrap, "warm", 50_000, bytes(100))
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        median = 0.0
        for name, form in ((THEIRS, "kafka"), (OURS, "kohort")):
            took = sorted(start_to_first_batch(form, given) for _ in range(self.rounds))
            median = statistics.median(took)
            print(
                f"{'start to first batch':23} {name:16} {median:6.1f} s ({took[0]:.1f} to {took[-1]:.1f})", flush=True
            )
        _say_bar("start to first batch, s", median, "at most", START_AIM_S)

    @property
    def _batch_rows(self) -> int:
        return min(1_000_000, self.rows // 4)

    def _small_records(self) -> str:
        if not self._small:
            self._small.append(fill(self.bootstrap, "bench100", self.rows, bytes(100)))
        return self._small[0]

    def _streaming(self) -> Options:
        rows = str(self._batch_rows)
        return {"subscribe": self._small_records(), "startingOffsets": "earliest", "maxOffsetsPerTrigger": rows}

    def _turns(self, case: Mapping[str, Any], extra: Options, tuning: Options = TUNING) -> list[Turn]:
        options = {"kafka.bootstrap.servers": self.bootstrap} | extra
        theirs, ours = self.contestants["kafka"], self.contestants["kohort"]
        return [
            Turn(THEIRS, theirs, {**case, "options": options}),
            Turn(TUNED, theirs, {**case, "options": options | tuning, "settings": TUNED_SESSION}),
            Turn(OURS, ours, {**case, "options": options}),
        ]

    def _race(
        self, title: str, case: str, turns: list[Turn], rows: int, aim: float, theirs: float | None = None
    ) -> float:
        """Everyone twice to warm up, then round by round; the medians, and ours against their best, which is returned.

        - `theirs`: Their best rate, if they take no turn here.
        """
        for counted in [False] * 2 + [True] * self.rounds:
            for turn in turns:
                before = cpu_seconds(self.broker_pid)
                found = turn.contestant.run(case, **turn.asked)
                if counted:
                    turn.add(found, cpu_seconds(self.broker_pid) - before)
        rates = {turn.name: rows / statistics.median(turn.seconds) for turn in turns}
        for turn in turns:
            per_cpu, broker = rows / statistics.median(turn.cpu), statistics.median(turn.broker)
            print(
                f"{title:23} {turn.name:16} {rates[turn.name] / 1e6:6.2f} M rows/s {per_cpu / 1e6:6.2f} M rows/CPU s"
                f"   broker {broker:5.2f} CPU s",
                flush=True,
            )
            if turn.phases:
                spent = (f"{name} {statistics.median(found):.0f}" for name, found in turn.phases.items())
                rate = statistics.median(turn.warm) / 1e6
                print(
                    f"{'':23} {turn.name:16} {rate:6.2f} M rows/s warm; ms of a batch: {', '.join(spent)}", flush=True
                )
        best = max((rate for name, rate in rates.items() if name != OURS), default=theirs)
        if best is None:
            print(f"{'':5}{title}, times their best: not measured, as the case stream did not run before", flush=True)
            return 0.0
        _say_bar(f"{title}, times their best", rates[OURS] / best, "at least", aim)
        return best


CASES: Mapping[str, Callable[[Versus], None]] = {
    "start": Versus.start,
    "batch": Versus.batch,
    "value": Versus.value,
    "large": Versus.large,
    "stream": Versus.stream,
    "member": Versus.member,
    "latency": Versus.latency,
    "sink": Versus.sink,
}


def compare(rows: int, rounds: int, cases: list[str]) -> None:
    """Run the chosen cases ([] for all)."""
    with running_kafka({"log.segment.bytes": str(1 << 30)}, PRODUCTION) as kafka:
        with contestant("kafka") as theirs, contestant("kohort") as ours:
            versus = Versus(kafka.bootstrap, kafka.pid, {"kafka": theirs, "kohort": ours}, rows, rounds)
            for name in cases or CASES:
                CASES[name](versus)


def _say_bar(what: str, value: float, sign: str, bar: float) -> None:
    met = value <= bar if sign == "at most" else value >= bar
    print(f"{'':5}{what:<40} {value:7.2f}  {sign} {bar:.4g}: {'met' if met else 'MISSED'}", flush=True)


def follow(turn: Turn, bootstrap: str, topic: str) -> tuple[float, float]:
    """Produce at a steady rate while the query follows; how long after its time a record's batch was done.

    The 50th and the 99th percentile, in ms.
    """
    produced: list[float] = []
    ends = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        begin = time.time()
        while not ends.is_set():
            due = int((time.time() - begin) * LATENCY_RATE)
            while len(produced) < due:
                producer.produce(topic, bytes(100), partition=len(produced) % PARTITIONS)
                produced.append(time.time())
            producer.poll(0.002)
        producer.flush(10)

    base = size(bootstrap, topic)
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        done = turn.contestant.run("latency", **turn.asked)["done"]
    finally:
        ends.set()
        thread.join()
    late: list[float] = []
    before = done[len(done) // 2][0]  # the first half warms up
    for count, at in done[len(done) // 2 + 1 :]:
        late += [at - produced[n - base] for n in range(before, min(count, base + len(produced)))]
        before = count
    late.sort()
    p50, p99 = late[len(late) // 2] * 1000, late[len(late) * 99 // 100] * 1000
    print(f"latency at {LATENCY_RATE:,}/s      {turn.name:16} p50 {p50:5.0f} ms   p99 {p99:5.0f} ms", flush=True)
    return p50, p99
