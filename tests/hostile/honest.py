"""Members that do as they should, all the time, while something else happens to their broker."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.interop.crowd import HEARTBEAT, Crowd, Line
from tests.interop.process import until

INTERVAL_S = 0.05
SESSION_MS = 6_000
LATEST_S = 3.0
"""Half a session, on a machine that may be busy: whoever is answered by then has missed nothing."""


@dataclass
class Honest:
    """What they have heard."""

    beats: int = 0
    codes: set[int] = field(default_factory=set)
    slowest_s: float = 0.0


@contextlib.contextmanager
def honest_group(bootstrap: str, group: str, size: int = 2) -> Iterator[Honest]:
    """A Stable group whose members beat until the block ends; none of them may see a rebalance, or wait for long."""
    heard, done = Honest(), threading.Event()
    with Crowd(bootstrap, [group] * size, lines=2, session_ms=SESSION_MS) as members:
        members.take_ids()
        members.sync(members.join())
        beating = [
            threading.Thread(target=_beat, args=(bootstrap, members, number, heard, done), daemon=True)
            for number in range(size)
        ]
        for thread in beating:
            thread.start()
        try:
            yield heard
            so_far = heard.beats
            # A broker may hold a heartbeat while there is nothing to say, for a third of the session.
            until(SESSION_MS / 1000, "they go on", lambda: heard.beats >= so_far + 2 * size)
        finally:
            done.set()
            for thread in beating:
                thread.join(10.0)
        assert heard.codes == {ErrorCode.NONE}
        assert heard.slowest_s < LATEST_S


def _beat(bootstrap: str, members: Crowd, number: int, heard: Honest, done: threading.Event) -> None:
    request = HeartbeatRequest(
        group_id=members.groups[number], generation_id=members.generations[number], member_id=members.ids[number]
    )
    line = Line(bootstrap)
    # All together as often as two would: a test's own threads must not be what its broker is slow by.
    interval_s = INTERVAL_S * len(members.groups) / 2
    while not done.wait(interval_s):
        began = time.monotonic()
        heard.codes.add(line.ask(request, HEARTBEAT, HeartbeatResponse).error_code)
        heard.slowest_s = max(heard.slowest_s, time.monotonic() - began)
        heard.beats += 1
    line.close()
