"""What a query's checkpoint directory proves, for the moments at which Spark does not ask us.

Spark writes `offsets/N` before batch N and `commits/N` after it, and does not tell a source where: the user repeats
`checkpointLocation` as an option of the source. Only directories of this host are read.
"""

import json
from pathlib import Path
from typing import Any

from kohort.errors import ConfigError


def directory(location: str | None) -> Path | None:
    """The local directory of a checkpoint location; None for one elsewhere."""
    if location is None:
        return None
    scheme, colon, rest = location.partition(":")
    if not colon:
        return Path(location)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def has_done(checkpoint: Path, end: dict[str, Any]) -> bool:
    """Whether the newest batch that is marked as done ended there; so it does when Spark asks for the next one."""
    return end in last_done(checkpoint)


def query_id(checkpoint: Path) -> str:
    """The query's id, which a restart keeps; Spark has written it before it asks a source for anything."""
    try:
        found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{checkpoint} is not this query's checkpoint: it has no query id. staticMembership (the source's option"
            " checkpointLocation) and exactly_once need the one of the query, on the driver's own file system."
        ) from None
    return found


def last_done(checkpoint: Path) -> list[dict[str, Any]]:
    """The sources' end offsets of the newest batch that Spark has marked as done; none where nothing is."""
    try:
        done = [int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]
        if not done:
            return []
        return planned(checkpoint, max(done))
    except (OSError, ValueError):
        return []  # not there yet, or pruned while we looked


def planned(checkpoint: Path, batch: int) -> list[dict[str, Any]]:
    """The sources' end offsets of a batch that Spark has begun. Raises OSError or ValueError where it has not."""
    # A version, a line about the batch, then a line for each source; a dash where it gave nothing.
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]
    return [json.loads(line) for line in lines if line != "-"]
