"""Names and keys as small numbers, by which columns are grouped, sorted and searched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def dense(first: Any, *others: Any) -> Any:
    """One number for each distinct row of these columns of numbers, counted from 0 in the order in which rows come.

    All but the first column must hold small numbers from 0 on.
    """
    found = _counted(first)
    for column in others:
        found = _counted(found * (int(column.max(initial=0)) + 1) + column)
    return found


def codes(column: pa.ChunkedArray[Any]) -> Any:
    """A number for each distinct text; a null is one of them."""
    encoded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64)


def ranks(column: Any) -> tuple[Any, int]:
    """Each number's place among the distinct ones in their order, and how many there are."""
    found, places = np.unique(column, return_inverse=True)
    return places.astype(np.int64), len(found)


def _counted(numbers: Any) -> Any:
    encoded: Any = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64)
