"""Progress of a query, read from its checkpoint directory when Spark does not report it to the source.

Spark writes `offsets/N` before batch N and `commits/N` after it. It does not pass the location to a
source, so the user repeats `checkpointLocation` as an option of the source. Only directories on this
host are read.
"""

import json
from pathlib import Path
from typing import Any

from kohort.errors import ConfigError


def directory(location: str | None) -> Path | None:
    """Return the local directory of a checkpoint location, or None if the location is not on this host."""
    if location is None:
        return None
    scheme, colon, rest = location.partition(":")
    if not colon:
        return Path(location)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def has_done(checkpoint: Path, end: dict[str, Any]) -> bool:
    """Return whether the newest completed batch ended at `end`.

    This is always the case when Spark asks for the next batch.
    """
    return end in last_done(checkpoint)


def query_id(checkpoint: Path) -> str:
    """Return the query's id, which is the same after a restart.

    Spark writes it before it calls a source for the first time. Raises ConfigError if the directory
    has no query id.
    """
    try:
        found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{checkpoint} is not this query's checkpoint: it has no query id. staticMembership (the source's option"
            " checkpointLocation), kafka.transactional.id (the sink's) and exactly_once need the one of the query, on"
            " the driver's own file system."
        ) from None
    return found


def last_done(checkpoint: Path) -> list[dict[str, Any]]:
    """Return the sources' end offsets of the newest completed batch, or an empty list if no batch is complete."""
    try:
        done = newest_done(checkpoint)
        return [] if done is None else planned(checkpoint, done)
    except (OSError, ValueError):
        return []  # the file does not exist yet, or Spark pruned it during the read


def newest_done(checkpoint: Path) -> int | None:
    """Return the number of the newest completed batch; None if no batch is complete. Raises OSError."""
    commits = checkpoint / "commits"
    if not commits.is_dir():
        return None
    return max((int(file.name) for file in commits.iterdir() if file.name.isdigit()), default=None)


def planned(checkpoint: Path, batch: int) -> list[dict[str, Any]]:
    """Return the sources' end offsets of a batch that Spark has begun.

    Raises OSError or ValueError if Spark has not begun the batch.
    """
    # A version, a line about the batch, then one line per source; a dash for a source without an offset.
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]
    return [json.loads(line) for line in lines if line != "-"]
