"""The fault sets of the endpoint: rules in kcl's form, what they become, and which of them are installed.

A set is what one POST /faults installs. It stays listed when all its rules are spent, until it is deleted.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from kohort.errors import ErrorCode
from kohort.testing.fake.go_values import (
    BOOL,
    INT,
    INT32,
    STRING,
    GoError,
    ListOf,
    Struct,
    members_of,
    parse_uuid,
    print_duration,
    quote,
)
from kohort.testing.fake.http import Problem, Request, usage
from kohort.testing.rules import Fail, Observe, Rule
from kohort.wire.messages.api_key import ApiKey

_MEMBERS = {
    "keys": ListOf(STRING),
    "nodes": ListOf(INT32),
    "topic": STRING,
    "topic_id": STRING,
    "partitions": ListOf(INT32),
    "group": STRING,
    "txn_id": STRING,
    "resource": STRING,
    "top_level": BOOL,
    "error": STRING,
    "count": INT,
    "observe": BOOL,
}
RULE = Struct("fake.Rule", _MEMBERS, {})
"""A rule as JSON has it."""

_OTHER_REQUESTS: Mapping[int, str] = {
    4: "LeaderAndISR",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    45: "AlterPartitionAssignments",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    59: "FetchSnapshot",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIDs",
    70: "ControllerRegistration",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    73: "AssignReplicasToDirs",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
"""Requests that brokers of Apache Kafka know and Kohort does not serve, and another name of one that it does."""

_REQUESTS = {key.name.replace("_", "").lower(): int(key) for key in ApiKey} | {
    name.lower(): key for key, name in _OTHER_REQUESTS.items()
}
_ERRORS = {code.name: code for code in ErrorCode if code != ErrorCode.NONE} | {
    "NOT_LEADER_FOR_PARTITION": ErrorCode.NOT_LEADER_OR_FOLLOWER  # the name before Kafka 2.6
}


class InstalledRules(Protocol):
    """The rules of one set, as the brokers have them."""

    @property
    def hits(self) -> int:
        """How many requests the rules have answered or counted."""
        ...

    @property
    def left(self) -> int:
        """How many requests the rules still answer or count; -1 for any number."""
        ...

    def release(self) -> None:
        """Let what the rules hold go on."""
        ...

    def remove(self) -> object:
        """Remove the rules."""
        ...


Install = Callable[[Sequence[Rule]], InstalledRules]

_NO_NODE = -1


def read_rule(given: Mapping[str, Any]) -> Rule:
    """Check a rule that `RULE` has read. Raises GoError."""
    if given["observe"] and given["error"]:
        raise GoError("observe and error are exclusive")
    keys = frozenset(_request_key(name) for name in given["keys"])
    known = frozenset(ApiKey(key) for key in keys if key in set(ApiKey))
    topic_id = None
    if given["topic_id"]:
        try:
            topic_id = parse_uuid(given["topic_id"])
        except GoError as error:
            raise GoError(f"topic_id {quote(given['topic_id'])}: {error}") from None
    if given["top_level"] and (given["topic"] or topic_id or given["partitions"] or given["resource"]):
        raise GoError("top_level selects only on group and txn_id")
    error_code = _error_code(given["error"]) if given["error"] else ErrorCode.UNKNOWN_SERVER_ERROR
    nodes = frozenset(given["nodes"])
    return Rule(
        keys=known,
        # No broker gets requests that none of them serves.
        nodes=frozenset({_NO_NODE}) if keys and not known else nodes,
        topic=given["topic"] or None,
        topic_id=topic_id,
        partitions=frozenset(given["partitions"]),
        group=given["group"] or None,
        txn_id=given["txn_id"] or None,
        resource=given["resource"] or None,
        top_level=given["top_level"],
        count=-1 if given["count"] < 0 else given["count"] or 1,
        action=Observe() if given["observe"] else Fail(error_code),
    )


def _request_key(name: str) -> int:
    if name.lower() in _REQUESTS:
        return _REQUESTS[name.lower()]
    number = _int16(name)
    if number is None:
        raise GoError(f"unknown request {quote(name)}")
    if number not in _REQUESTS.values():
        raise GoError(f"unknown request key {number}")
    return number


def _error_code(name: str) -> ErrorCode:
    if name.upper() in _ERRORS:
        return _ERRORS[name.upper()]
    number = _int16(name)
    if number is None:
        raise GoError(f"unknown error {quote(name)}")
    if number not in _ERRORS.values():
        raise GoError(f"unknown error code {number}")
    return ErrorCode(number)


def _int16(text: str) -> int | None:
    if not text.lstrip("+-").isdecimal() or not text.isascii() or len(text) > 8:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(1 << 15) <= number < 1 << 15 else None


def normalized(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule with its defaults, as kcl prints it: names and numbers stay as they were written."""
    error = given["error"] or ("" if given["observe"] else ErrorCode.UNKNOWN_SERVER_ERROR.name)
    return members_of({**given, "count": given["count"] or 1, "error": error}, list(_MEMBERS))


