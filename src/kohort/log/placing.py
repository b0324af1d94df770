"""Set the base offsets and leader epochs of batches, without a copy of large ones."""

from kohort.wire.batches import BatchHeader, Buffer, batches, place, read_header

_PATCHED = 16
"""Bytes from a batch's start up to and including its leader epoch: all that an append changes."""
_COPIED_BELOW = 32 * 1024


def place_batches(data: Buffer, base_offset: int, leader_epoch: int) -> tuple[list[Buffer], list[BatchHeader]]:
    """Set the batches' base offsets and leader epoch; return the bytes and the headers."""
    if not isinstance(data, bytearray):
        if len(data) >= _COPIED_BELOW:
            return _place_apart(memoryview(data), base_offset, leader_epoch)
        data = bytearray(data)
    only = read_header(data)
    if only.size == len(data):  # the usual case: producers and coordinators send one batch
        place(data, base_offset, leader_epoch)
        return [data], [only._replace(base_offset=base_offset, leader_epoch=leader_epoch)]
    headers = []
    for position, header in batches(data):
        place(data, base_offset, leader_epoch, position)
        headers.append(header._replace(base_offset=base_offset, leader_epoch=leader_epoch))
        base_offset = headers[-1].next_offset
    return [data], headers


def _place_apart(data: memoryview, base_offset: int, leader_epoch: int) -> tuple[list[Buffer], list[BatchHeader]]:
    """Do the same for many bytes that must not change: only the first 16 bytes of each batch are copied."""
    parts: list[Buffer] = []
    headers = []
    for position, header in batches(data):
        start = bytearray(data[position : position + _PATCHED])
        place(start, base_offset, leader_epoch)
        parts += (start, data[position + _PATCHED : position + header.size])
        headers.append(header._replace(base_offset=base_offset, leader_epoch=leader_epoch))
        base_offset = headers[-1].next_offset
    return parts, headers
