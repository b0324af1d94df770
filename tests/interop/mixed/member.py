"""A member in a process of its own, so that it can be killed; what it says is kept with the time."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from kohort.child_processes import starting_child
from kohort.model import Millis
from tests.interop.mixed.events import Assigned, Event, Lost, Revoked, parse
from tests.interop.mixed.kinds import Kind, Place

_ROOT = Path(__file__).parents[3]


def now_ms() -> Millis:
    """The clock that the members' lines have, too."""
    return time.time_ns() // 1_000_000


class Member:
    """A process that joined, or is about to."""

    def __init__(self, kind: Kind, place: Place, directory: Path) -> None:
        self.kind = kind
        self.place = place
        self.name = place.name
        self.events: list[Event] = []
        self.killed_at: Millis | None = None
        self.code: int | None = None
        """Its exit code; None while it runs."""
        self._owned: frozenset[int] = frozenset()
        self._errors = directory / f"{self.name}.stderr"
        self._lines = directory / f"{self.name}.lines"
        command = list(kind.command(place, directory))
        # A Java member without its broker keeps a core busy: none outlives a run of tests that was killed.
        with self._errors.open("wb") as errors, starting_child(signal.SIGKILL) as prepare:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                start_new_session=True,
                preexec_fn=prepare,
            )
        self._listening = threading.Thread(target=self._listen, name=self.name, daemon=True)
        self._listening.start()

    @property
    def owned(self) -> frozenset[int]:
        """Return the partitions that it may process now, according to its events."""
        return self._owned

    @property
    def errors(self) -> str:
        """The end of what it complained of."""
        return self._errors.read_text(errors="replace")[-2000:]

    @property
    def ended(self) -> bool:
        """By itself or because it was told to."""
        return self._process.poll() is not None

    def leave(self) -> None:
        """Tell it to; `gone` waits."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It gets no chance to say goodbye to the group, unless it has ended already."""
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        self.gone(10.0)
        self.killed_at = now_ms()

    def gone(self, timeout: float) -> None:
        """Wait for its end, and for its last line."""
        self.code = self._process.wait(timeout)
        self._listening.join(timeout)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, self._lines.open("w") as kept:
            for line in lines:
                kept.write(line)
                if line.startswith("{") and line.endswith("}\n"):
                    event = parse(line)
                    if event is not None:
                        self._hear(event)

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case Assigned(_, partitions):
                self._owned |= partitions
            case Revoked(_, partitions) | Lost(_, partitions):
                self._owned -= partitions
