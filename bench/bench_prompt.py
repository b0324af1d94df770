"""What heartbeats that are held cost: a quiet crowd of members, with group.heartbeat.hold.ms and without.

    python bench/bench_prompt.py [--members N] [--seconds S]

Each member has a connection of its own and sends a heartbeat every 3 s by the clock, whether or not the last one was
answered, as the Java client does: so each releases the one before, and is held in its place. CPU is what the kernel
booked to the server.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import load_core, server_core
from bench.bench_groups import pinned
from kohort.wire.messages.heartbeat import HeartbeatRequest
from tests.interop.crowd import HEARTBEAT, Crowd, framed
from tests.interop.kohort import running_kohort

RHYTHM_S = 3.0
GROUP_SIZE = 10


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what held heartbeats cost.")
    parser.add_argument("--members", type=int, default=9_000, help="how many, with a connection each (default 9,000)")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each is measured (default 12)")
    options = parser.parse_args()
    for name, hold_ms in (("held", "9000"), ("not held", "0")):
        cores, answered = measure(options.members, options.seconds, hold_ms)
        rate = options.members / RHYTHM_S
        print(
            f"{options.members:,} idle members, heartbeats every {RHYTHM_S:g} s, {name:9}"
            f" {cores:6.3f} of a core, {cores / rate * 1e6:5.1f} us a heartbeat, {answered:,} answers"
        )
    return 0


def measure(members: int, seconds: float, hold_ms: str) -> tuple[float, int]:
    """The part of a core that the server used, and how many heartbeats it answered."""
    groups = [f"g{number // GROUP_SIZE}" for number in range(members)]
    with contextlib.ExitStack() as running:
        with pinned(server_core()):
            settings = {"group_initial_rebalance_delay_ms": "2000", "group_heartbeat_hold_ms": hold_ms}
            broker = running.enter_context(running_kohort(**settings))
        with pinned(load_core()), Crowd(broker.bootstrap, groups, lines=members) as crowd:
            crowd.take_ids()
            crowd.sync(crowd.join())
            frames = [
                framed(HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id), HEARTBEAT)
                for group, generation, member_id in zip(crowd.groups, crowd.generations, crowd.ids, strict=True)
            ]
            beat(crowd, frames, RHYTHM_S)  # from here on each member has one that is held
            crowd.drain()
            before, began = broker.process.cpu_seconds(), time.monotonic()
            answered = 0
            while time.monotonic() < began + seconds:
                beat(crowd, frames, RHYTHM_S)
                answered += crowd.drain()
            return (broker.process.cpu_seconds() - before) / (time.monotonic() - began), answered


def beat(crowd: Crowd, frames: list[bytes], period_s: float) -> None:
    """Everybody sends one heartbeat, evenly over the period."""
    began = time.monotonic()
    for number, frame in enumerate(frames):
        if number % 50 == 0:
            time.sleep(max(0.0, began + period_s * number / len(frames) - time.monotonic()))
        crowd.send(number, frame)
    time.sleep(max(0.0, began + period_s - time.monotonic()))


if __name__ == "__main__":
    raise SystemExit(main())
