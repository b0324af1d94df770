"""Terminal of `kohort top`: keys as they are typed, and the alternate screen, which it leaves as it found it."""

import asyncio
import codecs
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from kohort.cli.top_keys import read_keys

ESCAPE_S = 0.05
"""Time after which a lone escape character is the key, and not the beginning of a sequence."""


def is_usable() -> bool:
    """Return whether input and output are a terminal that can show a screen."""
    dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and not dumb


class Terminal:
    """The terminal while `open` has it."""

    def __init__(self, on_key: Callable[[str], None], on_resize: Callable[[], None]) -> None:
        self.console = Console(highlight=False, markup=False, emoji=False)
        self._on_key = on_key
        self._on_resize = on_resize
        self._rest = ""
        self._alone: asyncio.TimerHandle | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._shown: list[Text] = []

    @contextmanager
    def open(self) -> Iterator[None]:
        """Take the terminal, and give it back whatever happens."""
        loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
        try:
            tty.setcbreak(keyboard)  # Ctrl-C remains a signal
            self.console.control(Control.alt_screen(True), Control.show_cursor(False))
            loop.add_reader(keyboard, self._typed)
            loop.add_signal_handler(signal.SIGWINCH, self._resized)
            yield
        finally:
            loop.remove_reader(keyboard)
            loop.remove_signal_handler(signal.SIGWINCH)
            if self._alone is not None:
                self._alone.cancel()
            self.console.control(Control.show_cursor(True), Control.alt_screen(False))
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

    def show(self, lines: Sequence[Text]) -> None:
        """Show these lines, which must fit. Only lines that changed are written."""
        changed = [
            (row, line)
            for row, line in enumerate(lines)
            if row >= len(self._shown) or self._shown[row] != line or self._shown[row].spans != line.spans
        ]
        self._shown = list(lines)
        with self.console:  # one write
            for row, line in changed:
                self.console.control(Control.move_to(0, row), Control((ControlType.ERASE_IN_LINE, 2)))
                self.console.print(line, end="", no_wrap=True, crop=True, overflow="ellipsis")
        self.console.file.flush()

    def _resized(self) -> None:
        self._shown = []
        self.console.control(Control.clear(), Control.home())
        self._on_resize()

    def _typed(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 4_096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._on_key("q")
            return
        if self._alone is not None:
            self._alone.cancel()
            self._alone = None
        keys, self._rest = read_keys(self._rest + self._decoder.decode(data))
        for key in keys:
            self._on_key(key)
        if self._rest:
            self._alone = asyncio.get_running_loop().call_later(ESCAPE_S, self._give_up)

    def _give_up(self) -> None:
        """Take the beginning of a sequence, which nothing followed, as the Escape key."""
        self._rest = ""
        self._alone = None
        self._on_key("escape")
