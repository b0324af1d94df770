"""Binary encoding of PostgreSQL arrays.

As text, the dozen arrays of an append would take longer than the rest of it.
"""

import struct
from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any

from psycopg import pq
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper

from kohort.model import UUID

_header = struct.Struct(">iiIii").pack
"""Number of dimensions, whether there are nulls, element type, element count, index of the first element."""
_UUID, _INT4, _INT8, _BYTEA = 2950, 23, 20, 17
_length = struct.Struct(">i").pack


class Uuids(list[UUID]):
    """A `uuid[]`."""


class Int4s(list[int]):
    """An `int[]`."""


class Int8s(list[int]):
    """A `bigint[]`."""


class Byteas(list[bytes]):
    """A `bytea[]`."""


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY
    element: int

    def dump(self, obj: Sequence[Any]) -> bytes:
        return _header(1, 0, self.element, len(obj), 1) + self.elements(obj)

    @abstractmethod
    def elements(self, obj: Sequence[Any]) -> bytes:
        """Return each element after its length."""


class _UuidsDumper(_ArrayDumper):
    element, oid = _UUID, 2951

    def elements(self, obj: Sequence[UUID]) -> bytes:
        length = _length(16)
        return b"".join([length + value.bytes for value in obj])


class _Int4sDumper(_ArrayDumper):
    element, oid = _INT4, 1007

    def elements(self, obj: Sequence[int]) -> bytes:
        return struct.pack(f">{2 * len(obj)}i", *chain.from_iterable((4, value) for value in obj))


class _Int8sDumper(_ArrayDumper):
    element, oid = _INT8, 1016

    def elements(self, obj: Sequence[int]) -> bytes:
        return struct.pack(">" + "iq" * len(obj), *chain.from_iterable((8, value) for value in obj))


class _ByteasDumper(_ArrayDumper):
    element, oid = _BYTEA, 1001

    def elements(self, obj: Sequence[bytes]) -> bytes:
        return b"".join(chain.from_iterable((_length(len(value)), value) for value in obj))


def register(context: AdaptContext) -> None:
    """Register the encodings with a connection."""
    assert context.adapters is not None
    for kind, dumper in (
        (Uuids, _UuidsDumper),
        (Int4s, _Int4sDumper),
        (Int8s, _Int8sDumper),
        (Byteas, _ByteasDumper),
    ):
        context.adapters.register_dumper(kind, dumper)
