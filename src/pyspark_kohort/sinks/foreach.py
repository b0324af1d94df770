"""From a streaming query to a sink, micro-batch by micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.errors import ConfigError
from kohort.model import TopicPartition
from pyspark_kohort import checkpoint
from pyspark_kohort.offsets import offset_from_json
from pyspark_kohort.sinks.fence import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)


def exactly_once(sink: Sink, checkpoint_location: str) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` is given. The location is the query's own checkpoint, which says by which epoch it writes.

    A micro-batch is gathered in the driver and must fit there: maxOffsetsPerTrigger bounds it. Raises ConfigError for
    a checkpoint that is not on the driver's file system.
    """
    home = checkpoint.directory(checkpoint_location)
    if home is None:
        raise ConfigError(
            f"{checkpoint_location} is not on this file system, so nothing says who may write: use file:."
        )

    def write(frame: DataFrame, batch_id: int) -> None:
        rows = frame.toArrow()
        if not rows.num_rows:
            return
        epochs: dict[TopicPartition, int] = {}
        for planned in checkpoint.planned(home, batch_id):
            offset = offset_from_json(planned)
            epochs |= dict.fromkeys(offset.positions, offset.epoch or 0)
        written = sink.write(rows, epochs)
        if written < rows.num_rows:
            _log.info("batch %d: %d of %d rows are new", batch_id, written, rows.num_rows)

    return write
