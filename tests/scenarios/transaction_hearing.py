"""What a consumer sees of a partition with transactions, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kohort.wire.batches import batches, decode_records, read_marker


def shown(fetched: Any, number: Callable[[int], str], aborted: set[tuple[int, int]] | None = None) -> Iterator[str]:
    """Return values and markers with their offsets; or only the values, without those of aborted transactions.

    `aborted` has the producer IDs and first offsets of aborted transactions, as the response to Fetch lists them.
    """
    data = bytes(fetched.records or b"")
    left_out: set[int] = set()
    for position, header in batches(data):
        left_out |= {producer_id for producer_id, first in aborted or () if first == header.base_offset}
        if header.is_control:
            marker = read_marker(data[position : position + header.size])
            assert marker is not None
            if not marker.committed:
                left_out.discard(header.producer_id)
            if aborted is None:
                how = "commit" if marker.committed else "abort"
                yield f"[{how} {number(header.producer_id)}]@{header.base_offset}"
        elif header.producer_id not in left_out:
            for at, record in enumerate(decode_records(memoryview(data)[position:])):
                yield f"{(record.value or b'').decode()}@{header.base_offset + at}"
