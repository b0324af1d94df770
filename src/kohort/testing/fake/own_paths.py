"""The paths under /kohort/: what `kcl fake --control` does not have.

    GET     /kohort                        these paths, each with the members of its request
    POST    /kohort/time/advance           let time pass for the brokers' timers at once
    POST    /kohort/time/scale             let one second count as several
    POST    /kohort/faults                 faults with all selectors and actions of the kit
    POST    /kohort/faults/{id}/release    let what a fault holds go on
    POST    /kohort/members/expire         end a member's session
    POST    /kohort/members/fence          let another process take over an instance ID
    POST    /kohort/coordinators/move      move the coordinator of a group
    POST    /kohort/coordinators/load      let the coordinator of a group load for a time
    POST    /kohort/leaders/move           move the leader of a partition
    POST    /kohort/topics/grow            add partitions
    POST    /kohort/topics/recreate        delete a topic and make another one under its name
    POST    /kohort/disks/slow             let syncs take longer
    POST    /kohort/disks/fill             let writes fail for want of space
    POST    /kohort/disks/fail             let writes fail with an I/O error
    DELETE  /kohort/disks                  let the disks work again
    POST    /kohort/snapshots              keep the contents of a broker in memory
    POST    /kohort/snapshots/{id}/restore return to them
    DELETE  /kohort/snapshots/{id}         forget them
    GET     /kohort/journal                the rebalances of all groups, and their causes
    GET     /kohort/journal/{group}        those of one group
    GET     /kohort/invariants             what the brokers or their clients have violated
    DELETE  /kohort/invariants             forget the violations so far

Durations are texts such as "45s", as in the other paths.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from kohort.errors import ConfigError, KafkaError, KohortError
from kohort.testing.controlled import Undoable
from kohort.testing.fake.cluster import FakeCluster
from kohort.testing.fake.fault_sets import FaultSets
from kohort.testing.fake.go_values import (
    BOOL,
    FLOAT,
    INT,
    STRING,
    GoError,
    GoType,
    ListOf,
    Pointer,
    Struct,
    parse_duration,
    parse_json,
    quote,
)
from kohort.testing.fake.http import Problem, Request, Route, usage
from kohort.testing.rules import Selectors, rule_of
from kohort.testing.snapshots import Snapshot

_FAULT: Mapping[str, GoType] = {
    "keys": ListOf(STRING),
    "versions": ListOf(INT),
    "nodes": ListOf(INT),
    "client_id": STRING,
    "connection": INT,
    "topic": STRING,
    "topic_id": STRING,
    "partitions": ListOf(INT),
    "group": STRING,
    "member": STRING,
    "instance_id": STRING,
    "txn_id": STRING,
    "resource": STRING,
    "top_level": BOOL,
    "nth": INT,
    "count": INT,
    "error": STRING,
    "drop": BOOL,
    "delay": STRING,
    "hold": BOOL,
    "duplicate": BOOL,
    "close": BOOL,
    "cut": INT,
    "observe": BOOL,
    "when": STRING,
}
_MOST_SNAPSHOTS = 100
_LONGEST_ID = 18
_HALF = -1
"""As `cut`: half of the answer."""
_RULE = Struct("rule", {name: Pointer(kind) for name, kind in _FAULT.items()}, {})


@dataclass(frozen=True, slots=True)
class _Path:
    """One path: its request, and what it does."""

    method: str
    path: str
    form: Struct | None
    handle: Callable[..., Any]
    """Called with the parts of the path and the members of the request."""


def _form(**members: GoType) -> Struct:
    return Struct("request", members, {})


class OwnPaths:
    """What the paths of one cluster do."""

    def __init__(self, cluster: FakeCluster, faults: FaultSets) -> None:
        self._cluster = cluster
        self._faults = faults
        self._disks: list[Undoable] = []
        self._snapshots: dict[int, Snapshot] = {}
        self._last_snapshot = 0
        duration, group, topic = STRING, STRING, STRING
        maybe = Pointer(INT)
        outage = _form(node=maybe, duration=Pointer(STRING))
        slowness = _form(sync=duration, node=maybe, duration=Pointer(STRING))
        self._paths = (
            _Path("GET", "/kohort", None, self._help),
            _Path("POST", "/kohort/time/advance", _form(by=duration, dead=ListOf(STRING)), self._advance),
            _Path("POST", "/kohort/time/scale", _form(rate=FLOAT), self._scale),
            _Path("POST", "/kohort/faults", _form(rules=ListOf(_RULE)), self._add_faults),
            _Path("POST", "/kohort/faults/{id}/release", None, self._release),
            _Path("POST", "/kohort/members/expire", _form(group=group, member=STRING), self._expire),
            _Path("POST", "/kohort/members/fence", _form(group=group, instance_id=STRING), self._fence),
            _Path("POST", "/kohort/coordinators/move", _form(group=group, to=maybe), self._move_coordinator),
            _Path("POST", "/kohort/coordinators/load", _form(group=group, duration=duration), self._load),
            _Path("POST", "/kohort/leaders/move", _form(topic=topic, partition=INT, to=maybe), self._move_leader),
            _Path("POST", "/kohort/topics/grow", _form(topic=topic, partitions=INT), self._grow),
            _Path("POST", "/kohort/topics/recreate", _form(topic=topic, partitions=maybe), self._recreate),
            _Path("POST", "/kohort/disks/slow", slowness, self._slow_disk),
            _Path("POST", "/kohort/disks/fill", outage, self._fill_disk),
            _Path("POST", "/kohort/disks/fail", outage, self._fail_disk),
            _Path("DELETE", "/kohort/disks", None, self._heal_disks),
            _Path("POST", "/kohort/snapshots", None, self._take_snapshot),
            _Path("POST", "/kohort/snapshots/{id}/restore", None, self._restore),
            _Path("DELETE", "/kohort/snapshots/{id}", None, self._delete_snapshot),
            _Path("GET", "/kohort/journal", None, self._journal),
            _Path("GET", "/kohort/journal/{group}", None, self._journal),
            _Path("GET", "/kohort/invariants", None, self._list_violations),
            _Path("DELETE", "/kohort/invariants", None, self._forget_violations),
        )

    @property
    def routes(self) -> list[Route]:
        """The routes of all paths."""
        return [Route(path.method, path.path, partial(_serve, path)) for path in self._paths]

    def _help(self) -> Any:
        return {
            "paths": [
                {
                    "method": path.method,
                    "path": path.path,
                    "members": {} if path.form is None else {name: of.name for name, of in path.form.members.items()},
                }
                for path in self._paths
            ]
        }

    # Time

    def _advance(self, by: str, dead: list[str]) -> Any:
        self._cluster.advance(_milliseconds("by", by), dead=dead)
        return {}

    def _scale(self, rate: float) -> Any:
        try:
            self._cluster.scale_time(rate)
        except ValueError as error:
            raise usage(str(error)) from None
        return {}

    # Faults

    def _add_faults(self, rules: list[Mapping[str, Any]]) -> Any:
        if not rules:
            raise usage("no rules given")
        made, shown = [], []
        for place, given in enumerate(rules, 1):
            named = {name: value for name, value in (given or {}).items() if value is not None}
            arguments: Selectors = {**named}  # type: ignore[typeddict-item]
            if named.get("cut") == _HALF:
                arguments["cut"] = True
            if "delay" in named:
                del arguments["delay"]  # type: ignore[typeddict-item]
                arguments["delay_ms"] = _milliseconds(f"rule {place}: delay", named["delay"])
            try:
                made.append(rule_of(**arguments))
            except ConfigError as error:
                raise usage(f"rule {place}: {error}") from None
            shown.append({"count": 1, **named})
        return self._faults.install(made, shown)

    def _release(self, number: str) -> Any:
        self._faults.find(number).release()
        return {}

    # Groups

    def _expire(self, group: str, member: str) -> Any:
        return {"member": self._cluster.expire_member(group, member)}

    def _fence(self, group: str, instance_id: str) -> Any:
        return {"member": self._cluster.fence_instance(group, instance_id)}

    def _move_coordinator(self, group: str, to: int | None) -> Any:
        self._cluster.move_coordinator(group, to=to)
        return {}

    def _load(self, group: str, duration: str) -> Any:
        self._cluster.load_coordinator(group, _milliseconds("duration", duration))
        return {}

    # Topics

    def _move_leader(self, topic: str, partition: int, to: int | None) -> Any:
        self._cluster.move_leader(topic, partition, to)
        return {}

    def _grow(self, topic: str, partitions: int) -> Any:
        self._cluster.grow_topic(topic, partitions)
        return {}

    def _recreate(self, topic: str, partitions: int | None) -> Any:
        return {"topic_id": self._cluster.recreate_topic(topic, partitions).hex}

    # Reports

    def _journal(self, group: str | None = None) -> Any:
        found = [record for record in self._cluster.rebalances if group in (None, record.group_id)]
        return {"rebalances": [json.loads(record.to_json()) for record in found]}

    def _list_violations(self) -> Any:
        return {
            "violations": [
                {
                    "invariant": each.invariant.value,
                    "fault": each.fault.value,
                    "group": each.group,
                    "client_id": each.client_id,
                    "what": each.what,
                    "why": each.why,
                }
                for each in self._cluster.violations
            ]
        }

    def _forget_violations(self) -> Any:
        return {"removed": len(self._cluster._take_violations(lambda violation: True))}

    # Disks

    def _slow_disk(self, sync: str, node: int | None, duration: str | None) -> Any:
        added = _milliseconds("sync", sync)
        return self._began(lambda ms: self._cluster.slow_disk(added, node_id=node, ms=ms), node, duration)

    def _fill_disk(self, node: int | None, duration: str | None) -> Any:
        return self._began(lambda ms: self._cluster.fill_disk(node_id=node, ms=ms), node, duration)

    def _fail_disk(self, node: int | None, duration: str | None) -> Any:
        return self._began(lambda ms: self._cluster.fail_disk(node_id=node, ms=ms), node, duration)

    def _began(self, begin: Callable[[int | None], Undoable], node: int | None, duration: str | None) -> Any:
        if node is not None:
            self._cluster._run(lambda: self._cluster.node_with(node))
        outage = begin(None if duration is None else _milliseconds("duration", duration))
        if duration is None:
            self._disks.append(outage)
        return {}

    def _heal_disks(self) -> Any:
        outages, self._disks = self._disks, []
        for outage in outages:
            outage.undo()
        return {"removed": len(outages)}

    # Snapshots

    def _take_snapshot(self) -> Any:
        if len(self._snapshots) >= _MOST_SNAPSHOTS:
            raise KohortError(f"there are {_MOST_SNAPSHOTS} snapshots: delete one before the next")
        taken = self._cluster.snapshot()
        self._last_snapshot += 1
        self._snapshots[self._last_snapshot] = taken
        return {"id": self._last_snapshot}

    def _restore(self, number: str) -> Any:
        self._cluster.restore(self._snapshot(number))
        return {}

    def _delete_snapshot(self, number: str) -> Any:
        self._snapshot(number)
        del self._snapshots[int(number)]
        return {"removed": 1}

    def _snapshot(self, number: str) -> Snapshot:
        found = self._snapshots.get(int(number)) if number.isdecimal() and len(number) < _LONGEST_ID else None
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, f"no snapshot {number}")
        return found


def _serve(path: _Path, request: Request) -> Any:
    try:
        members = {} if path.form is None else path.form.read(parse_json(request.body))
    except GoError as error:
        raise usage(str(error)) from None
    try:
        return path.handle(*request.values, **members)
    except KafkaError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"{error.code.name}: {error.sentence}") from None


def _milliseconds(name: str, text: str) -> int:
    try:
        nanoseconds = parse_duration(text)
    except GoError as error:
        raise usage(f"{name} {quote(text)}: {error}") from None
    if nanoseconds < 0:
        raise usage(f"{name} {quote(text)}: time does not go back")
    return nanoseconds // 1_000_000