@dataclass(frozen=True, slots=True)
class _FaultSet:
    """One set."""

    number: int
    rules: Sequence[Mapping[str, Any]]
    """As they are listed."""
    installed: InstalledRules


class FaultSets:
    """The sets of one endpoint."""

    def __init__(self, install: Install) -> None:
        self._install = install
        self._lock = threading.Lock()
        self._sets: dict[int, _FaultSet] = {}
        self._last = 0

    def add(self, given: Sequence[Mapping[str, Any]]) -> Any:
        """Install a set of rules. Raises Problem."""
        if not given:
            raise usage("no rules given")
        rules = []
        for place, rule in enumerate(given, 1):
            try:
                rules.append(read_rule(rule))
            except GoError as error:
                raise usage(f"rule {place}: {error}") from None
        return self.install(rules, [normalized(rule) for rule in given])

    def install(self, rules: Sequence[Rule], shown: Sequence[Mapping[str, Any]]) -> Any:
        """Install rules that are listed in this form."""
        with self._lock:
            installed = self._install(rules)
            self._last += 1
            self._sets[self._last] = _FaultSet(self._last, shown, installed)
            return {"id": self._last, "rules": list(shown), "hits": 0, "left": 0}  # 0 even if some are left, as in kcl

    def listed(self) -> Any:
        """Return all sets with their hits."""
        with self._lock:
            sets = list(self._sets.values())
        found = [
            {"id": each.number, "rules": each.rules, "hits": each.installed.hits, "left": each.installed.left}
            for each in sets
        ]
        return {"faults": found}

    def remove_all(self) -> Any:
        """Remove all sets."""
        with self._lock:
            sets, self._sets = self._sets, {}
            for each in sets.values():
                each.installed.remove()
        return {"removed": len(sets)}

    def remove(self, number: str) -> Any:
        """Remove one set. Raises Problem."""
        with self._lock:
            found = self._found(number)
            del self._sets[found.number]
            found.installed.remove()
        return {"removed": 1}

    def find(self, number: str) -> InstalledRules:
        """Return the rules of a set. Raises Problem."""
        with self._lock:
            return self._found(number).installed

    @staticmethod
    def wait(rules: InstalledRules, hits: int, timeout_ns: int, request: Request) -> Any:
        """Wait until the rules have that many hits. Raises Problem, Deserted."""
        reached = request.wait(lambda: now if (now := rules.hits) >= hits else None, timeout_ns / 1e9)
        if reached is None:
            waited = f"timed out after {print_duration(timeout_ns)} waiting for {hits} hit(s), have {rules.hits}"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, waited)
        return {"hits": reached}

    def _found(self, number: str) -> _FaultSet:
        digits = number.lstrip("+-")
        if not (digits.isdecimal() and digits.isascii() and len(number) < 20 and len(number) - len(digits) <= 1):
            raise usage(f"fault ID {quote(number)} is not a number")
        found = self._sets.get(int(number))
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, f"no fault {int(number)}")
        return found
