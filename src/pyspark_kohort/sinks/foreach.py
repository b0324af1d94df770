"""Connection of a streaming query to a sink, micro-batch by micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.errors import ConfigError, KohortError
from kohort.model import TopicPartition
from pyspark_kohort import checkpoint
from pyspark_kohort.offsets import Claim, Offset, offset_from_json
from pyspark_kohort.sinks.fence import QueryClaim, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

_EPOCHS = 2**32
"""Factor greater than the number of generations, or member epochs, of one claim."""


def exactly_once(sink: Sink, checkpoint_location: str, *, take_over: bool = False) -> Callable[[DataFrame, int], None]:
    """Return the function to pass to `foreachBatch`.

    `checkpoint_location` is the query's own checkpoint, which identifies the writer. With
    `take_over`, rows in the sink from other groups and queries, and from Kohort 0.1, are assumed to
    be the records that this query reads: it continues after them.

    A micro-batch is collected in the driver and must fit into its memory; maxOffsetsPerTrigger
    bounds it. Raises ConfigError if the checkpoint is not on the driver's file system.
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
        written = sink.write(rows, _writers(home, batch_id, take_over=take_over))
        if written < rows.num_rows:
            _log.warning(
                "batch %d: %d of %d rows were written. The sink has the others from an earlier run of the batch, or"
                " their partitions belong to another query by now.",
                batch_id,
                written,
                rows.num_rows,
            )

    return write


def _writers(home: Path, batch_id: int, *, take_over: bool) -> dict[TopicPartition, QueryClaim]:
    """Return the writer of each partition of the batch as it was planned; a replay has the same writer."""
    try:
        planned = checkpoint.planned(home, batch_id)
    except (OSError, ValueError):
        raise ConfigError(
            f"{home} has no micro-batch {batch_id}: it is not this query's checkpoint. exactly_once needs the"
            " checkpointLocation of the query that calls it."
        ) from None
    found: dict[TopicPartition, QueryClaim] = {}
    for offset in map(offset_from_json, planned):
        for tp in offset.positions:
            if tp in found:
                raise KohortError(
                    f"Two sources of the query read {tp}: exactly once needs each partition from one source."
                )
            owner, number = _owner(home, batch_id, offset, offset.claims.get(tp))
            found[tp] = QueryClaim(owner, number, offset.topic_ids.get(tp.topic), take_over)
    return found


def _owner(home: Path, batch_id: int, offset: Offset, claim: Claim | None) -> tuple[str, int]:
    if offset.group is None:
        # A driver that was presumed dead may write a batch late. A later batch is planned when it is in the
        # store.
        return f"query {checkpoint.query_id(home)}", batch_id
    if claim is None:  # planned by Kohort 0.1
        return f"group {offset.group}", offset.epoch or 0
    return f"group {offset.group} ({claim.root})", claim.number * _EPOCHS + (offset.epoch or 0)
