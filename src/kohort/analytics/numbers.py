"""Encoding of names and keys as small numbers, by which columns are grouped, sorted and searched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def dense(first: Any, *others: Any) -> Any:
    """Return one number for each distinct row of these numeric columns, counted from 0 in order of first appearance.

    All columns but the first must hold small numbers that are not negative.
    """
    found = _counted(first)
    for column in others:
        found = _counted(found * (int(column.max(initial=0)) + 1) + column)
    return found


def codes(column: pa.ChunkedArray[Any]) -> Any:
    """Return a number for each distinct text; null counts as a text."""
    encoded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64)


def ranks(column: Any) -> tuple[Any, int]:
    """Return each number's rank among the distinct numbers, and the count of distinct numbers."""
    found, places = np.unique(column, return_inverse=True)
    return places.astype(np.int64), len(found)


def _counted(numbers: Any) -> Any:
    encoded: Any = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64)
