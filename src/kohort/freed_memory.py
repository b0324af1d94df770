"""Memory that a server has freed stays with its process, up to a limit, where the C library can be told so."""

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 64 << 20
"""Free memory at the end of the heap that the process keeps."""
_LARGEST_ON_HEAP = 32 << 20
"""Larger buffers are mapped one by one; glibc accepts no larger value on 64 bits."""


def keep_freed_memory() -> None:
    """Keep the buffers of requests and answers of megabytes, unless the environment sets this of glibc itself.

    By default, glibc returns them to the kernel when they are freed, depending on what lies behind them on the heap, so
    some processes get each page anew for each request: encrypted fetches took twice the CPU time
    (`bench/bench_tls.py`). Other C libraries, such as musl and macOS's, have no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and not _is_set_by_environment():
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _is_set_by_environment() -> bool:
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    return any(name in os.environ for name in names) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")
