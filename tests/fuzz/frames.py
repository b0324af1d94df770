"""Frames as they went over a wire, kept in a file: an int32 size, whether it is a request, its bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

Frame = tuple[bool, bytes]
"""Whether it is a request, and the frame without its size; before a response stand its API and version (int16)."""

_HEAD = struct.Struct(">i?")


def write_frames(path: Path, frames: Iterable[Frame]) -> None:
    """Replace the file."""
    path.write_bytes(b"".join(_HEAD.pack(len(data), is_request) + data for is_request, data in frames))


def read_frames(path: Path) -> list[Frame]:
    """Return the frames that `write_frames` wrote."""
    data, at = path.read_bytes(), 0
    frames: list[Frame] = []
    while at < len(data):
        size, is_request = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        frames.append((is_request, data[at : at + size]))
        at += size
    return frames
