"""Selection between compiled and plain-Python unpacking of records.

The compiled code needs the extra `fast`. Loading it takes a few tenths of a second;
compiling it, once per machine, takes some seconds. A process therefore loads it in a separate
thread when a consumer receives its first large response. Until then, and for small responses, plain
Python unpacks the records. KOHORT_FAST=0 in the environment disables the compiled code;
KOHORT_FAST=1 loads it with the first consumer that fetches.
"""

import ctypes
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kohort.client.consume.unpacking import Chunk, PlainChunk
from kohort.errors import ConfigError, install_extra
from kohort.model import TopicPartition
from kohort.wire.batches import Buffer
from kohort.wire.messages.fetch import AbortedTransaction

if TYPE_CHECKING:
    from kohort.client.consume.compiled import ColumnChunk
    from kohort.columns import BufferPool

_log = logging.getLogger(__name__)

_LARGE_BYTES = 64 * 1024
"""Response size from which more data is likely to follow, so that loading the compiled code pays off."""
_WORTH_BYTES = 4 * 1024
"""Response size below which calls into compiled code cost more than they save."""

_LOOK_S = 0.1
"""Interval at which a process that loads is seen to end."""

_NEEDED = ("numba", "numpy", "pyarrow")
_HINT = f"they need compiled code, which is not installed: {install_extra('fast')}."


class _Loading:
    """State of loading the compiled code, one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: Future[type[ColumnChunk]] | None = None

    def loaded(self) -> "type[ColumnChunk] | None":
        """Return the compiled chunk class, or None while it is not loaded."""
        begun = self._begun
        return begun.result() if begun is not None and begun.done() and begun.exception() is None else None

    def begin(self) -> "Future[type[ColumnChunk]]":
        """Start loading the compiled code unless that has already started."""
        with self._lock:
            if self._begun is None:
                self._begun = Future()
                loading = threading.Thread(target=self._load, args=(self._begun,), name="kohort-load")
                loading.start()
                threading.Thread(target=_end_with_process, args=(loading,), name="kohort-load-end").start()
            return self._begun

    def _load(self, begun: "Future[type[ColumnChunk]]") -> None:
        try:
            from kohort.client.consume.compiled import ColumnChunk
        except Exception as problem:  # noqa: BLE001  plain Python takes over after any failure
            _log.warning("records are decoded by plain Python: %s", problem)
            begun.set_exception(ConfigError(f"the compiled code of the extra `fast` cannot be loaded: {problem}"))
        else:
            begun.set_result(ColumnChunk)


def _end_with_process(loading: threading.Thread) -> None:
    """End a thread that loads when it is the last one of the process, which would have to wait for it.

    A thread that compiles must not be a daemon: it would run on while the process takes its libraries down.
    """
    own = (loading, threading.current_thread())
    while loading.is_alive():
        loading.join(_LOOK_S)
        if all(thread.daemon or thread in own or not thread.is_alive() for thread in threading.enumerate()):
            # It is raised between two calls of the compiler.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(loading.ident or 0), ctypes.py_object(SystemExit))
            return


_loading = _Loading()


def installed() -> bool:
    """Return whether the extra is installed and not disabled."""
    return os.environ.get("KOHORT_FAST") != "0" and all(find_spec(name) is not None for name in _NEEDED)


def columns_loading(what: str) -> "Future[type[ColumnChunk]]":
    """Load the compiled code for `what`, which requires it.

    Raises ConfigError if the extra is not installed.
    """
    if not all(find_spec(name) is not None for name in _NEEDED):
        raise ConfigError(f"{what}: {_HINT}")
    return _loading.begin()


class Unpacker:
    """Factory of one consumer that turns fetched bytes into chunks."""

    def __init__(self, *, check_crc: bool) -> None:
        self._check_crc = check_crc
        self._possible = installed()
        self._pages: BufferPool | None = None
        self.values_only = False
        """Whether the application polls only values. Loading compiled code takes as long as decoding a million."""
        if self._possible and os.environ.get("KOHORT_FAST") == "1":
            _loading.begin().result()

    def chunk(self, partition: TopicPartition, data: Buffer, aborted: Sequence[AbortedTransaction]) -> Chunk:
        """Return a chunk of the bytes that one fetch returned for a partition. Raises BatchError."""
        if self._possible and not self.values_only and len(data) >= _WORTH_BYTES:
            compiled = _loading.loaded()
            if compiled is not None:
                return compiled(partition, data, aborted, check_crc=self._check_crc, pages=self._page_pool())
            if len(data) >= _LARGE_BYTES:
                _loading.begin()
        return PlainChunk(partition, data, aborted, check_crc=self._check_crc)

    def _page_pool(self) -> "BufferPool":
        if self._pages is None:
            from kohort.columns import BufferPool

            self._pages = BufferPool()
        return self._pages
