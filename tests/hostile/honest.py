"""Members that do as they should, all the time, while something else happens to their broker.

Start the broker with `group_heartbeat_hold_ms="0"`: a held heartbeat tells nothing of how busy the broker is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.interop.crowd import HEARTBEAT, Crowd, Line
from tests.interop.kohort import KohortBroker
from tests.interop.process import until

INTERVAL_S = 0.05
SESSION_MS = 60_000
PATIENCE_S = 30.0
MOST_CPU_S = 2.0
"""CPU time that the broker spends on others before it answers; a clock would count the machine's other load, too."""


@dataclass
class Honest:
    """Responses that they received."""

    beats: int = 0
    codes: set[int] = field(default_factory=set)
    slowest_cpu_s: float = 0.0
    """Most CPU time of the broker between a heartbeat and its answer."""


@contextlib.contextmanager
def honest_group(broker: KohortBroker, group: str, size: int = 2) -> Iterator[Honest]:
    """A Stable group whose members beat until the block ends; none of them may see a rebalance, or wait for long."""
    heard, done = Honest(), threading.Event()
    with Crowd(broker.bootstrap, [group] * size, lines=2, session_ms=SESSION_MS) as members:
        members.take_ids()
        members.sync(members.join())
        beating = [
            threading.Thread(target=_beat, args=(broker, members, number, heard, done), daemon=True)
            for number in range(size)
        ]
        for thread in beating:
            thread.start()
        try:
            yield heard
            so_far = heard.beats
            until(PATIENCE_S, "they go on", lambda: heard.beats >= so_far + 2 * size)
        finally:
            done.set()
            for thread in beating:
                thread.join(PATIENCE_S)
        assert heard.codes == {ErrorCode.NONE}
        assert heard.slowest_cpu_s < MOST_CPU_S


def _beat(broker: KohortBroker, members: Crowd, number: int, heard: Honest, done: threading.Event) -> None:
    request = HeartbeatRequest(
        group_id=members.groups[number], generation_id=members.generations[number], member_id=members.ids[number]
    )
    line = Line(broker.bootstrap)
    # All together as often as two would: a test's own threads must not be what its broker is slow by.
    interval_s = INTERVAL_S * len(members.groups) / 2
    while not done.wait(interval_s):
        before = broker.process.cpu_seconds()
        heard.codes.add(line.ask(request, HEARTBEAT, HeartbeatResponse).error_code)
        heard.slowest_cpu_s = max(heard.slowest_cpu_s, broker.process.cpu_seconds() - before)
        heard.beats += 1
    line.close()
