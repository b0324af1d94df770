"""Fuzz every decoder for a while: `make fuzz MINUTES=n`, or `python -m tests.fuzz.run --minutes n [--target NAME]...`.

Workers take turns at the targets. An input that is taken in a way that none was before joins the seeds, and one that
breaks a rule is made smaller and kept in `found/`, where the tests run it from then on. A worker that dies or hangs
leaves the input behind that it was at: nothing is lost to a crash of compiled code.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import mmap
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from tests.fuzz.mutate import mutated
from tests.fuzz.rules import Broken, Target, check, check_memory
from tests.fuzz.shrink import shrunk
from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"
MEMORY_EVERY = 20
"""One input in so many is run under the rule of memory, which costs several times as much."""
SLICE_S = 1.0
HANGS_AFTER_S = 20.0
"""Of processor time: on a busy machine a turn takes any time of the clock."""
_SLOT_BYTES = 1 << 20


@dataclass
class Corpus:
    """Input of one target, and its results."""

    target: Target
    inputs: list[bytes] = field(default_factory=list)
    ways: set[str] = field(default_factory=set)
    runs: int = 0
    broken: dict[str, Broken] = field(default_factory=dict)

    def fuzz(self, dice: Random, at: Slot, seconds: float) -> None:
        """Run mutated inputs for that many seconds of processor time."""
        target, inputs = self.target, self.inputs
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            for _ in range(20):
                data = target.mend(mutated(dice.choice(inputs), dice, inputs), dice)
                at.put(target.name, data)
                self.runs += 1
                self._judge(data, memory=self.runs % MEMORY_EVERY == 0)

    def begin(self) -> None:
        """Take in the seeds; what is compiled on first use is compiled by that."""
        self.inputs = list(self.target.seeds())
        for data in self.inputs:
            self.ways.add(check(self.target, data).way)

    def _judge(self, data: bytes, *, memory: bool) -> None:
        outcome = (check_memory if memory else check)(self.target, data)
        if outcome.broken is not None:
            self.broken.setdefault(outcome.broken.kind, outcome.broken)
        elif outcome.way not in self.ways:
            self.ways.add(outcome.way)
            self.inputs.append(data)


class Slot:
    """Where a worker writes down what it is about to run; its parent can read that after any end of it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOT_BYTES)

    def put(self, name: str, data: bytes) -> None:
        """Name and input, each behind its size."""
        head = name.encode()
        line = len(head).to_bytes(4, "big") + len(data).to_bytes(4, "big") + head + data
        if len(line) <= _SLOT_BYTES:
            self._memory[: len(line)] = line

    def get(self) -> tuple[str, bytes]:
        """Return the last value."""
        head, size = (int.from_bytes(self._memory[at : at + 4], "big") for at in (0, 4))
        return self._memory[8 : 8 + head].decode(), bytes(self._memory[8 + head : 8 + head + size])


@dataclass
class Tally:
    """Results of all workers so far."""

    runs: Counter[str] = field(default_factory=Counter)
    ways: dict[str, set[str]] = field(default_factory=dict)
    broken: dict[str, Broken] = field(default_factory=dict)


def work(names: Sequence[str], seed: int, at: Slot, told: Connection) -> None:
    """In a process of its own, until it is ended: fuzz in turns, and tell after each."""
    dice = Random(seed)
    corpora = [Corpus(TARGETS[name]) for name in names]
    dice.shuffle(corpora)
    for corpus in corpora:
        at.put(corpus.target.name, b"")
        corpus.begin()
        told.send((corpus.target.name, 0, corpus.ways, []))
    while True:
        for corpus in corpora:
            runs, known = corpus.runs, set(corpus.broken)
            corpus.fuzz(dice, at, SLICE_S)
            fresh = [finding for kind, finding in corpus.broken.items() if kind not in known]
            told.send((corpus.target.name, corpus.runs - runs, corpus.ways, fresh))


