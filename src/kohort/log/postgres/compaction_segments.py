"""Compaction with PostgreSQL: the rows of a new segment replace the old rows before its file replaces the old files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kohort.log.cluster import Fenced, PartitionId
from kohort.log.compaction_files import FileCompaction
from kohort.log.postgres.rows import replace_rows
from kohort.log.postgres.session import Session
from kohort.log.segment import Segment
from kohort.log.segment_files import SegmentFiles
from kohort.wire.batches import Buffer, read_header

_ROW_BYTES = 4 << 20


class RowCompaction(FileCompaction):
    """Implementation of `CompactionFiles` for a partition whose rows are authoritative."""

    def __init__(
        self,
        files: SegmentFiles,
        directory: Path,
        keep_sidecar: Callable[[Segment], None],
        session: Session,
        partition_id: PartitionId,
        epoch: int,
    ) -> None:
        directory.mkdir(exist_ok=True)  # absent until the first write
        super().__init__(files, directory, keep_sidecar)
        self._session = session
        self._partition_id = partition_id
        self._epoch = epoch
        self._base_offset = 0
        self._rows: list[tuple[int, bytearray]] = []
        """First offset and batches of each row to write."""

    def begin(self, base_offset: int) -> Segment:
        self._base_offset = base_offset
        self._rows = []
        return super().begin(base_offset)

    def write(self, parts: Sequence[Buffer]) -> None:
        for batch in parts:
            if not self._rows or len(self._rows[-1][1]) >= _ROW_BYTES:
                first = read_header(batch).base_offset if self._rows else self._base_offset
                self._rows.append((first, bytearray()))
            self._rows[-1][1].extend(batch)
        super().write(parts)

    def commit(self, end_offset: int) -> None:
        ends = [*(first for first, _ in self._rows[1:]), end_offset]
        rows = [
            (*self._partition_id, first, until, bytes(body))
            for (first, body), until in zip(self._rows, ends, strict=False)
        ]
        self._rows = []
        with self._session.doing() as connection:
            if not replace_rows(connection, self._partition_id, self._epoch, self._base_offset, end_offset, rows):
                raise Fenced(f"{self._partition_id} is another broker's")
        super().commit(end_offset)
