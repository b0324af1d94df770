"""Decisions of a query's sink, as files in the directory `kohort-sink` of its checkpoint.

`BATCH-NUMBER` has a decision, and `BATCH-NUMBER.ended` the outcomes of its transactions. A file is
complete and on disk before it has its name.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.requests import ProducerId
from pyspark_kohort.sink.decisions import Decision, Outcome, TaskOutput, Transaction

_VERSION = 1


class DecisionLog:
    """The decisions below one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._directory = checkpoint / "kohort-sink"

    def last(self) -> Decision | None:
        """Return the newest decision. Raises KohortError if a file is not this sink's."""
        names = self._decisions()
        if not names:
            return None
        file = self._directory / _name(*names[-1])
        try:
            decision = _decision_of(json.loads(file.read_text()))
            ended = file.with_name(f"{file.name}.ended")
            return decision.ended(_outcomes_of(json.loads(ended.read_text()))) if ended.exists() else decision
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise KohortError(f"{file} is no decision of this sink, or one of a newer version: {error!r}") from None

    def decide(self, decision: Decision) -> None:
        """Store a decision. Raises KohortError if another run of the query has made one in its place."""
        self._directory.mkdir(exist_ok=True)
        _sync(self._directory.parent)
        file = self._directory / _name(decision.batch, decision.number)
        draft = self._draft(_json_of(decision))
        try:
            os.link(draft, file)
        except FileExistsError:
            raise KohortError(
                f"Another run of this query has decided about micro-batch {decision.batch}: two queries use the same"
                " checkpoint, or a driver that was taken for dead continues. This run commits nothing."
            ) from None
        finally:
            draft.unlink()
        _sync(self._directory)

    def end(self, decision: Decision) -> None:
        """Store the outcomes of a decision's transactions, and delete older decisions."""
        assert decision.outcomes is not None
        name = _name(decision.batch, decision.number)
        text = json.dumps({str(task): outcome.value for task, outcome in decision.outcomes.items()})
        self._draft(text).replace(self._directory / f"{name}.ended")
        _sync(self._directory)
        for old in self._decisions():
            if old < (decision.batch, decision.number):
                for file in (_name(*old), f"{_name(*old)}.ended"):
                    with suppress(FileNotFoundError):
                        (self._directory / file).unlink()

    def _decisions(self) -> list[tuple[int, int]]:
        if not self._directory.is_dir():
            return []
        names = (entry.name.partition("-") for entry in self._directory.iterdir())
        return sorted(
            (int(batch), int(number)) for batch, _, number in names if batch.isdecimal() and number.isdecimal()
        )

    def _draft(self, text: str) -> Path:
        draft = self._directory / f".{uuid.uuid4().hex}"
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return draft


def _name(batch: int, number: int) -> str:
    return f"{batch}-{number}"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _json_of(decision: Decision) -> str:
    tasks: list[dict[str, Any]] = []
    for output in decision.outputs:
        entry: dict[str, Any] = {"task": output.task, "rows": dict(output.rows)}
        if (transaction := output.transaction) is not None:
            entry |= {"id": transaction.transactional_id, "producer": list(transaction.producer)}
            if transaction.place is not None:
                (topic, partition), offset = transaction.place
                entry["place"] = [topic, partition, offset]
        tasks.append(entry)
    return json.dumps(
        {
            "version": _VERSION,
            "batch": decision.batch,
            "number": decision.number,
            "committed_before": sorted(decision.committed_before),
            "tasks": tasks,
        }
    )


def _decision_of(data: Mapping[str, Any]) -> Decision:
    if data["version"] != _VERSION:
        raise ValueError(f"version {data['version']}")
    return Decision(
        data["batch"],
        data["number"],
        tuple(TaskOutput(entry["task"], entry["rows"], _transaction_of(entry)) for entry in data["tasks"]),
        frozenset(data["committed_before"]),
    )


def _transaction_of(entry: Mapping[str, Any]) -> Transaction | None:
    if "id" not in entry:
        return None
    place = None
    if "place" in entry:
        topic, partition, offset = entry["place"]
        place = TopicPartition(topic, partition), offset
    return Transaction(entry["id"], ProducerId(*entry["producer"]), place)


def _outcomes_of(data: Mapping[str, str]) -> dict[int, Outcome]:
    return {int(task): Outcome(outcome) for task, outcome in data.items()}