@dataclass
class Worker:
    """One such process."""

    names: Sequence[str]
    seed: int
    at: Slot = field(default_factory=Slot)
    used_then: float = 0.0
    """Its processor time when it was last heard of."""
    process: BaseProcess | None = None
    told: Connection | None = None

    def start(self) -> None:
        """Start it, or another in the place of one that ended."""
        self.told, telling = multiprocessing.Pipe(duplex=False)
        arguments = (self.names, self.seed, self.at, telling)
        self.process = multiprocessing.get_context("fork").Process(target=work, args=arguments, daemon=True)
        self.process.start()
        telling.close()
        self.used_then = 0.0
        self.seed += 1_000

    def news(self, tally: Tally) -> Iterator[Broken]:
        """Take in what it told, and what it ran into if it is no more."""
        assert self.process is not None and self.told is not None
        try:
            while self.told.poll():
                name, runs, ways, fresh = self.told.recv()
                self.used_then = self._used()
                tally.runs[name] += runs
                tally.ways.setdefault(name, set()).update(ways)
                yield from fresh
        except EOFError:
            self.process.join()
        if not self.process.is_alive():
            name, data = self.at.get()
            yield Broken(name, "crash", f"the process ended with {self.process.exitcode}", data)
            self.start()
        elif self._used() - self.used_then > HANGS_AFTER_S:
            self.stop()
            name, data = self.at.get()
            yield Broken(name, "hang", f"no end within {HANGS_AFTER_S:.0f} s", data)
            self.start()

    def _used(self) -> float:
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended, which `news` sees next
            return self.used_then
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it, whatever it is at."""
        if self.process is not None:
            self.process.kill()
            self.process.join()


def fuzz(names: Sequence[str], minutes: float, runs: float, faults: float, jobs: int, seed: int, keep: Path) -> Tally:
    """Fuzz until the time, the inputs or the faults reach their limit; keep inputs that break a rule."""
    tally = Tally()
    workers = [Worker(names, seed + number) for number in range(jobs)]
    end, next_line = time.monotonic() + 60 * minutes, time.monotonic() + 10
    for worker in workers:
        worker.start()
    try:
        while time.monotonic() < end and tally.runs.total() < runs and len(tally.broken) < faults:
            time.sleep(0.2)
            for worker in workers:
                for broken in worker.news(tally):
                    if broken.kind not in tally.broken:
                        tally.broken[broken.kind] = broken
                        print(f"FOUND {broken}\n  kept as {kept(broken, keep)}", flush=True)
            if time.monotonic() > next_line:
                next_line += 30
                print(f"{tally.runs.total():,} inputs, {sum(map(len, tally.ways.values())):,} ways", flush=True)
    finally:
        for worker in workers:
            worker.stop()
    return tally


def kept(broken: Broken, directory: Path) -> Path:
    """Write the input to a file, made smaller where the fault can be looked at without dying of it."""
    data = broken.data if broken.rule in ("crash", "hang") else shrunk(TARGETS[broken.target], broken)
    path = directory / broken.target / f"{broken.rule}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main() -> int:
    """Exit code 1 when something was found."""
    logging.getLogger("kohort.log").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--runs", type=float, default=float("inf"), help="end after so many inputs")
    parser.add_argument("--faults", type=float, default=float("inf"), help="end after so many faults")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="all of them by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--keep", type=Path, default=FOUND, help="where to keep what is found")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    print(f"{len(names)} decoders, {given.jobs} workers, seed {given.seed}", flush=True)
    began = time.monotonic()
    tally = fuzz(names, given.minutes, given.runs, given.faults, given.jobs, given.seed, given.keep)
    took = time.monotonic() - began
    for name in names:
        print(f"{name:16} {tally.runs[name]:>12,} inputs {len(tally.ways.get(name, ())):>6} ways")
    total = tally.runs.total()
    print(f"{total:,} inputs in {took:.0f} s, {total / took:,.0f}/s; {len(tally.broken)} faults")
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
