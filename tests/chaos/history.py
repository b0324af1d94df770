"""History of a run, one JSON object per line in the order of one clock, so that a run can be judged again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from kohort.model import Millis


class Entry(TypedDict, total=False):
    """One line. `kind` says which of the others it has.

    sent      producer, partition, value           about to be produced
    acked     producer, partition, value, offset   by a broker
    committing, committed   group, value           of a group that one committer alone commits for
    found     group, value, since                  what a look found that began at `since`
    assigned, revoked, lost   group, member, partitions; assigned may be hasty
    read      group, member, spans                 [partition, first, last] each
    wrong     group, member, what                  what a member saw that must not be
    failed    producer, what                        a record was not acknowledged
    bumped    producer, what                        it begins a new producer epoch by itself, for that reason
    stuck     group, what                           it does not come to the end of the log
    ended     member, what                          by itself
    unsure    group, what                           whether a commit was taken
    going     member                               it is about to be killed, or to leave
    killed    member                               it could not give up what it had
    removed   group, member, id, since             at the end, from the journal: by then a broker had removed a member
                                                   whose connection was closed at `since`
    waited    id, ms                               at the end, from a broker's log: so long was the connection of that
                                                   member closed when it was removed
    fault     what, node
    ready     what                                  a gateway that clients use has started
    log       partition, values, batches           at the end: every value, by offset from 0; of each batch its first
                                                   offset, leader epoch, producer id and producer epoch
    generation  group, number, owners              at the end, from the coordinator's records
    commits   group, partition, values             the same, in the order of the log
    epochs    group, problems                      the same, of a consumer group
    stands    group, partition, value              at the end, from the coordinator: what is committed
    topic     topic, id                            at the end: every topic that there is
    records   partition, data                      at the end: batches of the coordinators' topic in base64, in order
    """

    at: Millis
    kind: str
    producer: str
    group: str
    member: str
    partition: int
    partitions: list[int]
    hasty: bool
    spans: list[list[int]]
    value: int
    values: list[int]
    batches: list[list[int]]
    topic: str
    id: str
    data: str
    offset: int
    since: Millis
    ms: Millis
    number: int
    owners: dict[str, list[int]]
    problems: list[str]
    what: str
    node: int


def now_ms() -> Millis:
    """The clock of all entries, and of members' own lines."""
    return time.time_ns() // 1_000_000


class History:
    """Entries of many threads, in one file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self._lock = threading.Lock()

    def note(self, kind: str, /, *, at: Millis | None = None, **fields: Any) -> None:
        """Add an entry; it is in the file when this returns."""
        with self._lock:
            if not self._file.closed:
                entry = {"at": now_ms() if at is None else at, "kind": kind, **fields}
                self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")
                self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


def read_history(path: Path) -> Iterator[Entry]:
    """The entries of a file; a last line that is torn is left out."""
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                entry: Entry = json.loads(line)
                yield entry
