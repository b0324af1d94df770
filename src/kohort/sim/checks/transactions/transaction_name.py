"""Names of transactions: each record and each offset of a transaction has its name.

A name is that of the process and a number, such as `copier-0.2/17`. A record has the name, and the
value that was copied.
"""

from __future__ import annotations


def value_in(name: str, value: bytes) -> bytes:
    """Return the value of a copied record in that transaction."""
    return name.encode() + b"|" + value


def split(value: bytes) -> tuple[str, bytes]:
    """Return the transaction of a copied record, and the value that was copied."""
    name, _, copied = value.partition(b"|")
    return name.decode(), copied
