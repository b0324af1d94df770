"""Record batches v2 to Arrow columns and back, with loops compiled by numba.

`index_batches` finds the batches in fetched bytes: a row of numbers for each, of which `AT`, `END`,
`BASE_OFFSET`, `LAST_OFFSET`, `CRC` and `LEADER_EPOCH` are positions. A `Decoder` makes Arrow batches of
them in the pages of a `BufferPool`, and a `PartitionEncoder` does the reverse. `SCHEMA` and
`to_columns` need only pyarrow. Names load on demand, because numba takes a second to import.
"""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.columns.decoder import Batches, Decoder, has_log_append_time, index_batches
    from kohort.columns.encoder import Column, Columns, PartitionEncoder, columns_of, place_keys
    from kohort.columns.kernels import AT, BASE_OFFSET, CRC, END, LAST_OFFSET, LEADER_EPOCH, big_endian
    from kohort.columns.page import BufferPool
    from kohort.columns.schema import SCHEMA, to_columns
else:
    __getattr__ = on_demand(
        __name__,
        {
            "decoder": ("Batches", "Decoder", "has_log_append_time", "index_batches"),
            "encoder": ("Column", "Columns", "PartitionEncoder", "columns_of", "place_keys"),
            "kernels": ("AT", "BASE_OFFSET", "CRC", "END", "LAST_OFFSET", "LEADER_EPOCH", "big_endian"),
            "page": ("BufferPool",),
            "schema": ("SCHEMA", "to_columns"),
        },
    )

__all__ = [
    "AT",
    "BASE_OFFSET",
    "CRC",
    "END",
    "LAST_OFFSET",
    "LEADER_EPOCH",
    "SCHEMA",
    "Batches",
    "BufferPool",
    "Column",
    "Columns",
    "Decoder",
    "PartitionEncoder",
    "big_endian",
    "columns_of",
    "has_log_append_time",
    "index_batches",
    "place_keys",
    "to_columns",
]
