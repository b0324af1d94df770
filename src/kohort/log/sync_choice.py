"""Choose between one fdatasync per dirty file and one syncfs for all: what is durable, and what is cheaper."""

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path

_MEANS_DURABLE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "btrfs", "overlay", "tmpfs"})
"""File systems whose syncfs writes everything and waits for the disk. A FUSE server may not receive the call."""
_REPORTS_ERRORS_FROM = (5, 8)
"""First Linux version whose syncfs reports write errors."""

SyncFs = Callable[[int], None]


class SyncChoice:
    """Chooses by the recent durations of both.

    syncfs takes about as long as a few fdatasync calls if no other process writes, and any time if
    others write.
    """

    __slots__ = ("_can_sync_together", "_each", "_together")

    def __init__(self, *, can_sync_together: bool, each: float = 0.0002, together: float = 0.0008) -> None:
        """Create a choice; `each` and `together` are initial estimates in seconds."""
        self._can_sync_together = can_sync_together
        self._each = each
        self._together = together

    def prefers_syncfs(self, files: int) -> bool:
        """Return whether one sync of the whole file system is cheaper for that number of files."""
        if not self._can_sync_together or files == 1:
            return False
        if files * self._each > self._together:
            return True
        self._together *= 0.99  # so that one slow call is forgotten eventually
        return False

    def syncfs_took(self, seconds: float) -> None:
        """Update the estimate for the whole file system by a measured duration."""
        self._together += 0.2 * (seconds - self._together)

    def fdatasyncs_took(self, seconds: float, files: int) -> None:
        """Update the estimate per file by the measured duration of that number of fdatasync calls."""
        self._each += 0.2 * (seconds / files - self._each)


def syncfs_of(path: Path) -> SyncFs | None:
    """Return a syncfs that raises OSError; None if it would not make everything under `path` durable.

    Python 3.11 has no os.syncfs.
    """
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < _REPORTS_ERRORS_FROM:
        return None
    if file_system_of(path) not in _MEANS_DURABLE:
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def syncfs(descriptor: int) -> None:
        if call(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))

    return syncfs


def file_system_of(path: Path, mounts: str = "/proc/self/mountinfo") -> str | None:
    """Return the type of the file system that contains `path`, for example "ext4"; None if unknown."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path(mounts).read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == wanted:
            return rest.split()[0]
    return None
