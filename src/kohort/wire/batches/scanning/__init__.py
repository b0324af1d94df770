"""Scans of stored batches, without an object per record: to load a group's log, and to compact a log.

`decode_pairs` returns keys and values. `scan_records` returns what compaction looks at, and
`with_records` makes a batch of those that it keeps.
"""

from kohort.wire.batches.scanning.record_filter import Scanned, scan_records, with_records
from kohort.wire.batches.scanning.record_pairs import Pair, decode_pairs

__all__ = ["Pair", "Scanned", "decode_pairs", "scan_records", "with_records"]
