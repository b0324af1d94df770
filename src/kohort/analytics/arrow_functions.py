"""`mapInArrow` and `applyInArrow` without PySpark's warning about pandas, which they import and never use."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ArrowFunction = Callable[["Iterable[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]
"""Function from all batches of one task to batches."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Rows that a function computes from those of a frame. They need not become Spark's rows before they are stored."""

    frame: "DataFrame"
    function: ArrowFunction
    schema: str
    """Schema of the function's rows, as DDL of Spark."""

    def rows(self) -> "DataFrame":
        """Return the rows as a frame of Spark."""
        return mapped(self.frame, self.function, self.schema)


def mapped(frame: "DataFrame", function: ArrowFunction, schema: str) -> "DataFrame":
    """Apply a function to all batches of each partition of the frame."""
    with _without_warning():
        function_of_spark: Any = function
        return frame.mapInArrow(function_of_spark, schema)


def applied(frame: "DataFrame", key: str, function: "Callable[[pa.Table], pa.Table]", schema: str) -> "DataFrame":
    """Apply a function to the rows of each key, as one table per key."""
    with _without_warning():
        return frame.groupBy(key).applyInArrow(function, schema)


@contextlib.contextmanager
def _without_warning() -> Iterator[None]:
    """Suppress the warning. The filter applies to the whole process, so one thread at a time uses it."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


_one_at_a_time = threading.Lock()
