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
"""All batches of one task."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Rows that a function makes of a frame's, which need not be Spark's rows before they are kept."""

    frame: "DataFrame"
    function: ArrowFunction
    schema: str
    """Of the function's rows, as Spark's DDL."""

    def rows(self) -> "DataFrame":
        """As Spark's."""
        return mapped(self.frame, self.function, self.schema)


def mapped(frame: "DataFrame", function: ArrowFunction, schema: str) -> "DataFrame":
    """All batches of each of the frame's partitions through a function."""
    with _without_warning():
        function_of_spark: Any = function
        return frame.mapInArrow(function_of_spark, schema)


def applied(frame: "DataFrame", key: str, function: "Callable[[pa.Table], pa.Table]", schema: str) -> "DataFrame":
    """All rows of each key, as one table, through a function."""
    with _without_warning():
        return frame.groupBy(key).applyInArrow(function, schema)


@contextlib.contextmanager
def _without_warning() -> Iterator[None]:
    """What is ignored holds for the whole process, so one thread at a time."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


_one_at_a_time = threading.Lock()
