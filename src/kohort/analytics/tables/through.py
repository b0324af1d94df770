"""A view that Arrow functions make where SQL would sort and join too much."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ArrowFunction = Callable[["Iterable[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True, slots=True)
class Through:
    """The rows of `sql`, those of equal `by` in one place, through a function that gives rows of `schema`."""

    sql: str
    by: tuple[str, ...]
    function: ArrowFunction
    schema: str
