"""The compiled way to unpack records, where `kohort[fast]` is installed.

Loading it takes a few tenths of a second, and compiling it, once per machine, some seconds. So a process loads it, in
a thread of its own, when a consumer has got the first large answer; until then, and for small answers, plain Python
does. KOHORT_FAST=0 in the environment keeps it away, KOHORT_FAST=1 loads it with the first consumer that fetches.
"""

import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kohort.client.unpacking import Chunk, PlainChunk
from kohort.errors import ConfigError
from kohort.model import TopicPartition
from kohort.wire.fetch import AbortedTransaction
from kohort.wire.records import Buffer

if TYPE_CHECKING:
    from kohort.client.compiled import ColumnChunk
    from kohort.columns.page import PagePool

_log = logging.getLogger(__name__)

_LARGE_BYTES = 64 * 1024
"""An answer that says that more will come, so that loading pays."""
_WORTH_BYTES = 4 * 1024
"""Below that the calls into compiled code cost more than the records do."""

_NEEDED = ("numba", "numpy", "pyarrow")
_HINT = "it needs the extra of compiled code: pip install 'kohort[fast]'."


class _Loading:
    """Once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: Future[type[ColumnChunk]] | None = None

    def loaded(self) -> "type[ColumnChunk] | None":
        """The way to unpack, when it is there."""
        begun = self._begun
        return begun.result() if begun is not None and begun.done() and begun.exception() is None else None

    def begin(self) -> "Future[type[ColumnChunk]]":
        """Load it, unless that has begun."""
        with self._lock:
            if self._begun is None:
                self._begun = Future()
                threading.Thread(target=self._load, args=(self._begun,), name="kohort-load").start()
            return self._begun

    def _load(self, begun: "Future[type[ColumnChunk]]") -> None:
        try:
            from kohort.client.compiled import ColumnChunk
        except Exception as problem:  # noqa: BLE001  whatever it is, plain Python does the work
            _log.warning("records are unpacked by plain Python: %s", problem)
            begun.set_exception(ConfigError(f"the compiled code of kohort[fast] cannot be loaded: {problem}"))
        else:
            begun.set_result(ColumnChunk)


_loading = _Loading()


def installed() -> bool:
    """Whether the extra is there and wanted."""
    return os.environ.get("KOHORT_FAST") != "0" and all(find_spec(name) is not None for name in _NEEDED)


def columns_loading(what: str) -> "Future[type[ColumnChunk]]":
    """Load it for `what`, which cannot do without. Raises ConfigError where it is not installed."""
    if not all(find_spec(name) is not None for name in _NEEDED):
        raise ConfigError(f"{what}: {_HINT}")
    return _loading.begin()


class Unpacker:
    """Of one consumer: makes chunks of what was fetched."""

    def __init__(self, *, check_crc: bool) -> None:
        self._check_crc = check_crc
        self._possible = installed()
        self._pages: PagePool | None = None
        if self._possible and os.environ.get("KOHORT_FAST") == "1":
            _loading.begin().result()

    def chunk(self, partition: TopicPartition, data: Buffer, aborted: Sequence[AbortedTransaction]) -> Chunk:
        """What one fetch brought of a partition. Raises BatchError."""
        if self._possible and len(data) >= _WORTH_BYTES:
            compiled = _loading.loaded()
            if compiled is not None:
                return compiled(partition, data, aborted, check_crc=self._check_crc, pages=self._page_pool())
            if len(data) >= _LARGE_BYTES:
                _loading.begin()
        return PlainChunk(partition, data, aborted, check_crc=self._check_crc)

    def _page_pool(self) -> "PagePool":
        if self._pages is None:
            from kohort.columns.page import PagePool

            self._pages = PagePool()
        return self._pages
