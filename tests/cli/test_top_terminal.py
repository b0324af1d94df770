"""`kohort top` as a command, in a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker
from tests.interop.kohort import KohortBroker, kohort

PATIENCE_S = 60.0


def test_without_a_terminal_it_prints_the_groups_once(run: Run, any_broker: Broker, name: str) -> None:
    at = any_broker.bootstrap
    succeeded(run("topic", "create", name, bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
    succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "2", bootstrap=at))
    lines = succeeded(run("top", "--filter", name, bootstrap=at)).lines
    assert [line.split()[0] for line in lines] == ["group", name]
    assert succeeded(run("top", "--filter", f"{name}-other", bootstrap=at)).lines == ["no groups"]


class InTerminal:
    """The command in a pseudo-terminal of its own."""

    def __init__(self, bootstrap: str, columns: int = 100, lines: int = 20) -> None:
        self.screen, keyboard = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(keyboard)
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            kohort("top", "--bootstrap", bootstrap), stdin=keyboard, stdout=keyboard, stderr=keyboard,
            start_new_session=True, env={**environment, "TERM": "xterm-256color"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.keyboard = keyboard
        self.written = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, text: str) -> None:
        """Wait until this was written since the last call; sequences that move the cursor or colour are left out."""
        deadline = time.monotonic() + PATIENCE_S
        seen = ""
        while text not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen):
            assert time.monotonic() < deadline, ascii(seen)
            seen += self._read(0.1)
        self.written += seen

    def _read(self, within: float) -> str:
        readable = select.poll()
        readable.register(self.screen, select.POLLIN)
        return os.read(self.screen, 65_536).decode(errors="replace") if readable.poll(within * 1000) else ""

    def press(self, keys: str) -> None:
        os.write(self.screen, keys.encode())

    def ended(self) -> int:
        """Return the exit code, within a second and what Python takes to end on a busy machine."""
        deadline = time.monotonic() + 3.0
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it has not ended"
            self.written += self._read(0.05)
        while part := self._read(0.0):
            self.written += part
        return self.process.returncode


@contextlib.contextmanager
def in_terminal(bootstrap: str) -> Iterator[InTerminal]:
    terminal = InTerminal(bootstrap)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.screen)
        os.close(terminal.keyboard)


@pytest.fixture
def group(run: Run, kohort_broker: KohortBroker, name: str) -> str:
    at = kohort_broker.bootstrap
    succeeded(run("topic", "create", name, bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
    succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "1", bootstrap=at))
    return name


def restored(terminal: InTerminal) -> bool:
    """Whether the terminal is as it was: its modes, the main screen and the cursor."""
    last_screen = max(terminal.written.rfind("\x1b[?1049h"), terminal.written.rfind("\x1b[?25l"))
    after = terminal.written[last_screen:]
    return termios.tcgetattr(terminal.keyboard) == terminal.before and "\x1b[?1049l" in after and "\x1b[?25h" in after


def test_a_session_in_a_terminal(kohort_broker: KohortBroker, group: str) -> None:
    with in_terminal(kohort_broker.bootstrap) as terminal:
        terminal.until("kohort top")
        terminal.press(f"/{group}\r")
        terminal.until("The group has no members, and r")
        terminal.press("\r")
        terminal.until("1 record wait")
        terminal.press("4")
        terminal.until("member left")  # the journal of the broker knows that it did not expire
        terminal.press("\x1b")
        terminal.until(f"filter: {group}")
        terminal.resize(60, 10)
        terminal.until("q quit")
        assert "\x1b[?1049h" in terminal.written
        terminal.press("q")
        assert terminal.ended() == 0
        assert restored(terminal)


def test_ctrl_c_ends_it_and_restores_the_terminal(kohort_broker: KohortBroker, group: str) -> None:
    with in_terminal(kohort_broker.bootstrap) as terminal:
        terminal.until("kohort top")
        terminal.press("\x03")  # the terminal makes a signal of it
        assert terminal.ended() == 128 + signal.SIGINT
        assert restored(terminal)
        assert "Traceback" not in terminal.written


def test_q_ends_it_while_no_broker_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it takes connections and never answers
        with in_terminal(f"127.0.0.1:{mute.getsockname()[1]}") as terminal:
            terminal.until("log: loading")
            terminal.press("q")
            assert terminal.ended() == 0
            assert restored(terminal)


def test_sigterm_ends_it_and_restores_the_terminal(kohort_broker: KohortBroker, group: str) -> None:
    with in_terminal(kohort_broker.bootstrap) as terminal:
        terminal.until("kohort top")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
        assert restored(terminal)
