"""Which process a broker is, so that no other can be taken for it, and how it is ended.

A process id alone does not say: the kernel gives it to another process later, each container counts its own, and so
does each machine. With the time at which the process started, the namespace of its id and the boot of its machine it
names one process, or, for whoever runs elsewhere, none that it could reach.
"""

import os
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_START_TIME = 19
"""Where /proc/PID/stat has it, counted from behind the name of the program."""
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one machine."""

    process_id: int
    started_at: int
    """Clock ticks from the boot of the machine."""
    namespace: str
    """Of process ids: containers have different ones."""
    boot_id: str

    def is_reachable_from(self, other: "ProcessIdentity") -> bool:
        """Whether its id means this process to the other one, too, and both read the same clock."""
        own = self.boot_id, self.namespace
        return own == (other.boot_id, other.namespace) and _UNKNOWN not in own


class NotTheSameProcess(OSError):
    """The process cannot be ended: it is elsewhere, or its id belongs to another process now."""


@cache
def _identity_of(process_id: int) -> ProcessIdentity:
    boot_id = _read(_PROC / "sys/kernel/random/boot_id")
    try:
        namespace = str((_PROC / "self/ns/pid").readlink())
        started_at = _started_at(process_id)
    except (OSError, ValueError, IndexError):
        namespace, started_at = _UNKNOWN, 0
    return ProcessIdentity(process_id, started_at, namespace, boot_id)


def this_process() -> ProcessIdentity:
    """The identity of the process that asks."""
    return _identity_of(os.getpid())


def end(process: ProcessIdentity) -> None:
    """SIGKILL to that process and to no other. Raises NotTheSameProcess, ProcessLookupError, PermissionError."""
    if not process.is_reachable_from(this_process()):
        raise NotTheSameProcess("it runs in another container or on another machine")
    # The descriptor stands for one process, so the id cannot pass to another between the look and the signal.
    descriptor = os.pidfd_open(process.process_id)
    try:
        if _started_at(process.process_id) != process.started_at:
            raise NotTheSameProcess(f"process {process.process_id} is another one by now")
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _started_at(process_id: int) -> int:
    try:
        text = (_PROC / str(process_id) / "stat").read_text(errors="replace")
    except FileNotFoundError:
        raise ProcessLookupError(f"there is no process {process_id}") from None
    return int(text.rpartition(")")[2].split()[_START_TIME])


def _read(path: Path) -> str:
    try:
        return path.read_text().strip() or _UNKNOWN
    except OSError:
        return _UNKNOWN
