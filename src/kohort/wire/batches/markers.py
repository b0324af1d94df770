"""Transaction markers: control batches of one record that end a producer's transaction in a partition (KIP-98)."""

from struct import Struct as Packer
from struct import error as StructError
from typing import NamedTuple

from kohort.model import Millis
from kohort.wire.batches.compression import BatchError, Buffer
from kohort.wire.batches.record_reader import Record, decode_records
from kohort.wire.batches.record_writer import encode_batch

_KEY = Packer(">hh")
"""Version and type."""
_VALUE = Packer(">hi")
"""Version and coordinator epoch."""
_ABORT, _COMMIT = 0, 1


class Marker(NamedTuple):
    """End of a transaction."""

    committed: bool
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition of `__transaction_state`."""


def encode_marker(producer_id: int, producer_epoch: int, marker: Marker, timestamp: Millis) -> bytearray:
    """Return the batch of a marker."""
    key = _KEY.pack(0, _COMMIT if marker.committed else _ABORT)
    record = Record(0, timestamp, key, _VALUE.pack(0, marker.coordinator_epoch), ())
    return encode_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def read_marker(batch: Buffer) -> Marker | None:
    """Read the control batch at the start of `batch`; return None if it is no transaction marker."""
    try:
        [record] = decode_records(batch)
        _, kind = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except (BatchError, StructError, ValueError):
        return None
    return Marker(kind == _COMMIT, coordinator_epoch) if kind in (_ABORT, _COMMIT) else None
