"""Member of an experiment's group: a process that receives `MemberSettings` and reports events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kohort.child_processes import starting_child
from kohort.errors import KohortError
from kohort.lab.clients import CLIENT_MODULES
from kohort.lab.events import Event, Gone, parse
from kohort.lab.java_member import java_command
from kohort.lab.member_settings import MemberSettings
from kohort.lab.process import ends_with_us

CLIENTS = ("java", *CLIENT_MODULES)
PROTOCOLS_OF_CLIENTS: dict[str, tuple[str, ...]] = {
    "kafka-python": ("eager", "cooperative"),
    "aiokafka": ("eager",),
}
"""Protocols of the clients that do not support all of them."""


class Member:
    """Process of one member. A separate thread passes its events to `on_event`."""

    def __init__(self, client: str, settings: MemberSettings, log: Path, on_event: Callable[[Event], None]) -> None:
        self.name = settings.name
        self._on_event = on_event
        self._killed = False
        self._log = log
        with log.open("ab") as errors, starting_child(signal.SIGKILL) as prepare:
            self._process = subprocess.Popen(
                [*_command(client), settings.to_json()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                preexec_fn=prepare,
            )
            ends_with_us(self._process)
        self._listening = threading.Thread(target=self._listen, name=self.name, daemon=True)
        self._listening.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def leave(self) -> None:
        """Ask the member to leave the group and end."""
        self._process.terminate()

    def kill(self) -> int:
        """Send SIGKILL; return the time of the signal in monotonic nanoseconds."""
        self._killed = True
        at = time.monotonic_ns()
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        return at

    def pause(self) -> None:
        """Stop the whole process (SIGSTOP)."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    def wait_until_ended(self, timeout: float) -> None:
        """Wait until the process has ended and all its events are handled.

        Raises KohortError if it does not end within `timeout` seconds, or if it failed.
        """
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            raise KohortError(f"{self.name} did not leave within {timeout:.0f} s.\n{self.log_end()}") from None
        finally:
            self._listening.join(timeout)
        # Java exits with 128 plus the number of the signal, after its shutdown hook.
        if not self._killed and code not in (0, 128 + signal.SIGTERM):
            raise KohortError(f"{self.name} ended with {code}.\n{self.log_end()}")

    @property
    def ended(self) -> bool:
        """Whether the process has ended, by itself or on request."""
        return self._process.poll() is not None

    def log_end(self) -> str:
        """Return the end of the process's log."""
        return self._log.read_text(errors="replace")[-2000:]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._on_event(parse(line, self.name))
        self._process.wait()
        self._on_event(Gone(time.monotonic_ns(), self.name, self._killed))


def _command(client: str) -> tuple[str, ...]:
    if client == "java":
        return java_command()
    return (sys.executable, "-m", "kohort.lab.clients.member", client)
