"""Raw data as Parquet: the members' events and the measures derived from them, for further analysis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kohort.errors import KohortError, install_extra
from kohort.lab.events import Assigned, Committed, Event, Lost, Read, Revoked
from kohort.lab.measure import measure
from kohort.lab.trial import Outcome


def write_parquet(outcomes: Iterable[Outcome], out: Path) -> list[Path]:
    """Write `events.parquet`, `dark.parquet` and `triggers.parquet`, and return their paths.

    Times are seconds since the trial's first trigger. Raises KohortError without pyarrow.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise KohortError(f"Parquet needs pyarrow: {install_extra('lab')}.") from missing
    listed = list(outcomes)
    written = []
    for name, rows in (("events", _events(listed)), ("dark", _dark(listed)), ("triggers", _triggers(listed))):
        path = out / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        written.append(path)
    return written


def _events(outcomes: Iterable[Outcome]) -> Iterator[dict[str, Any]]:
    """Yield one row per event and partition.

    `first` and `last` are the offsets of a run of records; for a commit, `last` is the last
    committed record.
    """
    for outcome in outcomes:
        begin = outcome.triggers[0].at
        for event in outcome.events:
            at = (event.at - begin) / 1e9
            row = {**_of(outcome), "at_s": at, "member": event.member, "event": type(event).__name__.lower()}
            for partition, first, last in _places(event):
                yield {**row, "partition": partition, "first": first, "last": last}


def _places(event: Event) -> list[tuple[int | None, int | None, int | None]]:
    match event:
        case Read():
            return list(event.runs)
        case Committed():
            return [(partition, None, end - 1) for partition, end in event.ends]
        case Assigned() | Revoked() | Lost():
            return [(partition, None, None) for partition in event.partitions]
    return [(None, None, None)]


def _dark(outcomes: Iterable[Outcome]) -> Iterator[dict[str, Any]]:
    for outcome in outcomes:
        begin = outcome.triggers[0].at
        for dark in measure(outcome.events, outcome.triggers).dark:
            yield {
                **_of(outcome),
                "partition": dark.partition,
                "begin_s": (dark.begin - begin) / 1e9,
                "end_s": (dark.end - begin) / 1e9,
                "before": dark.before,
                "after": dark.after,
            }


def _triggers(outcomes: Iterable[Outcome]) -> Iterator[dict[str, Any]]:
    for outcome in outcomes:
        begin = outcome.triggers[0].at
        for trigger in outcome.triggers:
            settled = None if trigger.settled_at is None else (trigger.settled_at - begin) / 1e9
            yield {**_of(outcome), "at_s": (trigger.at - begin) / 1e9, "what": trigger.what, "settled_s": settled}


def _of(outcome: Outcome) -> dict[str, Any]:
    trial = outcome.trial
    return {
        "experiment": trial.title,
        "scenario": trial.scenario,
        "broker": trial.broker,
        "client": trial.client,
        "protocol": trial.protocol,
        "repetition": trial.repetition,
    }
