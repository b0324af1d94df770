"""Unique identity of a broker's process, and a way to kill exactly that process.

A process ID alone is not unique: the kernel reuses it, and each container and each machine has its
own. Together with the process's start time, the PID namespace and the machine's boot ID it
identifies one process. For a process in another namespace or on another machine, it identifies none
that it could signal.
"""

import os
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_START_TIME = 19
"""Position of the start time in /proc/PID/stat, counted from the field after the program's name."""
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one machine."""

    process_id: int
    started_at: int
    """Clock ticks since the machine booted."""
    namespace: str
    """PID namespace: it differs between containers."""
    boot_id: str

    def is_reachable_from(self, other: "ProcessIdentity") -> bool:
        """Return whether `other` runs where this process has the same process ID and the same clock."""
        own = self.boot_id, self.namespace
        return own == (other.boot_id, other.namespace) and _UNKNOWN not in own


class NotTheSameProcess(OSError):
    """The process cannot be killed: it is elsewhere, or its ID belongs to another process now."""


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
    """Return the identity of the calling process."""
    return _identity_of(os.getpid())


def kill_process(process: ProcessIdentity) -> None:
    """Send SIGKILL to that process and to no other.

    Raises NotTheSameProcess, ProcessLookupError, PermissionError.
    """
    if not process.is_reachable_from(this_process()):
        raise NotTheSameProcess("it runs in another container or on another machine")
    # The pidfd refers to one process, so the ID cannot be reused between the check and the signal.
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
